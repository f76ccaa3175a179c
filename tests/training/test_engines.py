"""Engines are measured without a trace, and one that does not work never stops a run."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from binaryduo.errors import ArgumentError
from binaryduo.training import Loop, Stage, checkpoint, devices, engines, fit
from binaryduo.training.measured import Measured
from tests.training import tiny

BROKEN_COMPILER = """
import sys
import torch
import torch._inductor.config as config
config.cpp.cxx = ("no-such-compiler",)
config.force_disable_caches = True
from binaryduo.training import engines
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
print(engines.measure(model, ["eager", "compile"], lambda forward: forward(torch.rand(2, 4)).sum().backward()))
"""


def test_a_missing_compiler_is_named_and_left_out() -> None:
    done = subprocess.run([sys.executable, "-c", BROKEN_COMPILER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "'eager':" in done.stdout
    assert "compile" not in done.stdout
    assert "engine compile is not used: " in done.stderr


def test_a_budget_needs_an_engine_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: nn.Module, engine: str) -> engines.Prepared:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(engines, "prepare", broken)
    loop = dataclasses.replace(tiny.LOOP, engine="compile")
    with pytest.raises(ArgumentError, match="the engine compile does not work here"):
        fit(tiny.network(), tiny.split(), None, Stage(minutes=0.1), loop, tmp_path)


def test_measuring_leaves_the_model_as_it_was() -> None:
    model = tiny.network()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def step(forward: nn.Module) -> None:
        forward(torch.rand(4, 1, 8, 8)).sum().backward()

    found = engines.measure(model, ["eager"], step)
    assert set(found) == {"eager"}
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_the_fast_engine_trains_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    def network(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.Flatten(),
            nn.Linear(1024, 4),
        )

    loop = dataclasses.replace(tiny.LOOP, engine="fast")
    stage = Stage(epochs=2, lr=0.003)
    whole, model = network(0), network(0)
    fit(whole, tiny.split(), None, stage, loop, tmp_path / "whole")
    fit(model, tiny.split(), None, stage, loop, tmp_path / "part")
    for path in (tmp_path / "part" / "checkpoints").glob("step-000000010.*"):
        path.unlink()
    model = network(7)
    fit(model, tiny.split(), None, stage, loop, tmp_path / "part", resume=True)
    assert tiny.same(whole, model)
    assert all("_conv_forward" not in module.__dict__ for module in model.modules())


def test_the_choice_is_stored(tmp_path: Path) -> None:
    loop = dataclasses.replace(tiny.LOOP, engine="auto")
    fit(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), tiny.split(), None, Stage(epochs=1), loop, tmp_path)
    found = checkpoint.newest(tmp_path / "checkpoints")
    assert found is not None
    assert Measured(**found.state["chosen"]) == Measured("eager", 5, 1, {})


def test_a_process_group_is_left_once_and_only_if_it_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gloo's threads abort a process now and then whose interpreter goes while they are there."""
    asked: list[object] = []
    monkeypatch.setattr(devices.atexit, "register", asked.append)
    monkeypatch.setattr(devices, "Fabric", lambda **_: SimpleNamespace(launch=join))
    joined = [False]

    def join() -> None:
        joined[0] = True

    monkeypatch.setattr(devices.dist, "is_initialized", lambda: joined[0])
    devices.make_fabric(Loop(accelerator="cpu"))
    assert asked == []  # alone: there is no group
    joined[0] = False
    monkeypatch.setenv("WORLD_SIZE", "2")
    devices.make_fabric(Loop(accelerator="cpu"))
    devices.make_fabric(Loop(accelerator="cpu"))  # the second stage of duo
    assert asked == [devices.leave_group]


def test_torchrun_runs_the_command(tmp_path: Path) -> None:
    command = [
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        "127.0.0.1:0",  # any free port, taken by the process that needs it
        "--local-addr",
        "127.0.0.1",
        "-m",
        "binaryduo",
        "train",
    ]
    settings = [
        "model.network=mlp",
        "model.width=0.1",
        "loop.batch=500",
        "train.epochs=1",
        "loop.tensorboard=false",
    ]
    done = subprocess.run(
        [
            sys.executable,
            *command,
            "--out",
            str(tmp_path / "run"),
            *(a for s in settings for a in ("--set", s)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "best: top-1" in done.stdout
    assert (tmp_path / "run" / "summary.json").exists()
