"""Images in WebDataset tar shards, read at random through an index of their members.

A sample is a group of members with the same key: key.jpg (or .jpeg, .png, .webp) and key.cls, a number in
plain text, or key.json with an entry "label". The index is made once for each shard, from the headers alone, and
kept in the user's cache. With it a shard is as good as a folder: the order of an epoch is a pure function
of the seed, and a run resumes in the middle of an epoch with any number of processes.
"""

import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from binaryduo._common.downloads import cache_dir
from binaryduo._common.files import write_synced
from binaryduo._common.hostile import parse_json, read_json
from binaryduo._common.locks import alone
from binaryduo._common.progress import track
from binaryduo.data.order import Plan, epoch_order, generator
from binaryduo.errors import DataError

IMAGES = {"jpg", "jpeg", "png", "webp"}
MOST_LABEL_BYTES = 2**20
WINDOW = 16  # shards that are shuffled together: disk reads stay within these


@dataclass(eq=False)
class ShardFiles:
    """Samples of all shards, one after the other: shard number, byte offset, length, label of each."""

    shards: list[Path]
    keys: list[str]
    where: Tensor  # (N, 3): shard, offset, length
    labels: Tensor  # (N,)

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, index: int) -> bytes:
        shard, offset, length = self.where[index].tolist()
        with self.shards[shard].open("rb") as file:
            file.seek(int(offset))
            raw: bytes = file.read(int(length))
        if len(raw) != length:
            raise EOFError(f"{self.shards[shard]} ends early")
        return raw

    def name(self, index: int) -> str:
        return f"{self.shards[int(self.where[index, 0])]}:{self.keys[index]}"

    def order(self, plan: Plan) -> Tensor:
        """Shards in random order, and the samples of every 16 of them shuffled together."""
        if not plan.train:
            return torch.arange(len(self))
        counts = torch.bincount(self.where[:, 0], minlength=len(self.shards))
        starts = counts.cumsum(0) - counts
        order = epoch_order(len(self.shards), plan.seed, plan.epoch)
        random = generator(plan.seed, plan.epoch, 3)
        parts = []
        for first in range(0, len(order), WINDOW):
            group = order[first : first + WINDOW]
            members = torch.cat([torch.arange(int(starts[s]), int(starts[s] + counts[s])) for s in group])
            parts.append(members[torch.randperm(len(members), generator=random)])
        return torch.cat(parts)


def index_shard(path: Path) -> list[tuple[str, int, int, int]]:
    """(key, offset, length, label) of each sample, in the shard's order."""
    images: dict[str, tuple[int, int]] = {}
    labels: dict[str, int] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                folder, _, base = member.name.rpartition("/")
                stem, _, kind = base.partition(".")
                key = f"{folder}/{stem}" if folder else stem
                if kind.lower() in IMAGES and member.isreg():
                    images[key] = (member.offset_data, member.size)
                elif kind in ("cls", "json"):
                    labels[key] = _label(archive, member, kind)
    except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"the shard {path} is damaged or not a WebDataset shard: {error}") from error
    except DataError as error:
        raise DataError(f"the shard {path}: {error}") from None
    for key in images:
        if key not in labels:
            raise DataError(f"the shard {path} has no label (.cls or .json) for the sample {key}")
    if not images:
        raise DataError(f"the shard {path} holds no images (.{', .'.join(sorted(IMAGES))})")
    return [(key, *place, labels[key]) for key, place in images.items()]


def _label(archive: tarfile.TarFile, member: tarfile.TarInfo, kind: str) -> int:
    """The number in a member: plain text, or the entry "label" of JSON. Links are not followed."""
    file = archive.extractfile(member) if member.isreg() else None
    if file is None or member.size > MOST_LABEL_BYTES:
        raise DataError(
            f"{member.name} is not a file of at most {MOST_LABEL_BYTES} bytes, so it cannot be a label"
        )
    text = file.read()
    if kind == "json":
        found = parse_json(text, member.name, DataError)
        label = found.get("label") if isinstance(found, dict) else None
    else:
        label = int(text) if text.strip().isdigit() and len(text) < 20 else None
    if type(label) is not int:
        raise DataError(f"{member.name} holds no label: a whole number is expected")
    return label


def _cached_index(path: Path) -> list[tuple[str, int, int, int]]:
    """The index of a shard from the cache if the shard's size and date are those it was made for."""
    stat = path.stat()
    mark = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
    kept = cache_dir() / "shards" / f"{hashlib.sha256(mark.encode()).hexdigest()[:32]}.json"
    found = _read_index(kept)
    if found is None:
        with alone(kept.with_suffix(".lock")):  # one process makes it, and others that want it wait
            found = _read_index(kept)
            if found is None:
                found = index_shard(path)
                write_synced(kept, json.dumps(found).encode())
    return found


def _read_index(kept: Path) -> list[tuple[str, int, int, int]] | None:
    """The index in that file; None where it is not there yet, or was damaged: it is made anew from the shard itself."""
    try:
        found = read_json(kept, "the index", DataError, limit=2**30)
    except DataError:
        return None
    if not isinstance(found, list) or not all(_is_entry(entry) for entry in found):
        return None
    return [tuple(entry) for entry in found]


def _is_entry(entry: object) -> bool:
    kinds = [str, int, int, int]
    return isinstance(entry, list) and [type(value) for value in entry] == kinds


def scan(shards: list[Path], num_classes: int) -> ShardFiles:
    """Index all shards; a label outside of 0 … num_classes-1 is refused with its shard and key."""
    keys: list[str] = []
    where: list[tuple[int, int, int]] = []
    labels: list[int] = []
    for number, path in enumerate(track(shards, "indexing shards", len(shards))):
        for key, offset, length, label in _cached_index(path):
            if not 0 <= label < num_classes:
                raise DataError(
                    f"the shard {path} gives {key} the label {label}, outside of 0 … {num_classes - 1}"
                )
            keys.append(key)
            where.append((number, offset, length))
            labels.append(label)
    return ShardFiles(shards, keys, torch.tensor(where), torch.tensor(labels))
