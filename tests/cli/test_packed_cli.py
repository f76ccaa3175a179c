"""pack, describe and run on the command line, as a deployer would use them."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import binaryduo as bd
from binaryduo.cli.app import app
from binaryduo.errors import BinaryDuoError
from binaryduo.weights import save_weights
from tests.engine.test_pack import trained_like

RUNNER = CliRunner()
OPTIONS = {"name": "vgg7", "variant": "decoupled", "weight_bits": 1, "width": 0.25, "image_size": 16}


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    model = trained_like(bd.models.build(**OPTIONS))
    save_weights(model, folder / "net.safetensors", OPTIONS)
    result = RUNNER.invoke(app, ["pack", str(folder / "net.safetensors"), str(folder / "net.duo")])
    assert result.exit_code == 0, result.output
    assert "times smaller" in result.output
    return folder, model


def test_describe(packed):
    result = RUNNER.invoke(app, ["describe", str(packed[0] / "net.duo")], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "binary conv" in result.output
    assert "input N × 3 × 16 × 16" in result.output


def test_run_arrays_and_pictures(packed):
    folder, model = packed
    images = torch.randn(3, 3, 16, 16)
    np.save(folder / "images.npy", images.numpy())
    result = RUNNER.invoke(
        app, ["run", str(folder / "net.duo"), str(folder / "images.npy"), "--json", "--top", "2"]
    )
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.output.splitlines()]
    with torch.no_grad():
        wanted = model(images).softmax(1).sort(descending=True)
    assert [line["top"][0]["class"] for line in found] == wanted.indices[:, 0].tolist()
    assert found[0]["top"][1]["probability"] == pytest.approx(float(wanted.values[0, 1]), abs=1e-3)
    Image.fromarray(np.zeros((30, 20, 3), np.uint8)).save(folder / "black.png")
    result = RUNNER.invoke(app, ["run", str(folder / "net.duo"), str(folder / "black.png")])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("black.png: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "net.duo", "missing.png"], "cannot be read as images"),
        (["run", "net.safetensors", "images.npy"], "not a packed model"),
        (["describe", "missing.duo"], "cannot be read"),
        (["pack", "net.safetensors", "net.duo"], "exists already"),
    ],
)
def test_errors_are_one_sentence(packed, arguments, message, monkeypatch):
    monkeypatch.chdir(packed[0])
    result = RUNNER.invoke(app, arguments)
    assert isinstance(result.exception, BinaryDuoError)
    assert message in str(result.exception)
