"""What a terminal of 80 columns shows: names in one piece, nothing cut off, square brackets where they belong."""

from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import binaryduo as bd
from binaryduo.bench.inference import Measured
from binaryduo.cli import bench_infer
from binaryduo.cli.app import app
from binaryduo.paper.artefacts import ARTEFACTS
from binaryduo.training import RECIPES

NAMES = {
    "data list": [*bd.data.names(), "dataset-fashion-mnist", "here"],
    "train --list": [*RECIPES, *(recipe.data.name for recipe in RECIPES.values())],
    "reproduce list": [item.key for item in ARTEFACTS],
}


@pytest.mark.parametrize("words", NAMES)
def test_names_are_not_cut(words: str) -> None:
    shown = CliRunner().invoke(app, words.split(), env={"COLUMNS": "80"}).stdout
    assert "…" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert set(NAMES[words]) <= set(shown.split())


def test_a_packed_model_says_what_it_is(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), bd.nn.QuantAct(), torch.nn.Linear(8, 3)).eval()
    bd.pack(net, torch.randn(1, 5), tmp_path / "net.duo", verbose=False)
    shown = repr(bd.load(tmp_path / "net.duo", threads=1))
    assert shown.startswith("<PackedModel Sequential: images N × 5 × 1 × 1, 2 operations, ")
    assert shown.endswith(" on 1 thread>")


def test_an_extra_keeps_its_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    why = "openvino is not installed: pip install 'binaryduo[peers]'"
    bench_infer._show(Measured("vgg7", 1, {"binaryduo": 1.0}, {"openvino": why}))
    assert f"openvino: {why}" in capsys.readouterr().out


def test_a_layers_name_stays_in_one_piece(tmp_path: Path) -> None:
    layers = [(f"a_name_of_{i}", torch.nn.Linear(8, 8)) for i in range(12)]
    net = torch.nn.Sequential(
        OrderedDict([*layers, ("act", bd.nn.QuantAct()), ("out", torch.nn.Linear(8, 3))])
    )
    bd.pack(net.eval(), torch.randn(1, 8), tmp_path / "net.duo", verbose=False)
    shown = CliRunner().invoke(app, ["describe", str(tmp_path / "net.duo")], env={"COLUMNS": "80"}).stdout
    assert {"a_name_of_10", "a_name_of_11"} <= set(shown.split())
    assert all(len(line) <= 80 for line in shown.splitlines())
