"""Three ways to a binary VGG-7, at any length: a unit of work is one run, a row is all that it recorded.

baseline   the binary network, one stage
scratch    the decoupled topology with every weight drawn anew, one stage
duo        coupled, decoupled and fine-tuned, two stages

`epochs` is always the sum over both stages, so that runs of equal epochs can be compared. A unit names every setting
that differs from the recipe `budget`; its run folder is named after the digest of the unit, so that an interrupted run
continues and none is done twice.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from binaryduo import training
from binaryduo.bench.training import Task, run
from binaryduo.paper.experiment import Row, Unit, Workspace
from binaryduo.paper.trainings import seconds_a_step
from binaryduo.training import Recipe, Stage
from binaryduo.training.duo import load_data
from binaryduo.training.restore import load_run
from binaryduo.training.runlog import read_metrics

WAYS = ("baseline", "scratch", "duo")


def unit(way: str, epochs: int, seed: int, lr: float, **settings: Any) -> Unit:
    """One run. `share` of the epochs go to the coupled stage; `anneals` 1: one anneal over both stages.

    `precision` "bf16" trains in bfloat16 where autocast does; tests are always in float32. `test_every`: epochs.
    `levels` and `interval` are of the coupled network: see `training.Model`; `moments` as in `training.Recipe`.
    """
    usual: dict[str, Any] = {"network": "vgg7", "width": 1.0, "weight_bits": 32, "validation": 0.0}
    if way == "duo":
        usual |= {"share": 0.5, "finetune_lr": lr, "anneals": 2}
    return {"way": way, "epochs": epochs, "seed": seed, "lr": lr, **usual, **settings}


def recipe_of(work: Unit, root: Path | None = None) -> Recipe:
    """The complete recipe of a unit."""
    recipe = training.named("budget")
    two = work["way"] == "duo"
    first = max(1, round(work["share"] * work["epochs"])) if two else work["epochs"]
    train = _timed(recipe.train, work, first, work["lr"])
    finetune = None
    if two:
        assert recipe.finetune is not None
        finetune = _timed(recipe.finetune, work, work["epochs"] - first, work["finetune_lr"])
    variant: Any = {"baseline": "baseline", "scratch": "decoupled", "duo": "coupled"}[work["way"]]
    model = replace(
        recipe.model,
        network=work["network"],
        width=work["width"],
        weight_bits=work["weight_bits"],
        variant=variant,
        start=work.get("start", "fresh"),
        levels=work.get("levels", recipe.model.levels),
        interval=work.get("interval"),
    )
    data = replace(
        recipe.data,
        validation=work["validation"],
        root=None if root is None else str(root),
    )
    loop = replace(recipe.loop, seed=work["seed"], engine="fast", tensorboard=False)
    loop = replace(loop, **{key: work[key] for key in ("precision", "test_every") if key in work})
    recipe = replace(recipe, name="ways", model=model, data=data, loop=loop, anneals=work.get("anneals", 2))
    return replace(recipe, train=train, finetune=finetune, moments=work.get("moments"))


def _timed(stage: Stage, work: Unit, epochs: int, lr: float) -> Stage:
    """A stage of so many epochs; a unit with the schedule "step" has the paper's drops, scaled to its length."""
    stage = replace(stage, minutes=None, epochs=epochs, lr=lr)
    if work.get("schedule") != "step":
        return stage
    paper = training.named("vgg7-cifar10").train
    drops = tuple(1 + round((drop - 1) * epochs / paper.epochs) for drop in paper.drops)
    return replace(stage, schedule="step", drops=drops, gamma=paper.gamma, warmup=0.0)


def folder_of(work: Unit, runs: Path) -> Path:
    """Where the run of a unit is kept: a name for people, and the digest of all its settings."""
    digest = hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()[:10]
    return runs / f"{work['way']}-{work['epochs']}-seed{work['seed']}-{digest}"


def measure(work: Unit, place: Workspace) -> list[Row]:
    """Train what the unit names, or go on with it; a finished run is only read."""
    folder, recipe = folder_of(work, place.runs), recipe_of(work, place.root)
    if not (folder / "summary.json").exists():
        started = (folder / "recipe.yaml").exists()
        if work["way"] == "duo":
            training.duo(recipe, folder, resume=True)
        else:
            training.train(recipe, folder, resume=started)
    return [row_of(work, folder)]


def row_of(work: Unit, folder: Path) -> Row:
    """Accuracies, curves, flips at decoupling, and where it ran."""
    summary = json.loads((folder / "summary.json").read_text())
    start = json.loads((folder / "environment.json").read_text())[-1]
    row: Row = {**work, "commit": start["git"], "processor": start["processor"], "torch": start["torch"]}
    if work["way"] != "duo":
        return {**row, **_stage(summary, folder), "test": summary["test"]}
    return {
        **row,
        **_stage(summary["finetuned"], folder / "decoupled"),
        "coupled": _stage(summary["coupled"], folder / "coupled"),
        "before": summary["decoupled_before"]["top1"],
        "changed_predictions": summary["changed_predictions"],
        "flips": summary["flips"],
        "test": summary["test"],
        "moved": moved(folder),
    }


def _stage(result: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The accuracies after the last epoch and of the best one, and the curve: epoch, loss, train and test top-1."""
    lines = read_metrics(folder)
    curve = [
        [line["epoch"]] + [round(line[key], 4) for key in ("train_loss", "train_top1", "test_top1")]
        for line in lines
        if line["kind"] == "epoch" and "test_top1" in line
    ]
    return {
        "last": result["last"]["top1"],
        "best": result["best"]["top1"],
        "steps": result["steps"],
        "seconds": result["seconds"],
        "curve": curve,
    }


@torch.no_grad()
def moved(folder: Path) -> dict[str, float]:
    """|w - w at decoupling| / |w at decoupling| of every layer over the fine-tuning."""
    coupled, recipe, data, _ = load_run(folder / "coupled", "last")
    import binaryduo as bd

    start = dict(bd.decouple(coupled, torch.zeros(1, *data.shape), recipe.model.topology).named_parameters())
    trained, *_ = load_run(folder / "decoupled", "last")
    return {
        name: float((weight - start[name]).norm() / start[name].norm())
        for name, weight in trained.named_parameters()
        if weight.dim() > 1
    }


def estimate(works: Sequence[Unit], place: Workspace) -> list[float]:
    """Seconds that each unit will take here, from training steps measured now; tests add about a tenth."""
    done = [(folder_of(work, place.runs) / "summary.json").exists() for work in works]
    if all(done):
        return [0.0] * len(works)
    networks = {work["network"]: work for work in works}
    steps = {network: _step_seconds(work, place) for network, work in networks.items()}
    return [
        0.0 if old else 1.1 * seconds_of(work, steps[work["network"]])
        for work, old in zip(works, done, strict=True)
    ]


def _step_seconds(work: Unit, place: Workspace) -> dict[str, float]:
    """Seconds of a training step of each variant: of the whole loop for VGG-7, of the step alone for others."""
    variants = ("baseline", "coupled", "decoupled")
    if work["network"] != "vgg7":
        recipe = recipe_of(work, place.root)
        return dict.fromkeys(variants, seconds_a_step(recipe, load_data(recipe)))
    threads = torch.get_num_threads()
    return {variant: min(run(Task("this loop", variant, steps=3, threads=threads))) for variant in variants}


def seconds_of(work: Unit, step: dict[str, float]) -> float:
    """What the training of a unit takes, from the seconds of a training step of each variant."""
    steps = 50_000 * (1 - work["validation"]) // 256
    first = work["share"] if work["way"] == "duo" else 1.0
    one, two = {
        "baseline": ("baseline",) * 2,
        "scratch": ("decoupled",) * 2,
        "duo": ("coupled", "decoupled"),
    }[work["way"]]
    seconds: float = work["epochs"] * steps * (first * step[one] + (1 - first) * step[two])
    return seconds
