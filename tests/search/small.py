"""Searches that are trained in a second: a small MLP on the embedded images."""

import dataclasses
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from binaryduo.search.local import open_search
from binaryduo.search.queueing import fill
from binaryduo.search.spec import Search
from binaryduo.search.storage import QueueStorage
from binaryduo.search.worker import Worker
from binaryduo.training import named, with_settings

RECIPE = with_settings(
    named("demo"),
    [
        "model.network=mlp",
        "model.width=0.0625",
        "train.epochs=1",
        "finetune.epochs=1",
        "loop.batch=500",
        "loop.accelerator=cpu",
        "loop.engine=eager",
    ],
)


def small(recipe: list[str] | None = None, **changes: Any) -> Search:
    """Two settings, one repeat, and a heartbeat that notices a death within seconds."""
    found = Search(
        weight_decay="0.01", lr="0.003,0.03", repeats=1, heartbeat=1, grace=3, recipe=RECIPE, name="small"
    )
    return dataclasses.replace(found, recipe=with_settings(RECIPE, recipe or []), **changes)


def opened(
    search: Search, folder: Path, url: str | None = None
) -> tuple[QueueStorage, dict[str, optuna.Study]]:
    """The search with its queue filled."""
    storage, studies = open_search(search, folder, url)
    for case in search.parsed_cases():
        fill(studies[case.name], search, case)
    return storage, studies


def work(search: Search, folder: Path, url: str | None = None) -> dict[str, optuna.Study]:
    """Run a whole search in this process."""
    storage, studies = opened(search, folder, url)
    Worker(folder, search, storage).run()
    return studies


def completed(study: optuna.Study) -> list[str]:
    """The slots that were completed, one entry for each time."""
    return sorted(t.user_attrs["slot"] for t in study.get_trials(states=(TrialState.COMPLETE,)))
