"""A progress bar for work that reports how much of it is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr while the block runs, with the time left; call what it gives with (done, total)."""
    from binaryduo._common.progress import bar

    with bar() as display:
        task = display.add_task(description, total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)
