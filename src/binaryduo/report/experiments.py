"""The experiments of a source checkout: find them, run them, judge and draw what they measured.

An experiment is a Python file of the folder `experiments` with an `EXPERIMENT` (units of work, how to measure one,
verdicts, pictures). Its results are `results/<name>/<profile>.json` below that folder.
"""

import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import binaryduo
from binaryduo.errors import ArgumentError

Profile = Literal["smoke", "cpu", "hours", "paper"]
PROFILES: tuple[Profile, ...] = ("smoke", "cpu", "hours", "paper")
Row = dict[str, Any]


def folder() -> Path:
    """The folder of the experiments: $BINARYDUO_EXPERIMENTS, ./experiments, or the one of the source checkout.

    >>> (folder() / "_experiment.py").exists()
    True
    """
    given = os.environ.get("BINARYDUO_EXPERIMENTS")
    checkout = Path(binaryduo.__file__).parents[2] / "experiments"
    places = [Path(given)] if given else [Path("experiments").resolve(), checkout]
    for place in places:
        if (place / "_experiment.py").exists():
            return place
    raise ArgumentError(
        f"the experiments are not in {' nor in '.join(map(str, places))}: run this in a checkout of the source, or "
        "name their folder in BINARYDUO_EXPERIMENTS"
    )


def module(name: str) -> ModuleType:
    """The Python module of an experiment, or of what they share (`_experiment`)."""
    place = str(folder())
    if place not in sys.path:
        sys.path.insert(0, place)
    return importlib.import_module(name)


def exists(name: str) -> bool:
    """Whether there is such an experiment."""
    return (folder() / f"{name}.py").exists()


def own_profile(name: str, profile: str) -> str:
    """What an experiment calls a profile: those that train have all three, the others are run in `full`.

    >>> own_profile("figure5_architectures", "paper"), own_profile("figure1a_precision", "cpu")
    ('full', 'cpu')
    """
    if trains(name) or profile == "smoke":
        return profile
    return "full"


def trains(name: str) -> bool:
    """Whether the experiment trains networks, alone or through those it is drawn from."""
    loaded = module(name)
    return hasattr(loaded, "estimate") or any(trains(source) for source in sources(name) if exists(source))


def sources(name: str) -> tuple[str, ...]:
    """The experiments whose rows this one is drawn from; most have rows of their own."""
    found: tuple[str, ...] = getattr(module(name), "SOURCES", ())
    return found


@dataclass(frozen=True)
class Results:
    """The rows of one experiment, and how complete they are."""

    profile: str
    rows: list[Row]
    done: int
    total: int
    seconds: float
    machine: str


def read(name: str, profile: str, results: Path | None = None) -> Results | None:
    """What was measured of a profile; None if nothing was."""
    results = folder() / "results" if results is None else results
    if names := sources(name):
        parts = [
            read_best(s, results) if profile != "smoke" else read(s, "smoke", results)
            for s in names
            if exists(s)
        ]
        found = [part for part in parts if part is not None and part.rows]
        if not found:
            return None
        rows = [row for part in found for row in part.rows]
        done, total = sum(part.done == part.total for part in found), len(names)
        trained = next((p.profile for p in found if p.profile in PROFILES), found[0].profile)
        return Results(trained, rows, done, total, sum(p.seconds for p in found), found[0].machine)
    own = own_profile(name, profile)
    path = results / name / f"{own}.json"
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    units = content["units"]
    wanted = [json.dumps(unit, sort_keys=True) for unit in module(name).EXPERIMENT.units(own)]
    done = len({json.dumps(u["unit"], sort_keys=True) for u in units} & set(wanted))
    rows = [row for u in units for row in u["rows"]]
    seconds = sum(u["seconds"] for u in units)
    return Results(own, rows, done, len(wanted), seconds, content.get("machine", ""))


def read_best(name: str, results: Path | None = None) -> Results | None:
    """The most telling results there are: the paper's setting before the reduced one, finished before unfinished."""
    found = [
        part
        for profile in ("paper", "cpu")
        if (part := read(name, profile, results)) is not None and part.rows
    ]
    return next((part for part in found if part.done == part.total), found[0] if found else None)


def verdicts(name: str, rows: Sequence[Row]) -> list[Any]:
    """What the rows say about the paper's claims."""
    return list(module(name).EXPERIMENT.verdicts(list(rows)))


def missing_units(name: str, profile: str, results: Path | None = None) -> list[dict[str, Any]]:
    """The work that is still to do."""
    results = folder() / "results" if results is None else results
    own = own_profile(name, profile)
    path = results / name / f"{own}.json"
    kept = json.loads(path.read_text())["units"] if path.exists() else []
    finished = {json.dumps(unit["unit"], sort_keys=True) for unit in kept}
    units: list[dict[str, Any]] = module(name).EXPERIMENT.units(own)
    return [unit for unit in units if json.dumps(unit, sort_keys=True) not in finished]


def estimate(name: str, profile: str, results: Path | None = None) -> tuple[float | None, str]:
    """(seconds that the missing work will take here, how that is known); None where nothing is known."""
    todo = missing_units(name, profile, results)
    if not todo:
        return 0.0, "nothing is left to do"
    loaded = module(name)
    if hasattr(loaded, "estimate"):
        return float(loaded.estimate(todo)), "from training steps measured just now"
    before = read(name, profile)
    if before is not None and before.done:
        each = before.seconds / before.done
        return each * len(todo), f"from the committed results, measured on {before.machine}"
    return None, "nothing like it was measured yet"


def run(name: str, profile: str, results: Path | None = None, minutes: float | None = None) -> bool:
    """Measure what is missing, unit by unit; True when nothing is left."""
    if sources(name):
        return True
    results = folder() / "results" if results is None else results
    shared = module("_experiment")
    experiment = module(name).EXPERIMENT
    return bool(shared.run(experiment, own_profile(name, profile), results, minutes))


def no_results(name: str, profile: str) -> ArgumentError:
    """The error for an experiment that was not run."""
    first = sources(name)
    what = f"it is drawn from {', '.join(first)}, run them first" if first else "run it first"
    return ArgumentError(f"{name} has no results of the profile {profile} yet: {what}")


def plot(name: str, profile: str, results: Path | None = None) -> list[Path]:
    """Draw the pictures from the rows, beside them."""
    results = folder() / "results" if results is None else results
    found = read(name, profile, results)
    if found is None or not found.rows:
        raise no_results(name, profile)
    out = []
    for file, figure in module(name).EXPERIMENT.draw(found.rows).items():
        path = results / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, metadata={"Software": None})
        out.append(path)
    return out
