"""Runs of a few steps in a folder, for tests that edit, damage or continue what is in it."""

import dataclasses
from pathlib import Path

from torch import nn

from binaryduo.training import Loop, Recipe, Stage, fit, with_settings
from tests.training import tiny

STAGE, LOOP = Stage(epochs=2, lr=0.01), dataclasses.replace(tiny.LOOP, checkpoint_steps=4)
RECIPE = with_settings(
    Recipe(name="tiny"),
    [
        "model.network=mlp",
        "model.width=0.05",
        "train.epochs=1",
        "finetune.epochs=1",
        "loop.batch=2000",
        "loop.tensorboard=false",
        "loop.accelerator=cpu",
        "loop.engine=eager",
    ],
)


def started(folder: Path, resume: bool = False, stage: Stage = STAGE, loop: Loop = LOOP) -> nn.Module:
    """Ten steps of `fit`, or the rest of them; the network begins differently when it is to be resumed."""
    model = tiny.network(seed=1 if resume else 0)
    fit(model, tiny.split(), tiny.split(20, 1), stage, loop, folder, resume)
    return model


def cut(folder: Path) -> None:
    """As if the run had been killed before its last step."""
    for path in (folder / "checkpoints").glob("step-000000010.*"):
        path.unlink()
