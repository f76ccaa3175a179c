"""A run so small that thousands of them can be carried out, and what of it must come out the same."""

import io
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rich.console import Console

from binaryduo._common import progress
from binaryduo.data import DataSet
from binaryduo.training import Recipe, checkpoint, runlog, with_settings
from binaryduo.training.recipe import Recipe as AnyRecipe
from tests.training import tiny

import sys  # isort: skip

duo_module = sys.modules["binaryduo.training.duo"]
load_really = duo_module.load_data  # type: ignore[attr-defined]

RECIPE = with_settings(
    Recipe(name="small"),
    [
        "model.network=mlp",
        "model.width=0.02",
        "train.epochs=3",
        "train.lr=0.01",
        "finetune.epochs=2",
        "finetune.lr=0.003",
        "loop.batch=16",
        "loop.test_batch=64",
        "loop.log_steps=2",
        "loop.checkpoint_steps=2",
        "loop.tensorboard=false",
        "loop.accelerator=cpu",
        "loop.engine=eager",
    ],
)
TIMES = {"seconds", "train_seconds", "images_per_second"}


def few_images(recipe: AnyRecipe) -> DataSet:
    """64 + 40 images in place of the recipe's data set, as long as it is the one that the run began with."""
    if recipe.data != RECIPE.data:
        found: DataSet = load_really(recipe)
        return found
    return DataSet("small", tiny.split(64), tiny.split(40, 1), tuple("abcd"), (1, 8, 8))


@contextmanager
def quick() -> Iterator[io.StringIO]:
    """Few images, no questions to git; gives what is said."""
    said = io.StringIO()
    here = {"started": "now", "seed": 0}
    with (
        mock.patch.object(duo_module, "load_data", few_images),
        mock.patch.object(runlog, "environment", return_value=here),
        mock.patch.object(progress, "console", Console(file=said, width=10_000)),
    ):
        yield said


def stripped(content: Any) -> Any:
    """JSON without the times; NaN as text, so that it equals itself."""
    if isinstance(content, dict):
        return {key: stripped(value) for key, value in content.items() if key not in TIMES}
    if isinstance(content, list):
        return [stripped(value) for value in content]
    return str(content) if isinstance(content, float) and math.isnan(content) else content


def run_found(folder: Path) -> dict[str, Any]:
    """All that a run has found: its last and best networks with the optimizer, its metrics, its summary."""
    found: dict[str, Any] = {"summary": stripped(json.loads((folder / "summary.json").read_text()))}
    for stage in ("", "coupled", "decoupled"):
        place = folder / stage / "checkpoints"
        last = checkpoint.newest(place, lambda text: None) if place.exists() else None
        if last is None:
            continue
        state = {key: value for key, value in last.state.items() if not key.startswith("metrics_")}
        found[stage] = {
            "last": {name: tensor.tolist() for name, tensor in last.tensors.items()},
            "best": {name: tensor.tolist() for name, tensor in checkpoint.best(place).tensors.items()},
            "state": stripped(state),
            "metrics": stripped(runlog.read_metrics(folder / stage)),
        }
    return found


def orphans(folder: Path) -> list[str]:
    """Files that belong to nothing: half-written ones, a database's logs, tensors without their JSON or the reverse."""
    ends = (".part", ".db-wal", ".db-shm", ".db-journal")
    found = [path.name for path in folder.rglob("*") if path.name.endswith(ends)]
    for path in folder.rglob("checkpoints/*"):
        other = {".json": ".safetensors", ".safetensors": ".json"}.get(path.suffix, "")
        if not path.with_suffix(other).exists():
            found.append(path.name)
    return found


def single_threaded() -> None:
    torch.set_num_threads(1)


def memory_folder() -> str | None:
    """Where run folders cost no disk: a file system in memory, where there is one; else the usual place.

    A killed or damaged run cannot tell the difference: what is synced stands for what a disk has, and no machine loses
    its power here. Waiting for the disk was two thirds of the time.
    """
    place = "/dev/shm"
    return place if os.access(place, os.W_OK) else None
