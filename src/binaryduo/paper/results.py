"""Where the rows of experiments are kept, what is there, and how complete it is.

Rows are `<name>/<profile>.json` in the folder of results. A source checkout has those that were committed; an
installed package has none, and begins its own.
"""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import binaryduo
from binaryduo._common.hostile import read_json
from binaryduo.errors import ArgumentError
from binaryduo.paper.experiment import PROFILES, Row, Unit
from binaryduo.paper.registry import find

OWN = Path("runs/reproduce/results")  # where there is no checkout


def checkout() -> Path | None:
    """The source checkout that the package is imported from, if it is."""
    place = Path(binaryduo.__file__).parents[2]
    return place if (place / "experiments" / "results").is_dir() else None


def folder(given: Path | None = None) -> Path:
    """The folder of results: the one given, $BINARYDUO_RESULTS, ./experiments/results, the checkout's, or our own.

    >>> folder(Path("mine"))
    PosixPath('mine')
    """
    if given is not None:
        return given
    if named := os.environ.get("BINARYDUO_RESULTS"):
        return Path(named)
    here, source = Path("experiments/results"), checkout()
    if here.is_dir():
        return here.resolve()
    return OWN if source is None else source / "experiments" / "results"


def documents() -> Path:
    """The folder `docs` of the checkout that we are in, or that the package is imported from."""
    for place in (Path.cwd(), checkout()):
        if place is not None and (place / "docs" / "paper_map.md").exists():
            return place / "docs"
    raise ArgumentError(
        "there is no docs/paper_map.md here: `binaryduo report --paper` writes the same as a page"
    )


@dataclass(frozen=True)
class Results:
    """The rows of one experiment, and how complete they are."""

    profile: str
    rows: list[Row]
    done: int
    total: int
    seconds: float
    machine: str

    @property
    def complete(self) -> bool:
        """Whether every unit of the profile is done."""
        return self.done == self.total


def key_of(unit: Unit) -> str:
    """Two units with the same settings have the same key, also where one was kept in a file.

    >>> key_of({"share": 1 / 3}) == key_of(json.loads(dump({"share": 1 / 3})))
    True
    """
    return json.dumps(_short(unit), sort_keys=True)


def path_of(name: str, profile: str, results: Path) -> Path:
    """Where the rows of a profile are kept."""
    return results / name / f"{profile}.json"


def kept_units(name: str, profile: str, results: Path) -> dict[str, Any]:
    """The content of a file of rows; one without units where there is no file yet."""
    path = path_of(name, profile, results)
    if not path.exists():
        return {"units": []}
    content = read_json(path, "the results", ArgumentError)
    if not isinstance(content, dict) or not _are_units(content.get("units")):
        raise ArgumentError(
            f"the results {path} do not hold units of work with their rows: they are damaged, or another file; move "
            "them away, and the same command measures what is missing"
        )
    return content


def _are_units(found: Any) -> bool:
    """Whether these are units with seconds and rows, as `run` keeps them."""
    return isinstance(found, list) and all(
        isinstance(unit, dict)
        and isinstance(unit.get("unit"), dict)
        and isinstance(unit.get("seconds"), int | float)
        and isinstance(unit.get("rows"), list)
        and all(isinstance(row, dict) for row in unit["rows"])
        for unit in found
    )


def missing(name: str, profile: str | None, results: Path) -> list[Unit]:
    """The units that have no result yet, in their order."""
    experiment = find(name)
    own = experiment.profile(profile)
    done = {key_of(unit["unit"]) for unit in kept_units(name, own, results)["units"]}
    return [unit for unit in experiment.units(own) if key_of(unit) not in done]


def read(name: str, profile: str | None, results: Path) -> Results | None:
    """What was measured of a profile's plan; None if nothing was. Units that the plan no longer has judge nothing."""
    experiment = find(name)
    if experiment.sources:
        return _read_sources(experiment.sources, profile, results)
    own = experiment.profile(profile)
    content = kept_units(name, own, results)
    wanted = {key_of(unit) for unit in experiment.units(own)}
    kept = {key: unit for unit in content["units"] if (key := key_of(unit["unit"])) in wanted}
    if not kept:
        return None
    rows = [row for unit in kept.values() for row in unit["rows"]]
    seconds = sum(unit["seconds"] for unit in kept.values())
    return Results(own, rows, len(kept), len(wanted), seconds, content.get("machine", ""))


def _read_sources(names: tuple[str, ...], profile: str | None, results: Path) -> Results | None:
    """The results of several experiments together, of one profile where all have it; a part is one experiment."""
    parts = [read(s, "smoke", results) for s in names] if profile == "smoke" else _alike(names, results)
    found = [part for part in parts if part is not None and part.rows]
    if not found:
        return None
    rows = [row for part in found for row in part.rows]
    trained = next((part.profile for part in found if part.profile != "full"), found[0].profile)
    complete = sum(part.complete for part in found)
    return Results(trained, rows, complete, len(names), sum(p.seconds for p in found), found[0].machine)


def _alike(names: tuple[str, ...], results: Path) -> list[Results | None]:
    """The most telling profile that all experiments have finished; without one, the best results of each."""
    for profile in reversed(PROFILES[1:]):
        parts = [read(name, profile, results) for name in names]
        if all(part is not None and part.complete for part in parts):
            return parts
    return [read_best(name, results) for name in names]


def read_best(name: str, results: Path) -> Results | None:
    """The most telling results there are: the paper's setting before the reduced one, finished before unfinished."""
    profiles = [None] if find(name).sources else reversed(find(name).profiles[1:])
    found = [part for profile in profiles if (part := read(name, profile, results)) is not None and part.rows]
    return next((part for part in found if part.complete), found[0] if found else None)


def dump(content: Any) -> str:
    """JSON with seven significant digits and one row a line: readable, and small in a repository."""
    text = json.dumps(_short(content), ensure_ascii=False)
    return (
        text.replace('{"unit": ', '\n{"unit": ')
        .replace('"rows": [{', '"rows": [\n {')
        .replace("}, {", "},\n {")
        + "\n"
    )


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _short(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_short(v) for v in value]
    return value
