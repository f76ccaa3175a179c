"""One look for every progress bar: what, how far, how fast, how long still."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from binaryduo._common.text import printable

T = TypeVar("T")

# One console on stderr, so that what a command prints on stdout can be piped into a file.
console = Console(stderr=True, soft_wrap=True)


def say(text: str) -> None:
    """A sentence on stderr, beside the progress bars; what a file brings in cannot steer the terminal."""
    console.print(printable(text), markup=False, highlight=False)


@contextmanager
def bar(*columns: TextColumn, shown: bool = True) -> Iterator[Progress]:
    """A progress display that is drawn on a terminal only: a log file gets no control characters."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (shown and sys.stderr.isatty()),
    ) as display:
        yield display


def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The items, with a bar that moves as they are taken.

    >>> sum(track([1, 2, 3], "adding", total=3))
    6
    """
    with bar() as display:
        task = display.add_task(what, total=total)
        for item in items:
            yield item
            display.advance(task)
