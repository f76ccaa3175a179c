"""`binaryduo cost` and `decouple` as a user meets them: what they print, and how they refuse bad input."""

from pathlib import Path

import pytest
import torch

import binaryduo as bd
from binaryduo._common.weight_files import load_weights, read_weights, save_weights
from binaryduo.cli.app import run

OPTIONS = {"name": "mlp", "width": 0.1, "levels": 3}


@pytest.fixture
def coupled(tmp_path: Path) -> Path:
    net = bd.models.build("mlp", "coupled", width=0.1)
    save_weights(net, tmp_path / "coupled.safetensors", OPTIONS)
    return tmp_path / "coupled.safetensors"


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        run([str(a) for a in arguments])
    code = stopped.value.code
    return code if isinstance(code, int) else 0


def test_cost_prints_table_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("cost", "alexnet", "--variant", "decoupled", "--no-layers") == 0
    out = capsys.readouterr().out
    assert "189.4 Mbit" in out
    assert "119.0 M" in out


def test_decouple_writes_the_same_function(coupled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = coupled.with_name("binary.safetensors")
    assert call("decouple", coupled, target) == 0
    assert "largest difference" in capsys.readouterr().out
    first = bd.models.build("mlp", "coupled", width=0.1)
    second = bd.models.build("mlp", "decoupled", width=0.1)
    load_weights(first, read_weights(coupled)[0], coupled)
    tensors, options = read_weights(target)
    load_weights(second, tensors, target)
    assert options["variant"] == "decoupled"
    x = bd.models.example_input("mlp", batch=16)
    assert torch.allclose(first.eval()(x), second.eval()(x), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["cost", "vgg8"], "unknown network 'vgg8'"),
        (["cost", "vgg7", "--levels", "1"], "levels must be a whole number"),
        (["cost", "vgg7", "--levels", "three"], "--levels takes a whole number"),
        (["cost", "vgg7", "--variant", "both"], "unknown variant 'both'"),
        (["cost", "vgg7", "--width", "0"], "width must be a positive number"),
        (["cost", "vgg7", "--image-size", "4"], "image_size must be 8 or more"),
        (["decouple", "missing.safetensors", "out.safetensors"], "missing.safetensors does not exist"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert "Traceback" not in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [0, 7, 100, 5_000])
def test_a_truncated_file_is_refused_and_nothing_is_written(
    coupled: Path, keep: int, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = coupled.with_name("broken.safetensors")
    broken.write_bytes(coupled.read_bytes()[:keep])
    assert call("decouple", broken, coupled.with_name("out.safetensors")) == 2
    assert "not a whole safetensors file" in capsys.readouterr().err
    assert sorted(p.name for p in coupled.parent.iterdir()) == ["broken.safetensors", "coupled.safetensors"]


def test_a_checkpoint_of_another_shape_is_refused(coupled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("decouple", coupled, coupled.with_name("out.safetensors"), "--width", "0.2") == 2
    assert "check the network, width" in capsys.readouterr().err
    assert call("decouple", coupled, coupled.with_name("out.safetensors"), "--network", "vgg7") == 2
    assert "is of another network" in capsys.readouterr().err
    assert not coupled.with_name("out.safetensors").exists()


def test_an_existing_file_is_kept(coupled: Path) -> None:
    before = coupled.read_bytes()
    assert call("decouple", coupled, coupled) == 2
    assert coupled.read_bytes() == before
