"""SIGKILL at every fsync, rename, unlink and truncation, before and after it, and at random moments."""

import ctypes
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak.children import ended, forked
from tests.soak.small_run import memory_folder, orphans, quick
from tests.soak.verbs import carry_on, outcome


def with_shim(arguments: list[str]) -> None:
    """Start this program again with kill_at.c in front of the C library, unless it is there already."""
    if hasattr(ctypes.CDLL(None), "kill_at"):
        return
    folder = tempfile.mkdtemp(prefix="soak-")
    shim, source = f"{folder}/kill_at.so", Path(__file__).with_name("kill_at.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, "LD_PRELOAD": shim})


@dataclass(frozen=True)
class Killing:
    """Kills of one verb, in folders below `place`."""

    verb: str
    place: Path

    def start(self, folder: Path, number: int = 0, after: bool = False) -> int:
        """A child that does the work, killed at the call of that number, before or after it."""

        def work() -> None:
            if number:
                ctypes.CDLL(None).kill_at(ctypes.c_long(number), int(after))
            with quick():
                carry_on(self.verb, folder)

        return forked(work, self.place / "log")

    def whole(self) -> tuple[dict[str, Any], float]:
        """The outcome of work that is not disturbed, and how long it takes."""
        began = time.monotonic()
        if ended(self.start(self.place / "whole")):
            raise RuntimeError((self.place / "log").read_text())
        length = time.monotonic() - began
        with quick():
            return outcome(self.verb, self.place / "whole"), length

    def at_call(self, folder: Path, number: int, after: bool) -> bool:
        """Kill it there; False where there are not so many calls."""
        return ended(self.start(folder, number, after)) == -signal.SIGKILL

    def at_random(self, folder: Path, moments: random.Random, length: float) -> None:
        """Kill it one to three times, each time wherever it is then."""
        for _ in range(moments.randrange(1, 4)):
            pid = self.start(folder)
            time.sleep(moments.uniform(0, length))
            os.kill(pid, signal.SIGKILL)
            if ended(pid) != -signal.SIGKILL:
                return

    def finished(self, folder: Path, wanted: dict[str, Any]) -> str:
        """Continue what was killed to its end; what came of it."""
        if code := ended(self.start(folder)):
            said = (self.place / "log").read_text().strip().splitlines()
            return f"FAILED with {code}: {said[-1] if said else ''}"
        with quick():
            same = outcome(self.verb, folder) == wanted
        return "DIFFERENT" if not same else "ORPHANS" if orphans(folder) else "identical"


def results(verb: str, minutes: float, most: int | None = None, seed: int = 0) -> Iterator[tuple[str, str]]:
    """(where it was killed, what came of it): before and after every call, then at random until the time is over.

    `most`: of the first sixty calls so many are sampled, and as many random moments follow.
    """
    until, moments = time.monotonic() + 60 * minutes, random.Random(seed)
    with tempfile.TemporaryDirectory(dir=memory_folder()) as place:
        killing, folder = Killing(verb, Path(place)), Path(place) / "run"
        wanted, length = killing.whole()
        points = [(number, after) for number in range(1, 10_000) for after in (False, True)]
        if most is not None:
            points = sorted(moments.sample(points[:120], most))
        for count in itertools.count():
            if time.monotonic() > until or (most is not None and count >= 2 * most):
                return
            number, after = points.pop(0) if points else (0, False)
            if number and killing.at_call(folder, number, after):
                where = "after a call" if after else "before a call"
            else:
                points.clear()  # it has no more calls: go on at random
                where = "at random"
                shutil.rmtree(folder, ignore_errors=True)
                killing.at_random(folder, moments, length)
            yield where, killing.finished(folder, wanted)
            shutil.rmtree(folder, ignore_errors=True)


def table(found: list[tuple[str, str]]) -> str:
    """How often what came of a kill where."""
    counts = Counter(found)
    return "\n".join(
        f"{where:16s}{verdict:20s}{count:8d}" for (where, verdict), count in sorted(counts.items())
    )
