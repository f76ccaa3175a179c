"""SIGKILL at every fsync, rename and unlink of a run, before and after it, and at random moments.

Each run is a child that is forked from this process, which has imported everything: a start costs milliseconds.
"""

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.soak.small_run import carry_on, orphans, outcome, quick

CALLS = ("fsync", "replace", "unlink")


def forked(work: Callable[[], object]) -> int:
    """The process id of a child that does the work."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            sys.stdout = sys.stderr = nowhere
            work()
        status = 0
    finally:
        os._exit(status)


def ended(pid: int) -> int:
    """The exit code of a child; negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killing_at(number: int, after: bool) -> None:
    """Let this process be killed at the call of that number, counted over all three kinds."""
    done = 0

    def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*arguments, **options)
            finally:  # also where there was nothing to remove
                if done == number and after:
                    os.kill(os.getpid(), signal.SIGKILL)

        return counted

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))


def run_once(verb: str, folder: Path, number: int = 0, after: bool = False) -> None:
    if number:
        killing_at(number, after)
    with quick():
        carry_on(verb, folder)


def finished(verb: str, folder: Path, wanted: dict[str, Any]) -> str:
    """Continue a killed run to its end; what came of it."""
    code = ended(forked(lambda: run_once(verb, folder)))
    if code:
        return f"FAILED with {code}"
    with quick():
        same = outcome(folder) == wanted
    return "DIFFERENT" if not same else "ORPHANS" if orphans(folder) else "identical"


def results(verb: str, minutes: float, most: int | None = None, seed: int = 0) -> Iterator[tuple[str, str]]:
    """(where it was killed, what came of it): before and after every call, then at random until the time is over."""
    until, moments = time.monotonic() + 60 * minutes, random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        began = time.monotonic()
        assert ended(forked(lambda: run_once(verb, whole))) == 0
        length = time.monotonic() - began
        with quick():
            wanted = outcome(whole)
        points = [(number, after) for number in range(1, 10_000) for after in (False, True)]
        if most is not None:
            points = sorted(moments.sample(points[:120], most))
        count, counted = 0, True
        while time.monotonic() < until and (most is None or count < 2 * most):
            folder = Path(place) / f"run{count}"
            count += 1
            if counted and points:
                number, after = points.pop(0)
                code = ended(forked(lambda f=folder, n=number, a=after: run_once(verb, f, n, a)))  # type: ignore[misc]
                where = "after a call" if after else "before a call"
                counted = code == -signal.SIGKILL  # the run has no more calls: go on at random
                if not counted:
                    continue
            else:
                where = "at random"
                for _ in range(moments.randrange(1, 4)):
                    pid = forked(lambda f=folder: run_once(verb, f))  # type: ignore[misc]
                    time.sleep(moments.uniform(0, length))
                    os.kill(pid, signal.SIGKILL)
                    if ended(pid) != -signal.SIGKILL:
                        break
            yield where, finished(verb, folder, wanted)


def table(found: list[tuple[str, str]]) -> str:
    """How often what came of a kill where."""
    counts = Counter(found)
    return "\n".join(
        f"{where:16s}{verdict:20s}{count:8d}" for (where, verdict), count in sorted(counts.items())
    )
