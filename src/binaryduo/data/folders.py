"""Images in class folders: root/train/<class>/*.JPEG and root/val/<class>/*.JPEG."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from binaryduo._common.hostile import read_bytes
from binaryduo._common.images import MOST_BYTES
from binaryduo._common.progress import track
from binaryduo.data.order import Plan
from binaryduo.errors import DataError

SUFFIXES = {".jpeg", ".jpg", ".png", ".webp", ".bmp"}


@dataclass(eq=False)
class FolderFiles:
    """The image files below one folder a class; a class's number is its place in `classes`."""

    root: Path
    paths: list[str]
    labels: Tensor

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int) -> bytes:
        return read_bytes(Path(self.paths[index]), "the image", DataError, MOST_BYTES)

    def name(self, index: int) -> str:
        return self.paths[index]

    def order(self, plan: Plan) -> Tensor:
        return plan.order(len(self))


def class_names(root: Path) -> tuple[str, ...]:
    """The folders of a split, sorted as everybody sorts them."""
    if not root.is_dir():
        raise DataError(f"{root} does not exist: a data set of class folders has one folder per class there")
    names = tuple(sorted(entry.name for entry in os.scandir(root) if entry.is_dir()))
    if not names:
        raise DataError(f"{root} has no class folders")
    return names


def scan(root: Path, classes: tuple[str, ...]) -> FolderFiles:
    """Find all images; an empty class folder or one of another name is refused by name."""
    found = class_names(root)
    if unknown := set(found) ^ set(classes):
        name = min(unknown)
        where = "only in" if name in found else "missing in"
        raise DataError(f"the class folder {name} is {where} {root}: both splits need the same classes")
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(track(classes, f"listing {root.name}", len(classes))):
        folder = root / name
        here = sorted(e.path for e in os.scandir(folder) if Path(e.name).suffix.lower() in SUFFIXES)
        if not here:
            raise DataError(f"the class folder {folder} holds no images ({', '.join(sorted(SUFFIXES))})")
        paths += here
        labels += [label] * len(here)
    return FolderFiles(root, paths, torch.tensor(labels))
