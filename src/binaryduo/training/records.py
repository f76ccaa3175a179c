"""Lists that grow by an entry a start: environment.json and changes.json of a run's folder."""

import json
import time
from pathlib import Path
from typing import Any

from binaryduo._common.files import write_synced
from binaryduo._common.hostile import read_json
from binaryduo._common.progress import say
from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.training.identity import BEGINS_SECOND, CHANGEABLE, Changes, Settings, differences, digest_of


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The entries of such a file; one that is damaged is named and set aside, since it decides nothing by itself."""
    if not path.exists():
        return []
    try:
        found = read_json(path, "the record", CheckpointError)
        if isinstance(found, list) and all(isinstance(entry, dict) for entry in found):
            return found
        raise CheckpointError(f"the record {path} does not hold a list of entries")
    except CheckpointError as error:
        aside = path.with_name(f"{path.name}.damaged")
        say(f"{error}; it is kept as {aside.name}, and a new one is started")
        path.replace(aside)
        return []


def append_entry(path: Path, entry: dict[str, Any]) -> None:
    """Add one entry, whole or not at all."""
    write_synced(path, (json.dumps([*read_entries(path), entry], indent=1) + "\n").encode())


def second_begun(folder: Path) -> bool:
    """Whether the second stage of a `duo` run is under way."""
    return any((folder / "decoupled" / "checkpoints").glob("step-*.json"))


def refuse_changes(folder: Path, changes: Changes) -> None:
    """Refuse a deliberate change of settings that cannot be made any more."""
    begun = second_begun(folder)
    for key, (old, new) in changes.items():
        if key not in CHANGEABLE:
            raise ArgumentError(
                f"{key} was {old!r} when the run began and decides it from its first step on: for {new!r} start "
                "another run in a folder of its own"
            )
        if begun and key.startswith("train."):
            raise ArgumentError(f"{key} is a setting of the first stage, which is complete: it stays {old!r}")
        if begun and key in BEGINS_SECOND:
            raise ArgumentError(
                f"{key} decides what the second stage begins with, which has begun: it stays {old!r}"
            )


def record_changes(folder: Path, before: Settings, after: Settings) -> None:
    """Note a deliberate change of settings in changes.json, and say it."""
    changes = differences(before, after)
    newest = max(folder.rglob("step-*.json"), default=None, key=lambda path: path.stat().st_mtime)
    for key, (old, new) in changes.items():
        say(f"{folder}: {key} is {new!r} from here on; it was {old!r}")
    append_entry(
        folder / "changes.json",
        {
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "newest_checkpoint": None if newest is None else newest.relative_to(folder).as_posix(),
            "changes": {key: list(values) for key, values in changes.items()},
            "before": digest_of(before),
            "after": digest_of(after),
        },
    )


def earlier_settings(folder: Path, now: Settings) -> tuple[Settings, ...]:
    """The settings that a run had before each of its recorded changes; the checksums must lead from one to the next."""
    found: list[Settings] = []
    for entry in reversed(read_entries(folder / "changes.json")):
        if entry.get("after") != digest_of(now) or not isinstance(entry.get("changes"), dict):
            continue
        pairs = {
            key: values
            for key, values in entry["changes"].items()
            if isinstance(values, list) and len(values) == 2 and key in now
        }
        before = now | {key: old for key, (old, _) in pairs.items()}
        if entry.get("before") != digest_of(before) or any(now[key] != pairs[key][1] for key in pairs):
            continue
        found.append(before)
        now = before
    return tuple(found)
