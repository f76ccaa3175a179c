"""The files that a search leaves: results.json, tables, contours, the comparison, and recipes."""

import json
from pathlib import Path
from typing import Any

from binaryduo._common.files import write_synced
from binaryduo.search.cases import parse_case
from binaryduo.search.results import overhead, recipe_of
from binaryduo.search.tables import markdown
from binaryduo.training.recipe import to_yaml


def write_outcome(results: dict[str, Any], folder: Path) -> list[Path]:
    """Write everything below the folder; returns the files. Nothing but the JSON's content is needed."""
    cost = overhead(folder)
    if cost is not None:
        results = {**results, "overhead": cost}
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "results.json", folder / "results.md"]
    write_synced(written[0], (json.dumps(results, indent=1) + "\n").encode())
    write_synced(written[1], markdown(results).encode())
    return written + draw(results, folder) + write_recipes(results, folder)


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    """All pictures of a search from its JSON."""
    from binaryduo.search.pictures import draw_comparison, draw_contours

    finished = [name for name, case in results["cases"].items() if case["best"]]
    if not finished:
        return []
    paths = []
    for name in finished:
        paths.append(folder / f"contour-{parse_case(name).folder}.png")
        draw_contours(results, paths[-1], [name])
    if len(finished) > 1:
        paths.append(folder / "contours.png")
        draw_contours(results, paths[-1], finished)
    paths.append(folder / "comparison.png")
    draw_comparison([results], paths[-1])
    return paths


def write_recipes(results: dict[str, Any], folder: Path) -> list[Path]:
    """The best setting of each case as best-CASE.yaml, for `train`; best-decoupled.yaml for `duo`."""
    paths = []
    for name in results["cases"]:
        recipe = recipe_of(results, name)
        if recipe is not None:
            paths.append(folder / f"best-{parse_case(name).folder}.yaml")
            write_synced(paths[-1], to_yaml(recipe).encode())
    return paths
