"""pack, describe and run on the command line, as a deployer would use them."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import binaryduo as bd
from binaryduo._common.weight_files import save_weights
from binaryduo.cli.app import app
from binaryduo.data import Plan
from binaryduo.errors import BinaryDuoError
from binaryduo.training import Data, Loop, Model, Recipe, Stage, duo
from binaryduo.training.restore import load_run
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
    assert result.stdout.startswith("black.png: ")
    assert "does not say how images are normalised" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "net.duo", "missing.png"], "could not be read: No such file"),
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


def test_a_run_is_packed_with_its_classes_and_normalisation(tmp_path):
    """From a training's folder to labels of picture files: the same answers as the network in PyTorch."""
    recipe = Recipe(
        name="tiny",
        data=Data(name="fashion-mnist-small"),
        model=Model(network="mlp", width=0.1),
        train=Stage(epochs=2, lr=1e-2),
        finetune=Stage(epochs=1, lr=1e-3),
        loop=Loop(batch=500, engine="eager", tensorboard=False),
    )
    duo(recipe, tmp_path / "run")
    packed = tmp_path / "net.duo"
    result = RUNNER.invoke(app, ["pack", str(tmp_path / "run"), str(packed)])
    assert result.exit_code == 0, result.output
    model, _, data, _ = load_run(tmp_path / "run", "last")
    pictures = []
    for i in range(12):
        pictures.append(tmp_path / f"{i}.png")
        Image.fromarray(data.test.images[i].numpy().squeeze()).save(pictures[-1])
    result = RUNNER.invoke(app, ["run", str(packed), *map(str, pictures), "--json"])
    assert result.exit_code == 0, result.output
    found = [json.loads(line)["top"][0] for line in result.output.splitlines()]
    images, _, _ = next(iter(data.test.batches(Plan(batch=12, train=False))))
    with torch.no_grad():
        wanted = torch.softmax(model.eval()(images), 1)
    assert [f["class"] for f in found] == wanted.argmax(1).tolist()
    assert [f["label"] for f in found] == [data.classes[c] for c in wanted.argmax(1)]
    np.testing.assert_allclose([f["probability"] for f in found], wanted.max(1).values, atol=1e-4)
    result = RUNNER.invoke(app, ["pack", str(tmp_path / "run"), str(packed)])
    assert "--force" in str(result.exception)


def test_binaryduo_q_is_packed_like_the_rest(tmp_path):
    options = {"name": "mlp", "levels": 3, "width": 0.2, "topology": "quad"}
    coupled = trained_like(bd.models.build(**options, variant="coupled"))
    save_weights(coupled, tmp_path / "coupled.safetensors", {**options, "variant": "coupled"})
    steps = (
        ["decouple", "coupled.safetensors", "binary.safetensors"],
        ["pack", "binary.safetensors", "net.duo"],
    )
    for verb, source, target in steps:
        result = RUNNER.invoke(app, [verb, str(tmp_path / source), str(tmp_path / target)])
        assert result.exit_code == 0, (result.output, result.exception)
    x = torch.randn(8, *bd.models.example_input("mlp").shape[1:])
    with torch.no_grad():
        wanted = coupled.eval()(x)
    found = bd.load(tmp_path / "net.duo")(x.numpy())
    near = np.abs(found - wanted.numpy()).max(axis=1) <= 1e-4 * float(wanted.abs().max())
    assert near.mean() >= 0.75  # a value within rounding of its threshold may flip


def test_images_out_and_plain_values_in(tmp_path):
    segmenting = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3, padding=1), bd.nn.QuantAct()).eval()
    bd.pack(segmenting, torch.randn(1, 1, 8, 8), tmp_path / "images.duo", verbose=False)
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 8, 8), np.float32))
    result = RUNNER.invoke(app, ["run", str(tmp_path / "images.duo"), str(tmp_path / "x.npy")])
    assert "use bd.load in Python" in str(result.exception)
    plain = torch.nn.Sequential(torch.nn.Linear(5, 8), bd.nn.QuantAct(), torch.nn.Linear(8, 3)).eval()
    bd.pack(plain, torch.randn(1, 5), tmp_path / "plain.duo", verbose=False)
    np.save(tmp_path / "values.npy", np.zeros((2, 5), np.float32))
    result = RUNNER.invoke(app, ["run", str(tmp_path / "plain.duo"), str(tmp_path / "values.npy")])
    assert len(result.output.splitlines()) == 2


def test_a_rejected_setting_leaves_the_folder_free(tmp_path):
    wrong = (
        "model.levels=1",
        "loop.log_steps=0",
        "loop.seed=-1",
        "data.pad=-1",
        "model.width=-2",
        "train.lr=[",
    )
    for setting in wrong:
        result = RUNNER.invoke(app, ["train", "--out", str(tmp_path / "run"), "--set", setting])
        assert isinstance(result.exception, BinaryDuoError), setting
    assert not (tmp_path / "run").exists()
    result = RUNNER.invoke(app, ["reproduce", "map", "--results", str(tmp_path / "missing")])
    assert "nothing was written" in str(result.exception)


def test_a_device_that_is_not_there_is_refused_in_a_sentence(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("it is there")
    result = RUNNER.invoke(app, ["train", "--out", str(tmp_path / "run"), "--set", "loop.accelerator=cuda"])
    assert "there is none here" in str(result.exception)
    result = RUNNER.invoke(app, ["train", "--out", str(tmp_path / "run"), "--network", "mlp", "--show"])
    assert result.exit_code == 0


def test_pack_also_writes_a_c_array(packed):
    from binaryduo.engine.c_array import to_c_array

    folder, _ = packed
    arguments = ["pack", str(folder / "net.safetensors"), str(folder / "small-net.duo"), "--c-array"]
    result = RUNNER.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    header = (folder / "small-net.h").read_text()
    assert header == to_c_array((folder / "small-net.duo").read_bytes(), "small_net")
    assert RUNNER.invoke(app, [*arguments[:2], str(folder / "other.duo"), "--c-array"]).exit_code == 0
    (folder / "other.duo").unlink()
    refused = RUNNER.invoke(app, [*arguments[:2], str(folder / "other.duo"), "--c-array"])
    assert refused.exit_code != 0
    assert not (folder / "other.duo").exists()


def test_export_for_finn_and_hls4ml(packed):
    onnx = pytest.importorskip("onnx")
    folder, _ = packed
    result = RUNNER.invoke(
        app, ["export", str(folder / "net.safetensors"), str(folder / "net.onnx"), "--qonnx"]
    )
    assert result.exit_code == 0, result.output
    assert "Quant" in {node.op_type for node in onnx.load(folder / "net.onnx").graph.node}
