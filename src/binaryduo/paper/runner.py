"""The three verbs of an experiment: run measures what is missing, collect judges the claims, plot draws."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from binaryduo._common.allocator import keep_memory
from binaryduo._common.files import write_synced
from binaryduo._common.locks import alone
from binaryduo._common.progress import say
from binaryduo.errors import ArgumentError, BinaryDuoError, BusyError
from binaryduo.paper.claims import claimed, remove_ended
from binaryduo.paper.experiment import Unit, Verdict, Workspace
from binaryduo.paper.registry import find
from binaryduo.paper.results import Results, dump, folder, kept_units, missing, path_of, read, read_best

DPI = 120


def estimate(
    name: str, profile: str | None, results: Path, place: Workspace
) -> tuple[list[float] | None, str]:
    """(seconds that each missing unit will take here, how that is known); None where nothing is known."""
    todo = missing(name, profile, results)
    if not todo:
        return [], "nothing is left to do"
    experiment = find(name)
    if experiment.estimate is not None:
        return experiment.estimate(todo, place), "from training steps measured just now"
    before = read(name, profile, results) or read(name, profile, folder())
    if before is not None and before.done:
        each = before.seconds / before.done
        return [each] * len(todo), f"from results measured on {before.machine}"
    return None, "nothing like it was measured yet"


def run(
    name: str,
    profile: str | None,
    results: Path,
    place: Workspace | None = None,
    minutes: float | None = None,
    after: Callable[[int, float], None] = lambda left, seconds: None,
) -> bool:
    """Measure what is missing, unit by unit, and begin none after `minutes`; True if nothing is left.

    `after(units left, seconds that the last one took)` is called whenever a unit is kept. Other processes may do the
    same at the same time: a unit that one of them has is passed over, and what it finds is kept beside ours. A unit
    whose training is going on elsewhere is tried again once all others are done; if it still is, that is said.
    """
    experiment = find(name)
    own = experiment.profile(profile)
    place = Workspace() if place is None else place
    keep_memory()
    path = path_of(name, own, results)
    path.parent.mkdir(parents=True, exist_ok=True)
    begin, busy = time.perf_counter(), list[Unit]()
    todo = missing(name, own, results)
    for count, unit in enumerate(chain(todo, busy)):  # those that were busy once more, at the end
        started = time.perf_counter()
        if minutes is not None and started - begin > 60 * minutes:
            return False
        with claimed(unit, path) as ours:
            if not ours or unit not in missing(name, own, results):  # another process has it, or has done it
                continue
            try:
                rows = experiment.measure(unit, place)
            except BusyError as error:  # two units, also of two experiments, may be of one training
                if count < len(todo):
                    busy.append(unit)
                else:
                    say(f"{name}: {error}")
                continue
            seconds = time.perf_counter() - started
            _keep({"unit": unit, "seconds": round(seconds, 2), "rows": rows}, name, own, results)
        after(len(missing(name, own, results)), seconds)
    remove_ended(experiment.units(own), path)
    return not missing(name, own, results)


def _keep(unit: dict[str, Any], name: str, profile: str, results: Path) -> None:
    """Write a unit with its rows beside those that are there by now."""
    import torch

    path = path_of(name, profile, results)
    with alone(path.with_suffix(".lock")):
        content = kept_units(name, profile, results)
        content.update(experiment=name, profile=profile, torch=torch.__version__)
        content["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
        content["units"].append(unit)
        write_synced(path, dump(content).encode())


def collect(name: str, profile: str | None, results: Path) -> list[Verdict]:
    """Judge the claims from the rows, of the most telling profile there is, and keep the verdicts beside them."""
    found = _existing(name, profile, results)
    with _whole_rows(found, name):
        verdicts = find(name).verdicts(found.rows)
    if found.profile != "smoke":
        content = json.dumps([asdict(verdict) for verdict in verdicts], indent=1, ensure_ascii=False)
        target = results / name / "verdicts.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_synced(target, (content + "\n").encode())
    return verdicts


def summary(name: str, profile: str | None, results: Path) -> str | None:
    """The experiment's own account of its rows, where it has one."""
    numbers = find(name).numbers
    return None if numbers is None else numbers(_existing(name, profile, results).rows)


def plot(name: str, profile: str | None, results: Path) -> list[Path]:
    """Draw the pictures from the rows, beside them."""
    found = _existing(name, profile, results)
    out = []
    with _whole_rows(found, name):
        figures = find(name).draw(found.rows)
    for file, figure in figures.items():
        path = results / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DPI, metadata={"Software": None})
        out.append(path)
    return out


@contextmanager
def _whole_rows(found: Results, name: str) -> Iterator[None]:
    """Rows that lack what every row has are damaged, or another experiment's; too few of them cannot be judged yet."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, BinaryDuoError):
            raise
        if not found.complete:
            raise ArgumentError(
                f"{found.done} of {found.total} parts of {name} are done, too few to judge or draw: run the rest "
                f"first; if that does not help, its rows are damaged ({type(problem).__name__}: {problem})"
            ) from problem
        raise ArgumentError(
            f"the rows of {name} are not whole ({type(problem).__name__}: {problem}): move its results away, and run "
            "it again"
        ) from problem


def _existing(name: str, profile: str | None, results: Path) -> Results:
    found = read_best(name, results) if profile is None else read(name, profile, results)
    if found is not None and found.rows:
        return found
    first = find(name).sources
    what = f"it is drawn from {', '.join(first)}, run them first" if first else "run it first"
    raise ArgumentError(f"{name} has no results of the profile {find(name).profile(profile)} yet: {what}")
