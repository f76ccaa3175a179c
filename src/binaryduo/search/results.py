"""What a search found, as plain JSON: every trial, each setting's mean ± deviation, and the best.

Everything that is drawn or tabulated comes from this JSON alone, and needs no Optuna; `collecting` makes it.
"""

import math
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from binaryduo._common.hostile import read_json
from binaryduo.errors import ArgumentError
from binaryduo.search.cases import Case, network_recipe, parse_case
from binaryduo.training.recipe import Recipe, from_dict

FORMAT = "binaryduo-search/1"
Row = dict[str, Any]


def settings_of(rows: list[Row]) -> list[Row]:
    """The settings, best first: mean and sample deviation over the repeats that were completed.

    A setting any of whose repeats failed is not ranked by the others: its mean would flatter it.

    >>> rows = [{"lr": 0.1, "weight_decay": 1.0, "value": v, "state": "complete"} for v in (80.0, 82.0)]
    >>> [(s["mean"], round(s["std"], 3), s["n"]) for s in settings_of(rows)]
    [(81.0, 1.414, 2)]
    """
    groups: dict[tuple[float, float], list[Row]] = defaultdict(list)
    for row in rows:
        if row["lr"] is not None:
            groups[row["weight_decay"], row["lr"]].append(row)
    found = []
    for (weight_decay, lr), members in groups.items():
        values = [row["value"] for row in members if row["state"] == "complete"]
        failed = sum(row["state"] == "failed" for row in members)
        found.append(
            {
                "weight_decay": weight_decay,
                "lr": lr,
                "mean": statistics.fmean(values) if values else None,
                "std": statistics.stdev(values) if len(values) > 1 else None,
                "n": len(values),
                "failed": failed,
            }
        )
    return sorted(found, key=_rank)


def _rank(setting: Row) -> tuple[bool, int, float]:
    """Complete settings by their mean, those with fewer repeats than others after them."""
    mean = setting["mean"]
    return (mean is None or setting["failed"] > 0, -setting["n"], math.inf if mean is None else -mean)


def ranked(settings: list[Row], count: int = 5) -> list[Row]:
    """The best settings, counting only those that have as many repeats as the most repeated one.

    >>> ranked([{"mean": 90.0, "n": 1, "failed": 0}, {"mean": 80.0, "n": 2, "failed": 0}])[0]["mean"]
    80.0
    """
    good = [s for s in settings if s["mean"] is not None and not s["failed"]]
    most = max((s["n"] for s in good), default=0)
    return sorted((s for s in good if s["n"] == most), key=_rank)[:count]


def best_setting(rows: list[Row]) -> Row | None:
    """The setting with the highest mean."""
    best = ranked(settings_of(rows), 1)
    return best[0] if best else None


def read_results(path: "str | Path") -> dict[str, Any]:
    """The JSON of a search, from its file or its folder."""
    path = Path(path)
    path = path / "results.json" if path.is_dir() else path
    found = read_json(path, "the results", ArgumentError, finite=False)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ArgumentError(f"{path} does not hold the results of a search ({FORMAT})")
    return found


def accuracy_of(results: dict[str, Any]) -> str:
    """What the trials were ranked by: results of a search without held-out images are test accuracies.

    >>> accuracy_of({"search": {"recipe": {"data": {}}, "validation": 0.1}})
    'validation accuracy'
    """
    search = results["search"]
    held_out = search["recipe"]["data"].get("validation", 0.0) or search.get("validation", 0.0)
    return "validation accuracy" if held_out else "test accuracy"


def recipe_of(results: dict[str, Any], name: str) -> Recipe | None:
    """The best setting of a case as a recipe that `train` accepts, and `duo` where it has both stages.

    Fine-tuning settings go into the second stage; the first is the coupled case's best where it was searched. Each
    stage was searched by itself, with its whole schedule: the recipe says so, whatever the search's recipe does.
    """
    import dataclasses

    case: Case = parse_case(name)
    best = results["cases"][name]["best"]
    if best is None:
        return None
    recipe = from_dict(Recipe, results["search"]["recipe"])
    found = {key: best[key] for key in ("lr", "weight_decay")}
    named = dataclasses.replace(recipe, name=f"{recipe.name}-{case.folder}", anneals=2, moments=None)
    if not case.finetunes:
        return dataclasses.replace(
            network_recipe(named, case), train=dataclasses.replace(recipe.train, **found)
        )
    assert recipe.finetune is not None
    first = recipe.train
    coupled = results["cases"].get(case.coupled_name)
    if coupled is not None and coupled["best"] is not None:
        first = dataclasses.replace(
            first, lr=coupled["best"]["lr"], weight_decay=coupled["best"]["weight_decay"]
        )
    model = network_recipe(named, parse_case(case.coupled_name)).model
    return dataclasses.replace(
        named, model=model, train=first, finetune=dataclasses.replace(recipe.finetune, **found)
    )


def _note(path: Path) -> dict[str, float] | None:
    """What a worker has noted; None where a kill has left half of it."""
    try:
        found = read_json(path, "the note", ArgumentError)
    except ArgumentError:
        return None
    keys = ("trials", "busy_seconds", "training_seconds", "start_seconds")
    whole = isinstance(found, dict) and all(isinstance(found.get(key), int | float) for key in keys)
    return found if whole else None


def overhead(folder: Path) -> dict[str, float] | None:
    """What the search itself cost: busy time of workers that was not training, as a share of training.

    `later_percent` leaves out what each worker's first trial spends on reading the data and building the network.
    """
    notes = [note for path in sorted((folder / "workers").glob("*.json")) if (note := _note(path))]
    training = sum(note["training_seconds"] for note in notes)
    if training <= 0:
        return None
    busy = sum(note["busy_seconds"] for note in notes)
    start = sum(note["start_seconds"] for note in notes)
    return {
        "trials": sum(note["trials"] for note in notes),
        "training_seconds": round(training, 3),
        "busy_seconds": round(busy, 3),
        "overhead_percent": round(100 * (busy - training) / training, 3),
        "later_percent": round(100 * (busy - start - training) / training, 3),
    }
