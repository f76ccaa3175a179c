"""A run so small that thousands of them can be carried out, and what of it must come out the same."""

import io
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rich.console import Console

from binaryduo._common import progress
from binaryduo.data import DataSet
from binaryduo.errors import BinaryDuoError
from binaryduo.training import Recipe, checkpoint, from_yaml, runlog, with_settings
from binaryduo.training import duo as run_duo
from binaryduo.training import train as run_train
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
VERBS = {"train": run_train, "duo": run_duo}
TIMES = {"seconds", "images_per_second"}


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


def carry_on(verb: str, folder: Path) -> None:
    """Start the run in the folder, or continue it as the command line does."""
    there = (folder / "recipe.yaml").exists()
    VERBS[verb](from_yaml(folder / "recipe.yaml") if there else RECIPE, folder, resume=there)


def stripped(content: Any) -> Any:
    """JSON without the times; NaN as text, so that it equals itself."""
    if isinstance(content, dict):
        return {key: stripped(value) for key, value in content.items() if key not in TIMES}
    if isinstance(content, list):
        return [stripped(value) for value in content]
    return str(content) if isinstance(content, float) and math.isnan(content) else content


def outcome(folder: Path) -> dict[str, Any]:
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
    """Files that belong to nothing: half-written ones, and tensors without their JSON or the reverse."""
    found = [path.name for path in folder.rglob("*.part")]
    for path in folder.rglob("checkpoints/*"):
        other = {".json": ".safetensors", ".safetensors": ".json"}.get(path.suffix, "")
        if not path.with_suffix(other).exists():
            found.append(path.name)
    return found


def judged(verb: str, folder: Path, wanted: dict[str, Any]) -> tuple[str, str]:
    """What continuing the run in the folder comes to, and the sentence that was said, if any."""
    with quick() as said:
        try:
            carry_on(verb, folder)
            same = outcome(folder) == wanted
        except BinaryDuoError as error:
            return "a sentence", str(error)
        except Exception as error:
            return "TRACEBACK", f"{type(error).__name__}: {error}"
    usual = ("continuing after step", ": epoch ", "decoupled: ")
    words = [line for line in said.getvalue().splitlines() if not any(part in line for part in usual)]
    if same:
        return ("identical, with a sentence" if words else "identical"), " ".join(words)
    return ("a sentence" if words else "SILENT DIFFERENCE"), " ".join(words)


def single_threaded() -> None:
    torch.set_num_threads(1)
