"""Files from strangers: `run`, recipes and records answer with one sentence, never with a traceback."""

import contextlib
import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

import binaryduo as bd
from binaryduo._common.hostile import parse_json, read_bytes, read_json
from binaryduo._common.images import read_array, read_image
from binaryduo._common.text import printable
from binaryduo._common.yaml_files import parse_yaml
from binaryduo.cli.app import app
from binaryduo.errors import ArgumentError, BinaryDuoError, DataError
from binaryduo.training import Recipe, from_yaml, with_settings

RUNNER = CliRunner()


def packed(folder: Path, meta: dict[str, str] | None = None) -> Path:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), bd.nn.QuantAct(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 3)
    ).eval()
    bd.pack(net, torch.randn(1, 1, 8, 8), folder / "net.duo", verbose=False, meta=meta or {})
    return folder / "net.duo"


def bomb(path: Path) -> None:
    """A PNG of 50,000 × 50,000 pixels in a few bytes."""
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0)
    raw = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + header + b"\0\0\0\0"
    path.write_bytes(raw)


def terabytes(path: Path) -> None:
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 1, 8, 8)}
        np.lib.format.write_array_header_1_0(file, header)


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("images.npy", b"nothing")


def structured(path: Path) -> None:
    np.save(path, np.zeros((1, 1, 8, 8), [("a", "f4")]))


def pickled(path: Path) -> None:
    np.save(path, np.full((1, 1, 8, 8), None), allow_pickle=True)


def picture(path: Path) -> None:
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(path)


def cut(path: Path) -> None:
    picture(path)
    path.write_bytes(path.read_bytes()[:-30])


ATTACKS = {
    "bomb.png": bomb,
    "cut.png": cut,
    "empty.png": lambda path: path.write_bytes(b""),
    "pipe.png": lambda path: os.mkfifo(path),
    "folder.png": lambda path: path.mkdir(),
    "missing.png": lambda path: None,
    "terabytes.npy": terabytes,
    "zipped.npy": zipped,
    "structured.npy": structured,
    "pickled.npy": pickled,
    "pipe.npy": lambda path: os.mkfifo(path),
    "text.npy": lambda path: path.write_text("hello"),
    "nan.npy": lambda path: np.save(path, np.full((1, 1, 8, 8), np.nan)),
    "shape.npy": lambda path: np.save(path, np.zeros((3, 3))),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ATTACKS)
def test_run_refuses_in_a_sentence(name: str, tmp_path: Path) -> None:
    ATTACKS[name](tmp_path / name)
    result = RUNNER.invoke(app, ["run", str(packed(tmp_path)), str(tmp_path / name)])
    assert isinstance(result.exception, BinaryDuoError), result.exception
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize("mean", ["half", "0.1 0.2", "nan", "", "1e999"])
def test_a_mean_that_is_no_number(mean: str, tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    net = packed(tmp_path, {"mean": mean})
    result = RUNNER.invoke(app, ["run", str(net), str(tmp_path / "a.png")])
    assert "the packed model's mean is" in str(result.exception)


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    net = packed(tmp_path, {"classes": "\n".join(f"cat\x1b]0;owned\x07{i}" for i in range(3))})
    for verb in (["run", str(net), str(tmp_path / "a.png"), "--top", "3"], ["describe", str(net)]):
        result = RUNNER.invoke(app, verb)
        assert result.exit_code == 0, result.exception
        assert "\x1b]" not in result.output
        assert "\x07" not in result.output
    assert printable("cat 猫 é −\n") == "cat 猫 é −\n"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_our_errors(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "anything"
    stored = io.BytesIO()
    np.save(stored, np.zeros((2, 3), np.float32))
    good = stored.getvalue()
    for content in (raw, good[: len(raw)] + raw, b"\x89PNG\r\n\x1a\n" + raw):
        path.write_bytes(content)
        for reader in (read_array, read_image):
            try:
                reader(path, DataError)
            except DataError as error:
                text = str(error)
                assert str(path) in text
        for parse in (parse_json, lambda text, name, error: parse_yaml(text, name)):
            with contextlib.suppress(BinaryDuoError):
                parse(content, "it", BinaryDuoError)


DEEP = [
    "[" * 20_000,
    "{a: " * 20_000,
    "- " * 20_000,
    "9" * 5_000,
    "a: &a [*a, *a]",
    "2001-99-99",
    "0b_",
    "? [1]\n: 2",
]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
@example(DEEP[0])
@example(DEEP[1])
@example(DEEP[2])
@example(DEEP[3])
@example(DEEP[4])
@example(DEEP[5])
@example(DEEP[6])
@example(DEEP[7])
def test_no_recipe_raises_anything_but_our_errors(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    for content in (text, f"train: {text}", f"train: {{epochs: {text}}}"):
        path.write_text(content, errors="replace")
        with contextlib.suppress(ArgumentError):
            from_yaml(path)
        with contextlib.suppress(ArgumentError):
            with_settings(Recipe(), [f"train.lr={content}"])


@pytest.mark.parametrize("value", [10**400, -(10**30), float("nan"), float("inf"), [[1]], {"a": 1}, 2**53])
@pytest.mark.parametrize("key", ["train.epochs", "train.lr", "loop.seed", "loop.batch", "train.drops"])
def test_numbers_that_no_run_can_have(key: str, value: object) -> None:
    if (key == "train.lr" and value == 2**53) or (key == "train.lr" and value == -(10**30)):
        return  # a number, and for the schedule to refuse or not
    section, name = key.split(".")
    with pytest.raises(ArgumentError, match=key):
        with_settings(
            Recipe(), [f"{section}.{name}={yaml.safe_dump(value, default_flow_style=True).strip()}"]
        )


def test_pipes_and_giants_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "giant").write_bytes(bytes(100))
    for name, message in (("pipe", "not a file"), ("giant", "more than 99 bytes"), ("none", "No such file")):
        with pytest.raises(DataError, match=message):
            read_bytes(tmp_path / name, "the file", DataError, limit=99)
    with pytest.raises(DataError, match="JSON"):
        read_json(tmp_path / "giant", "the file", DataError)
    with pytest.raises(DataError, match="NaN is not a number in JSON"):
        parse_json("[NaN]", "it", DataError)
    assert np.isnan(parse_json("[NaN]", "it", DataError, finite=False)[0])


def test_onnx_into_a_folder_that_is_missing_or_in_the_way(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    for path in (tmp_path / "missing" / "net.onnx", tmp_path):
        with pytest.raises(ArgumentError, match="cannot be written: its folder does not exist"):
            bd.export_onnx(net, torch.zeros(1, 2), path)
