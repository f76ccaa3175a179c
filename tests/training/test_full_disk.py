"""A whole run on a disk that fills up: one clear sentence, and nothing that was saved is lost."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from binaryduo.training import checkpoint

RUN = (
    *(
        "train",
        "--network",
        "mlp",
        "--width",
        "0.05",
        "--set",
        "loop.batch=500",
        "--set",
        "loop.engine=eager",
    ),
    *("--set", "train.epochs=6", "--set", "loop.checkpoint_steps=3", "--set", "loop.tensorboard=true"),
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes in memory; needs the right to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


COMMAND = [sys.executable, "-m", "binaryduo"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def binaryduo(*arguments: str) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=240
    )
    assert done.returncode == 0, done.stderr


def fill(disk: Path) -> Path:
    """A file that takes all the room that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


def test_a_full_disk_stops_a_run_that_then_continues(tmp_path: Path, small_disk: Path) -> None:
    binaryduo(*RUN, "--out", str(tmp_path / "whole"))
    folder = small_disk / "run"
    running = subprocess.Popen(
        [*COMMAND, *RUN, "--out", str(folder)], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    while running.poll() is None and not list((folder / "checkpoints").glob("step-*6.json")):
        time.sleep(0.002)
    ballast = fill(small_disk)
    _, said = running.communicate(timeout=240)
    assert running.returncode == 2, said
    assert "could not be written (No space left on device)" in said
    assert "continue with --resume" in said
    assert "Traceback" not in said
    saved = checkpoint.newest(folder / "checkpoints")
    assert saved is not None
    assert saved.state["step"] >= 6
    ballast.unlink()
    binaryduo("train", "--resume", "--out", str(folder))
    found, wanted = (checkpoint.newest(run / "checkpoints") for run in (folder, tmp_path / "whole"))
    assert found is not None
    assert wanted is not None
    assert found.state["step"] == wanted.state["step"]
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in wanted.tensors.items())
