"""Runs that are killed and runs of several processes, with real processes (see processes.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from binaryduo.training import synced_norm
from binaryduo.training.synced_norm import synchronise

ROOT = Path(__file__).parents[2]


def started(what: str, folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.processes", what, str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    found = started("kills", tmp_path)
    assert "failed" not in found, found["failed"]
    assert found["kills"] >= 20
    assert found["equal"]
    assert all(found["equal"])


def test_batch_normalisation_that_is_not_synchronised_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    class Own(nn.BatchNorm2d):
        pass

    model = synchronise(nn.Sequential(nn.BatchNorm3d(2), Own(2)))
    assert [type(module).__name__ for module in model] == ["SyncedBatchNorm3d", "Own"]
    assert "loop.sync_bn does not know Own:" in capsys.readouterr().err


def test_batch_normalisation_in_half_precision_keeps_its_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is bfloat16 throughout, its running statistics too; as of two processes with the same images."""
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(synced_norm, "_sum", lambda value: 2 * value)
    x = torch.randn(8, 3, 4, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    ours, plain = synchronise(nn.Sequential(nn.BatchNorm2d(3).bfloat16())), nn.BatchNorm2d(3)
    assert ours(x).dtype == torch.bfloat16
    plain(x.float().repeat(2, 1, 1, 1))
    assert plain.running_var is not None
    assert ours[0].running_var.dtype == torch.bfloat16
    assert torch.allclose(ours[0].running_var.float(), plain.running_var, rtol=1e-2)


def test_two_processes_train_like_one(tmp_path: Path) -> None:
    found = started("parallel", tmp_path)
    for copied in (False, True):
        run = found[f"copied={copied}"]
        assert run["codes"] == [0, 0, 0], [path.read_text() for path in tmp_path.glob("*.log")]
        one, two = run["curves"]
        assert len(one) > 20
        assert two == pytest.approx(one, rel=1e-10)
        assert run["tests"][0] == run["tests"][1]
    half = found["bf16"]
    assert half["codes"] == [0, 0, 0], [path.read_text() for path in tmp_path.glob("*bf16*.log")]
    assert half["curves"][1] == pytest.approx(half["curves"][0], rel=0.1)  # rounding flips activations
    assert half["kept"] == ["step-000000003", "step-000000005"]
    assert found["lost codes"] == [2, -9]
    assert found["lost message"].startswith("ProcessLost: another process of this run has ended")
    code, log = found["alone"]
    assert code == 2
    assert "continuing after step" in log
    assert "RunInterrupted: stopped by SIGTERM" in log
