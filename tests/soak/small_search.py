"""A search so small that hundreds of it can be carried out: one worker, in this process; no pictures."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

from binaryduo.search import coupled_start, outcome, worker, worker_cache
from binaryduo.search.collecting import collect
from binaryduo.search.local import open_search
from binaryduo.search.queueing import fill
from binaryduo.search.spec import Search
from binaryduo.training import restore
from tests.soak.small_run import RECIPE, few_images, run_found, stripped

SEARCH = Search(
    name="small",
    cases=("coupled", "decoupled"),
    weight_decay="0.01",
    lr="0.003,0.03",
    finetune_lr="0.001",
    repeats=1,
    validation=0.0,
    heartbeat=1,
    grace=2,
    retries=100,
    recipe=RECIPE,
)


def carry_on(folder: Path) -> None:
    """Fill the queue, work until it is empty, and write what was found, as `binaryduo search` does."""
    with (
        mock.patch.object(worker_cache, "load_data", few_images),
        mock.patch.object(coupled_start, "load_data", few_images),
        mock.patch.object(restore, "load_data", few_images),
        mock.patch.object(worker, "POLL_SECONDS", 0.05),
        mock.patch.object(outcome, "draw", return_value=[]),
    ):
        storage, studies = open_search(SEARCH, folder, None)
        for case in SEARCH.parsed_cases():
            fill(studies[case.name], SEARCH, case)
        worker.Worker(folder, SEARCH, storage).run()
        outcome.write_outcome(collect(SEARCH, studies), folder)
        storage.engine.dispose()


def found(folder: Path) -> dict[str, Any]:
    """Every trial's result, the best settings, and every trial's networks and metrics."""
    results = json.loads((folder / "results.json").read_text())
    for case in results["cases"].values():
        for row in case["trials"]:
            assert row["state"] == "complete", row
            del row["trial"], row["died_before"]  # the number in the database, and how often it was killed
    results.pop("overhead", None)
    runs = sorted(path.parent for path in folder.glob("trials/*/*/summary.json"))
    recipes = {path.name: path.read_text() for path in sorted(folder.glob("best-*.yaml"))}
    return {
        "results": stripped(results),
        "recipes": recipes,
        **{run.relative_to(folder).as_posix(): run_found(run) for run in runs},
    }
