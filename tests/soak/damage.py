"""Every byte of a run's text files altered, sampled bytes of its tensors, every file deleted and cut short."""

import contextlib
import random
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from binaryduo.errors import BinaryDuoError
from binaryduo.training import Stage, schedule
from tests.soak.small_run import memory_folder, orphans, quick
from tests.soak.verbs import carry_on, outcome

TENSOR_BYTES = 1000  # sampled of each tensor file
VERDICTS = (
    "identical",
    "identical, with a sentence",
    "a sentence",
    "SILENT DIFFERENCE",
    "TRACEBACK",
    "ORPHANS",
)


@dataclass(frozen=True)
class Case:
    """One damage: a file, and what is done to it at which place."""

    file: str
    kind: str
    place: int = 0

    def apply(self, folder: Path) -> None:
        path = folder / self.file
        if self.kind == "deleted":
            path.unlink()
            return
        raw = bytearray(path.read_bytes())
        if self.kind == "cut":
            del raw[self.place :]
        else:
            raw[self.place] ^= 1 << random.Random(f"{self.file}{self.place}").randrange(8)
        path.write_bytes(bytes(raw))


def unfinished(verb: str, folder: Path) -> None:
    """A run that has stopped between two checkpoints of its last stage, with two of them and the best kept."""
    stop, rate = {"train": (0.01, 11), "duo": (0.003, 7)}[verb], schedule.rate

    def until_then(stage: Stage, step: int, *rest: int) -> float:
        if (stage.lr, step) == stop:
            raise KeyboardInterrupt
        return rate(stage, step, *rest)

    with quick(), contextlib.suppress(KeyboardInterrupt), mock.patch.object(schedule, "rate", until_then):
        carry_on(verb, folder)


def cases(folder: Path, seed: int = 0) -> list[Case]:
    """Every damage to a folder, in an order that mixes the files."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        places = range(size)
        if path.suffix == ".safetensors":
            places = sorted(random.Random(name).sample(range(size), min(TENSOR_BYTES, size)))
        found += [Case(name, "altered", place) for place in places]
        found += [
            Case(name, "cut", place) for place in sorted({0, 1, size // 2, size - 1}) if place < size > 0
        ]
        found.append(Case(name, "deleted"))
    random.Random(seed).shuffle(found)
    return found


def judged(verb: str, folder: Path, wanted: dict[str, Any]) -> tuple[str, str]:
    """What continuing the run in the folder comes to, and the sentence that was said, if any."""
    with quick() as said:
        try:
            carry_on(verb, folder)
            same = outcome(verb, folder) == wanted
        except BinaryDuoError as error:
            return "a sentence", str(error)
        except Exception as error:
            return "TRACEBACK", f"{type(error).__name__}: {error}"
    usual = ("continuing after step", ": epoch ", "decoupled: ")
    words = [line for line in said.getvalue().splitlines() if not any(part in line for part in usual)]
    if same:
        return ("identical, with a sentence" if words else "identical"), " ".join(words)
    return ("a sentence" if words else "SILENT DIFFERENCE"), " ".join(words)


def results(verb: str, minutes: float, most: int | None = None) -> Iterator[tuple[Case, str, str]]:
    """Each case with what came of it, until all are done or the time is over."""
    until = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(dir=memory_folder()) as place:
        whole, part, here = (Path(place) / name for name in ("whole", "part", "here"))
        with quick():
            carry_on(verb, whole)
            wanted = outcome(verb, whole)
        unfinished(verb, part)
        for case in cases(part)[:most]:
            shutil.copytree(part, here)
            case.apply(here)
            verdict, words = judged(verb, here, wanted)
            if verdict.startswith("identical") and orphans(here):
                verdict, words = "ORPHANS", ", ".join(orphans(here))
            yield case, verdict, words
            shutil.rmtree(here)
            if time.monotonic() > until:
                return


def table(found: list[tuple[Case, str, str]]) -> str:
    """How often what came of damage to which file."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case, verdict, _ in found:
        counts[f"{case.file} {case.kind}"][verdict] += 1
        counts["together"][verdict] += 1
    lines = [f"{'file':50s}" + "".join(f"{verdict:>28s}" for verdict in VERDICTS)]
    for name in sorted(counts, key=lambda name: (name == "together", name)):
        lines.append(f"{name:50s}" + "".join(f"{counts[name][verdict]:28d}" for verdict in VERDICTS))
    return "\n".join(lines)
