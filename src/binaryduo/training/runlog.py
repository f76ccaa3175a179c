"""The folder of a run: its recipe, where it ran, what it measured. One process writes it at a time.

recipe.yaml        every setting, resolved; of a user's own model, what is known of it
model.json         of a user's own model: its class, the shape of an example, its cost
environment.json   versions, machine, git state, seed, command: one entry for each start
changes.json       settings that were changed on purpose while the run was under way, where there are any
metrics.jsonl      one line for each measurement
tensorboard/       the same for TensorBoard
checkpoints/       the last two, and the best
summary.json       written when the run is complete
"""

import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import yaml

import binaryduo
from binaryduo._common.files import write_synced
from binaryduo._common.hostile import MEGABYTE, parse_json, read_bytes, read_json
from binaryduo._common.locks import Lock
from binaryduo._common.progress import say
from binaryduo._common.yaml_files import read_keys
from binaryduo.errors import ArgumentError, BusyError, CheckpointError
from binaryduo.training.identity import Settings, Verb, decisive, differences, settings_of
from binaryduo.training.own import own_settings, refuse_other_settings
from binaryduo.training.recipe import Recipe, from_yaml, to_yaml
from binaryduo.training.records import (
    append_entry,
    earlier_settings,
    record_changes,
    refuse_changes,
    second_begun,
)

FILES = ("recipe.yaml", "environment.json", "changes.json", "summary.json")
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

    def __init__(
        self, path: "str | Path", resume: bool = False, writes: bool = True, verb: Verb = "fit"
    ) -> None:
        self.path, self.resume, self.writes, self.verb = Path(path), resume, writes, verb
        self._lock = Lock(self.path / "lock")
        self._changed: tuple[Recipe, Settings] | None = None  # to this one, from these settings

    def __enter__(self) -> "RunFolder":
        if not self.writes:
            return self
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            free = self._lock.acquire()
        except OSError as error:
            raise ArgumentError(f"{self.path} cannot be a run's folder: {error.strerror}") from None
        if not free:
            raise BusyError(
                f"another run is already using {self.path} (process {self._lock.holder()}): "
                "wait for it or use another folder"
            )
        try:
            self._check()
            for half in (f"{name}.part" for name in FILES):  # a kill may have left one
                (self.path / half).unlink(missing_ok=True)
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _check(self) -> None:
        """Refuse a folder that another verb has filled, and one that holds a run which is not to be continued."""
        two_stages = self.verb == "duo"
        other = self.path / ("checkpoints" if two_stages else "coupled")
        if other.exists():
            own, theirs = ("duo", "train") if two_stages else (self.verb, "duo")
            raise ArgumentError(
                f"{self.path} holds a run of `{theirs}`, which has {other.name}/: `{own}` does not continue it; "
                f"use `{theirs} --resume` or another folder"
            )
        stages = (self.path / stage / "checkpoints" for stage in ("", "coupled", "decoupled"))
        if not self.resume and any(any(stage.glob("step-*.json")) for stage in stages):
            raise ArgumentError(
                f"{self.path} already holds a run: continue it with --resume (in Python: resume=True) or use another "
                "folder"
            )

    def describe(self, recipe: Recipe, change: bool = False) -> tuple[Settings, ...]:
        """Write the recipe, or check that it is the one the run was started with, and note this start.

        With `change` settings may differ where the table of `identity` allows it; `keep_changes` then records them.
        Returns the settings that the run had before such changes.
        """
        if not self.writes:
            return ()
        kept = self.path / "recipe.yaml"
        now = decisive(recipe, self.verb)
        earlier: tuple[Settings, ...] = ()
        if kept.exists() and self.resume:
            before = from_yaml(kept)
            had = decisive(before, self.verb)
            deciding = differences(had, now)
            if deciding and not change:
                key, (old, new) = next(iter(deciding.items()))
                raise ArgumentError(
                    f"{kept} is another recipe ({key} is {old!r} there and {new!r} here): a run is resumed with "
                    "the settings it began with"
                )
            self._check_not_lost()
            if deciding:
                refuse_changes(self.path, deciding)
                self._changed, now, earlier = (recipe, had), had, (had,)
            elif differences(settings_of(before), settings_of(recipe)):
                write_synced(kept, to_yaml(recipe).encode())
        else:
            write_synced(kept, to_yaml(recipe).encode())
        append_entry(self.path / "environment.json", environment(recipe.loop.seed))
        return earlier + earlier_settings(self.path, now)

    def keep_changes(self, stage: Path) -> None:
        """Record the changes that `describe` has let pass, once the stage that is under way can go on with them."""
        if self._changed is None or (second_begun(self.path) and stage != self.path / "decoupled"):
            return
        recipe, before = self._changed
        record_changes(self.path, before, decisive(recipe, self.verb))
        write_synced(self.path / "recipe.yaml", to_yaml(recipe).encode())
        self._changed = None

    def describe_own(self, recipe: dict[str, Any], seed: int) -> None:
        """The same for a user's own model: `recipe` holds what is known, as `own_recipe` gives it."""
        if not self.writes:
            return
        kept = self.path / "recipe.yaml"
        if kept.exists() and self.resume:
            refuse_other_settings(own_settings(read_keys(kept, "the recipe")), own_settings(recipe), kept)
            self._check_not_lost()
        write_synced(kept, yaml.safe_dump(recipe, sort_keys=False).encode())
        append_entry(self.path / "environment.json", environment(seed))

    def _check_not_lost(self) -> None:
        """Refuse to begin again, without a word, a stage whose checkpoints are gone."""
        stages = ["coupled", "decoupled"] if self.verb == "duo" else [""]
        held = [any((self.path / stage / "checkpoints").glob("step-*.json")) for stage in stages]
        for number, stage in enumerate(stages):
            folder = self.path / stage
            metrics = folder / "metrics.jsonl"
            traces = [metrics] if metrics.exists() and metrics.stat().st_size else []
            traces += [*(folder / "checkpoints").glob("best-*.json")]
            traces += [path for path in [self.path / "summary.json"] if path.exists()]
            later = zip(stages[number + 1 :], held[number + 1 :], strict=True)
            traces += [self.path / name for name, there in later if there]
            if traces and not held[number]:
                raise CheckpointError(
                    f"{folder} has lost its checkpoints (checkpoints/step-*.json), though {traces[0]} shows that "
                    "it was trained: it cannot be continued; start again in another folder"
                )
        if not held[0]:
            say(f"{self.path} holds no checkpoint yet: the run starts from its first step")

    def write_json(self, name: str, content: Any) -> None:
        if self.writes:
            write_synced(self.path / name, (json.dumps(content, indent=1) + "\n").encode())


def read_summary(folder: "str | Path") -> dict[str, Any]:
    """The summary.json of a complete run."""
    path = Path(folder) / "summary.json"
    found = read_json(path, "the summary", CheckpointError, finite=False)
    if not isinstance(found, dict):
        raise CheckpointError(f"the summary {path} is no summary of a run: it is damaged")
    return found


def read_metrics(folder: "str | Path") -> list[dict[str, Any]]:
    """All lines of a stage's metrics.jsonl."""
    path = Path(folder) / "metrics.jsonl"
    lines = read_bytes(path, "the metrics", CheckpointError, limit=1024 * MEGABYTE).splitlines()
    return [
        parse_json(line, f"line {number} of {path}", CheckpointError, finite=False)
        for number, line in enumerate(lines, 1)
    ]
