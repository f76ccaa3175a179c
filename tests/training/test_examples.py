"""The examples as a user runs them, on fewer images."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from binaryduo.cli import demonstration
from binaryduo.training import Recipe, with_settings

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_custom_model_is_short_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len((EXAMPLES / "custom_model.py").read_text().splitlines()) < 60
    coupled, decoupled, tuned = load("custom_model").main(str(tmp_path), count=500)
    assert coupled > 40
    assert abs(coupled - decoupled) <= 0.1
    assert tuned > 40


def test_the_demonstration(tmp_path: Path) -> None:
    recipe = with_settings(
        Recipe(name="tiny"),
        [
            "model.network=mlp",
            "model.width=0.2",
            "train.epochs=1",
            "finetune.epochs=1",
            "loop.batch=500",
            "loop.engine=eager",
            "loop.tensorboard=false",
        ],
    )
    (found,) = demonstration.main([0], tmp_path, recipe)
    assert found["decoupled"] == pytest.approx(found["coupled"], abs=0.2)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
