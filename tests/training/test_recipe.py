"""Recipes: what the paper prints, what YAML keeps, what is refused."""

from pathlib import Path

import numpy as np
import pytest

from binaryduo.errors import ArgumentError, UnknownNameError
from binaryduo.training import (
    RECIPES,
    Data,
    Loop,
    Model,
    Recipe,
    Stage,
    from_yaml,
    named,
    to_yaml,
    with_settings,
)
from binaryduo.training.recipe import with_minutes


@pytest.mark.parametrize("name", RECIPES)
def test_yaml_keeps_everything(name: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(to_yaml(RECIPES[name]))
    assert from_yaml(path) == RECIPES[name] == named(str(path))


def test_the_papers_settings() -> None:
    vgg, alexnet, resnet = (named(n) for n in ("vgg7-cifar10", "alexnet-imagenet", "resnet18-sc-imagenet"))
    assert (vgg.train.epochs, vgg.train.drops, vgg.loop.batch) == (200, (121, 161), 256)
    assert (alexnet.train.epochs, alexnet.train.lr, alexnet.train.drops) == (100, 1e-3, (41, 71, 91))
    assert alexnet.finetune == Stage(
        epochs=40, optimizer="adam", lr=2e-5, weight_decay=1e-6, schedule="step", drops=(16, 26, 36)
    )
    assert (resnet.train.epochs, resnet.train.lr, resnet.train.weight_decay) == (120, 5e-3, 0)
    assert resnet.finetune is not None
    assert (resnet.finetune.epochs, resnet.finetune.lr, resnet.finetune.drops) == (40, 2e-3, (21, 31, 36))


def test_settings_change_one_entry() -> None:
    changed = with_settings(
        Recipe(),
        [
            "train.lr=1e-2",
            "model.levels=null",
            "train.drops=[3, 5]",
            "loop.precision=64",
            "finetune.epochs=2",
        ],
    )
    assert changed.train.lr == 0.01
    assert changed.model.levels is None
    assert changed.train.drops == (3, 5)
    assert changed.loop.precision == "64"
    assert changed.finetune == Stage(epochs=2)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.rate=1", r"unknown key 'train\.rate': choose one of epochs"),
        ("trian.lr=1", r"unknown key 'trian': choose one of data, model, train"),
        ("train.epochs=2.5", r"train\.epochs = 2\.5 is not an integer"),
        ("train.epochs=true", r"train\.epochs = True is not an integer"),
        ("data.flip=1", r"data\.flip = 1 is not true or false or null"),
        ("train.schedule=linear", r"train\.schedule = 'linear' is not 'constant' or 'step'"),
        ("anneals=true", r"anneals = True is not 1 or 2"),
        ("loop.checkpoint_minutes=-1", r"loop\.checkpoint_minutes must be at least 0, not -1"),
        ("train.lr", r"'train\.lr' is not of the form key=value"),
        ("train.lr=fast", r"train\.lr = 'fast' is not a number"),
    ],
)
def test_what_is_refused(setting: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        with_settings(Recipe(), [setting])


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        (Stage, "optimizer", "lion", r"stage\.optimizer = 'lion' is not 'adamw' or 'adam' or 'sgd'"),
        (Stage, "schedule", "linear", r"stage\.schedule = 'linear' is not 'constant' or 'step'"),
        (Stage, "epochs", 1.5, r"stage\.epochs = 1\.5 is not an integer"),
        (Loop, "engine", "turbo", r"loop\.engine = 'turbo' is not 'auto' or 'eager'"),
        (Loop, "precision", "16", r"loop\.precision = '16' is not '32' or '64' or 'bf16'"),
        (Loop, "direction", "up", r"loop\.direction = 'up' is not 'max' or 'min' or null"),
        (Model, "topology", "octo", r"model\.topology = 'octo' is not 'duo' or 'quad'"),
        (Data, "workers", "many", r"data\.workers = 'many' is not an integer"),
    ],
)
def test_settings_from_python_are_checked_too(kind: type, name: str, value: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        kind(**{name: value})


def test_settings_from_python_become_plain_numbers() -> None:
    stage = Stage(epochs=np.int64(3), lr=np.float32(0.5), drops=[2, 3])  # type: ignore[arg-type]
    assert stage == Stage(epochs=3, lr=0.5, drops=(2, 3))
    assert type(stage.epochs) is int
    assert type(stage.lr) is float
    assert Loop(precision=64).precision == "64"  # type: ignore[arg-type]


def test_files_and_names_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown recipe 'vgg'"):
        named("vgg")
    with pytest.raises(ArgumentError, match="could not be read"):
        from_yaml(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("train: [1,")
    with pytest.raises(ArgumentError, match="is not YAML"):
        from_yaml(broken)


def test_minutes_are_shared_by_the_stages() -> None:
    both = with_minutes(named("budget"), 10, two_stages=True)
    assert both.finetune is not None
    assert (both.train.minutes, both.finetune.minutes) == (5, 5)
    assert with_minutes(named("budget"), 10, two_stages=False).train.minutes == 10
