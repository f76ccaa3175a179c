"""`bench infer` with whatever peers are installed; its numbers are never judged here, only that they are there."""

import json

import torch
from typer.testing import CliRunner

import binaryduo as bd
from binaryduo.bench.memory_use import memory_of
from binaryduo.cli.app import app
from binaryduo.engine import _native


def test_bench_infer(tmp_path):
    out = tmp_path / "speed.json"
    options = ["--threads", "1", "--networks", "vgg7:1", "--rounds", "1", "--no-growth", "--out", str(out)]
    result = CliRunner().invoke(app, ["bench", "infer", *options])
    assert result.exit_code == 0, result.output
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 5
    for row in rows:
        assert {"binaryduo", "PyTorch fp32"} <= row["milliseconds"].keys()
        assert row["ratios"].keys() == row["milliseconds"].keys() - {"binaryduo"}
        assert "Larq Compute Engine" in row["absent"] or "vgg7" in row["title"]
    assert "MAC/cycle" in result.output
    assert rows[-1]["memory_bytes"]["binaryduo"] > 0


def test_bad_arguments():
    result = CliRunner().invoke(app, ["bench", "infer", "--threads", "two"])
    assert result.exit_code != 0
    assert "--threads as 1,2" in str(result.exception)


def test_memory_is_that_of_a_process_of_its_own(tmp_path):
    """This process holds PyTorch; the child that runs the packed file must not seem to."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), bd.nn.QuantAct(), torch.nn.Conv2d(8, 4, 3)).eval()
    bd.pack(model, torch.rand(1, 3, 8, 8), tmp_path / "net.duo", verbose=False)
    found = memory_of("binaryduo", tmp_path / "net.duo", (1, 3, 8, 8))
    assert 5_000_000 < found.engine < 120_000_000
    assert found.network >= 0


def test_clock():
    assert 1e8 < _native.cycles_per_second() < 1e10
