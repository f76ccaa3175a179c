"""The folder of a run: its recipe, where it ran, what it measured. One process writes it at a time.

recipe.yaml        every setting, resolved
environment.json   versions, machine, git state, seed, command: one entry a start
metrics.jsonl      one line a measurement
tensorboard/       the same for TensorBoard
checkpoints/       the last two, and the best
summary.json       written when the run is complete
"""

import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import torch

import binaryduo
from binaryduo._common.files import write_synced
from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.training.recipe import Recipe, from_yaml, to_yaml

PACKAGES = ("torch", "lightning-fabric", "numpy", "safetensors", "pillow")


def environment(seed: int) -> dict[str, Any]:
    """Where and with what this process runs."""

    def found(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": sys.argv,
        "seed": seed,
        "binaryduo": binaryduo.__version__,
        "git": git_state(Path(binaryduo.__file__).parent),
        "python": platform.python_version(),
        **{package: found(package) for package in PACKAGES},
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerators": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
    }


def git_state(folder: Path) -> dict[str, Any] | None:
    """The commit the code is at and whether files differ from it; None outside of a repository."""
    try:
        asked = [["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]]
        commit, changes = (
            subprocess.run(["git", *a], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            for a in asked
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "changed": bool(changes)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


class RunFolder:
    """Opens a folder for one run, refuses a second one, and keeps its records.

    A folder that holds a run is opened again only with `resume`. The lock is the operating system's, so it
    ends with the process, however that ends.
    """

    def __init__(self, path: "str | Path", resume: bool = False, writes: bool = True) -> None:
        self.path, self.resume, self.writes = Path(path), resume, writes
        self._lock: BinaryIO | None = None

    def __enter__(self) -> "RunFolder":
        if not self.writes:
            return self
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("ab+")
        except OSError as error:
            raise ArgumentError(f"{self.path} cannot be a run's folder: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            holder = self._lock.read().decode().strip()
            self._lock.close()
            raise ArgumentError(
                f"a run is going on in {self.path} already (process {holder}): wait or use another folder"
            ) from None
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}".encode())
        self._lock.flush()
        if not self.resume and (self.path / "recipe.yaml").exists() and any(self.path.rglob("step-*.json")):
            self.__exit__(None, None, None)
            raise ArgumentError(
                f"{self.path} already holds a run: continue it with --resume or use another folder"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def describe(self, recipe: Recipe) -> None:
        """Write the recipe (or check that it is the one the run was started with) and note this start."""
        if not self.writes:
            return
        kept = self.path / "recipe.yaml"
        if kept.exists() and self.resume:
            if to_yaml(from_yaml(kept)) != to_yaml(recipe):
                raise ArgumentError(
                    f"{kept} is another recipe: a run is resumed with the settings it began with"
                )
        else:
            write_synced(kept, to_yaml(recipe).encode())
        starts = self.path / "environment.json"
        before = json.loads(starts.read_text()) if starts.exists() else []
        self.write_json("environment.json", [*before, environment(recipe.loop.seed)])

    def write_json(self, name: str, content: Any) -> None:
        if self.writes:
            write_synced(self.path / name, (json.dumps(content, indent=1) + "\n").encode())


class Metrics:
    """metrics.jsonl and TensorBoard of one stage. `position` goes into the checkpoint: what was written
    after it is cut off when the run resumes there, so that no line appears twice."""

    def __init__(self, folder: Path, position: int = 0, tensorboard: bool = True, step: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "metrics.jsonl"
        self._file = self.path.open("ab")
        self._file.truncate(position)
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def write(self, line: dict[str, Any]) -> None:
        """One line; numbers also go to TensorBoard under the same names."""
        try:
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()
            if self._board is not None:
                for name, value in line.items():
                    if isinstance(value, float):
                        self._board.add_scalar(name, value, line["step"])
        except OSError as error:
            raise CheckpointError(
                f"{self.path} could not be written ({error.strerror}): make room and continue with --resume"
            ) from error

    @property
    def position(self) -> int:
        """Bytes written and on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(folder: "str | Path") -> list[dict[str, Any]]:
    """All lines of a stage's metrics.jsonl."""
    lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
