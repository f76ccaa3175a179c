"""One stage for a user's own model, in a folder of its own.

    result = fit(model, train, test, Stage(epochs=10, lr=1e-3), folder="runs/mine")

`train` and `test` are splits of binaryduo.data or any DataLoader of (inputs, targets).
"""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import nn

from binaryduo.data import Split
from binaryduo.training.devices import make_fabric
from binaryduo.training.evaluation import as_split
from binaryduo.training.identity import Identity
from binaryduo.training.loop import Result, Trainer
from binaryduo.training.optimizing import MakeOptimizer
from binaryduo.training.own import own_recipe, own_settings
from binaryduo.training.recipe import Loop, Stage
from binaryduo.training.runlog import RunFolder
from binaryduo.training.schedule import Scheduler
from binaryduo.training.task import Loss, Metrics, Task
from binaryduo.training.watching import OnProfile


def fit(
    model: nn.Module,
    train: "Split | Iterable[Any]",
    test: "Split | Iterable[Any] | None" = None,
    stage: Stage | None = None,
    loop: Loop | None = None,
    folder: "str | Path" = "runs/latest",
    resume: bool = False,
    fabric: Fabric | None = None,
    loss: Loss | None = None,
    metrics: Metrics | None = None,
    optimizer: MakeOptimizer | None = None,
    scheduler: Scheduler | None = None,
    on_profile: OnProfile | None = None,
) -> Result:
    """Train a model in place in a folder of its own; with `resume`, continue what the folder holds.

    A batch is (inputs, targets); several inputs are a tuple, or a dictionary by the names of forward()'s arguments.
    `loss` is a function of (output, target) that gives one number; without one the targets are class labels, and the
    cross-entropy is taken. `metrics` are functions of (output, target) by name, each the mean over a batch, or
    torchmetrics objects, which are measured on the test split. `optimizer` is a function of the parameters that gives
    a torch optimizer, in place of `stage.optimizer`, `lr` and `weight_decay`: the schedule multiplies its own rates.
    `scheduler` is a function of (step, all steps) that gives the factor of the rate at each step, in place of the
    stage's `schedule`, `warmup`, `drops` and `gamma`. It must be a pure function: a run that continues asks it again.
    `on_profile` is called with each line on the gradient mismatch that `loop.profile_every` asks for.
    """
    stage, loop = Stage() if stage is None else stage, Loop() if loop is None else loop
    task = Task(loss, metrics, loop.monitor, loop.direction)
    images, tests = as_split(train), None if test is None else as_split(test)
    recipe = own_recipe("fit", model, task, optimizer, {"train": stage}, loop, images, tests, scheduler)
    fabric = make_fabric(loop) if fabric is None else fabric
    with RunFolder(folder, resume, writes=fabric.is_global_zero) as run:
        run.describe_own(recipe, loop.seed)
        identity = Identity("fit", 0, own_settings(recipe))
        trainer = Trainer(
            model,
            images,
            tests,
            stage,
            loop,
            run.path,
            fabric,
            "training",
            identity,
            task,
            optimizer,
            scheduler,
        )
        trainer.on_profile = on_profile
        result = trainer.run()
        run.write_json("summary.json", asdict(result))
    return result
