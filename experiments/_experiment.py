"""What all experiments share: three verbs (run, collect, plot), results as JSON, and verdicts.

An experiment is a list of units of work, a function that measures one unit, a function that judges the
paper's claims from the rows, and a function that draws pictures from them. `run` keeps the rows after every
unit and continues where it stopped; `collect` and `plot` need nothing but the JSON.

    python experiments/figure3_cosine.py run --profile smoke     # or full, what is committed
    python experiments/figure3_cosine.py collect                 # verdicts from the JSON
    python experiments/figure3_cosine.py plot                    # pictures from the JSON
"""

import argparse
import json
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]
Unit = dict[str, Any]

# 97.5 % quantiles of Student's t by degrees of freedom: a difference of means over few seeds needs them.
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


@dataclass(frozen=True)
class Verdict:
    """What the results say about one claim of the paper: holds, does not hold, or undecided."""

    claim: str
    setting: str
    verdict: str
    evidence: str


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper. `units(profile)` lists the work, profile is "smoke" or "full"."""

    name: str
    title: str
    units: Callable[[str], list[Unit]]
    measure: Callable[[Unit], list[Row]]
    verdicts: Callable[[list[Row]], list[Verdict]]
    draw: Callable[[list[Row]], dict[str, Any]]  # file name -> matplotlib Figure


def path_of(experiment: Experiment, profile: str, folder: Path = RESULTS) -> Path:
    """Where the rows of a profile are kept."""
    return folder / experiment.name / f"{profile}.json"


def load(experiment: Experiment, profile: str = "full", folder: Path = RESULTS) -> list[Row]:
    """The rows of a finished or unfinished run."""
    done = json.loads(path_of(experiment, profile, folder).read_text())["units"]
    return [row for unit in done for row in unit["rows"]]


def missing(experiment: Experiment, profile: str, folder: Path = RESULTS) -> list[Unit]:
    """The units that have no result yet, in their order."""
    path = path_of(experiment, profile, folder)
    kept = json.loads(path.read_text())["units"] if path.exists() else []
    finished = {json.dumps(unit["unit"], sort_keys=True) for unit in kept}
    return [unit for unit in experiment.units(profile) if json.dumps(unit, sort_keys=True) not in finished]


def run(
    experiment: Experiment, profile: str = "full", folder: Path = RESULTS, minutes: float | None = None
) -> bool:
    """Measure what is still missing, for at most `minutes`; True if nothing is left."""
    import torch
    from rich.progress import Progress

    from binaryduo._common.allocator import keep_memory

    keep_memory()
    path = path_of(experiment, profile, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = {"units": []}
    if path.exists():
        kept = json.loads(path.read_text())
    kept.update(experiment=experiment.name, profile=profile, torch=torch.__version__)
    kept["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    finished = {json.dumps(unit["unit"], sort_keys=True) for unit in kept["units"]}
    units = experiment.units(profile)
    begin = time.perf_counter()
    with Progress() as progress:
        task = progress.add_task(experiment.name, total=len(units))
        for unit in units:
            if json.dumps(unit, sort_keys=True) not in finished:
                if minutes is not None and time.perf_counter() - begin > 60 * minutes:
                    return False
                started = time.perf_counter()
                rows = experiment.measure(unit)
                seconds = round(time.perf_counter() - started, 2)
                kept["units"].append({"unit": unit, "seconds": seconds, "rows": rows})
                path.write_text(dump(kept))
            progress.advance(task)
    return True


def dump(content: Any) -> str:
    """JSON with seven significant digits and one row a line: readable, and small in a repository."""

    def short(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.7g}") if math.isfinite(value) else None
        if isinstance(value, dict):
            return {key: short(v) for key, v in value.items()}
        if isinstance(value, list | tuple):
            return [short(v) for v in value]
        return value

    text = json.dumps(short(content), ensure_ascii=False)
    return (
        text.replace('{"unit": ', '\n{"unit": ')
        .replace('"rows": [{', '"rows": [\n {')
        .replace("}, {", "},\n {")
        + "\n"
    )


def collect(experiment: Experiment, profile: str = "full", folder: Path = RESULTS) -> list[Verdict]:
    """Judge the claims from the rows, print them and write verdicts.json beside them."""
    verdicts = experiment.verdicts(load(experiment, profile, folder))
    for verdict in verdicts:
        print(f"{verdict.verdict.upper():15} {verdict.claim} [{verdict.setting}]: {verdict.evidence}")
    if profile == "full":
        target = path_of(experiment, profile, folder).with_name("verdicts.json")
        content = json.dumps([asdict(v) for v in verdicts], indent=1, ensure_ascii=False)
        target.write_text(content + "\n")
    return verdicts


def plot(experiment: Experiment, profile: str = "full", folder: Path = RESULTS) -> list[Path]:
    """Draw the pictures from the rows."""
    out = []
    for name, figure in experiment.draw(load(experiment, profile, folder)).items():
        out.append(path_of(experiment, profile, folder).with_name(name))
        figure.savefig(out[-1], dpi=120)
        print(out[-1])
    return out


def main(experiment: Experiment, estimate: Callable[[list[Unit]], float] | None = None) -> None:
    """The command line of an experiment."""
    parser = argparse.ArgumentParser(description=experiment.title)
    parser.add_argument("verb", choices=["run", "collect", "plot"])
    parser.add_argument("--profile", choices=["smoke", "full", "hours"], default="full")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where results are kept")
    parser.add_argument("--minutes", type=float, help="stop a run after this long; run again to continue")
    parser.add_argument("--runs", type=Path, help="where trainings are kept, for experiments that train")
    arguments = parser.parse_args()
    if arguments.runs is not None:
        import _training

        _training.SETTINGS.runs = arguments.runs
    if arguments.verb == "run":
        if estimate is not None:
            todo = missing(experiment, arguments.profile, arguments.folder)
            print(f"{len(todo)} units to do, about {estimate(todo) / 3600:.1f} hours", flush=True)
        complete = run(experiment, arguments.profile, arguments.folder, arguments.minutes)
        print("complete" if complete else "not complete: run the same command again to continue")
    elif arguments.verb == "collect":
        collect(experiment, arguments.profile, arguments.folder)
    else:
        plot(experiment, arguments.profile, arguments.folder)


# --- judging ------------------------------------------------------------------------------------------


def margin(differences: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of the 95 % interval of paired differences over seeds."""
    count = len(differences)
    if count < 2:  # no spread to judge by
        return mean(differences) if differences else math.nan, math.inf
    return mean(differences), _T.get(count - 1, 2.0) * stdev(differences) / math.sqrt(count)


def judge(differences: Sequence[float]) -> str:
    """Is the mean above zero? "holds" / "does not hold" if the interval says so, else "undecided"."""
    middle, half = margin(differences)
    if middle - half > 0:
        return "holds"
    return "does not hold" if middle + half < 0 else "undecided"


def all_of(parts: Sequence[str]) -> str:
    """A claim about several things holds if each does, and fails if one does not."""
    if "does not hold" in parts:
        return "does not hold"
    return "undecided" if "undecided" in parts else "holds"


def by_seed(rows: Sequence[Row], layer: str) -> dict[int, float]:
    """A layer's cosine by seed."""
    return {row["seed"]: row["cosine"][layer] for row in rows if row["cosine"][layer] is not None}


def differences(high: Sequence[Row], low: Sequence[Row], layer: str) -> list[float]:
    """Paired over seeds: high minus low."""
    a, b = by_seed(high, layer), by_seed(low, layer)
    return [a[seed] - b[seed] for seed in sorted(a) if seed in b]
