"""What the reduced searches share: each is run, its trials are collected, its tables and contours are drawn."""

import json
from pathlib import Path

from binaryduo._common.files import write_synced
from binaryduo.errors import ArgumentError
from binaryduo.paper.experiment import Records, Workspace
from binaryduo.paper.registry import as_typed
from binaryduo.search import Search, read_results
from binaryduo.search.outcome import write_outcome
from binaryduo.search.results import overhead


def records(name: str, title: str, search: Search) -> Records:
    """The verbs of an experiment that is one search; a search that was stopped continues."""

    def run(results: Path, place: Workspace, minutes: float | None) -> bool:
        if minutes is not None:
            raise ArgumentError(
                "a search has no --minutes: stop it with Ctrl-C, and the same command continues it"
            )
        return _run(search, results, place.runs / as_typed(name))

    return Records(name, title, run, best_of_each, _plot)


def _run(search: Search, results: Path, runs: Path) -> bool:
    """Train what is missing, minutes on two cores. This alone needs Optuna."""
    from binaryduo.search import run_search
    from binaryduo.search.local import SearchStopped

    try:
        found = {**run_search(search, runs), "overhead": overhead(runs)}
    except SearchStopped as stopped:
        print(stopped)
        return False
    results.mkdir(parents=True, exist_ok=True)
    write_synced(results / "results.json", (json.dumps(found, indent=1) + "\n").encode())
    return True


def best_of_each(results: Path) -> list[str]:
    """The best setting of each case, by its mean."""
    return [said for _, said in _bests(results)]


def best_of_all(results: Path) -> str | None:
    """The best setting of the best case; None where none is finished."""
    return max(_bests(results), default=(0.0, None))[1]


def _bests(results: Path) -> list[tuple[float, str]]:
    cases = json.loads((results / "results.json").read_text())["cases"].values()
    return [
        (case["best"]["mean"], f"{case['title']} {case['best']['mean']:.2f} (n {case['best']['n']})")
        for case in cases
        if case["best"] is not None
    ]


def _plot(results: Path) -> list[Path]:
    """Tables, contours and the comparison, from the JSON."""
    return write_outcome(read_results(results), results)
