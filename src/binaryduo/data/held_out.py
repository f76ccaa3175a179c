"""A validation split: a share of the training images that no training sees, the same in every run.

Settings are chosen on it, so that the test set has no part in any choice.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from binaryduo.data.decoded import DecodedSplit, Files
from binaryduo.data.in_memory import MemorySplit
from binaryduo.data.order import Plan, generator
from binaryduo.errors import ArgumentError

SEED = 5000  # of the split alone: it does not depend on the seed of a run


def held_out(size: int, share: float) -> tuple[Tensor, Tensor]:
    """The indices that are trained on and those that are held out, each ascending.

    >>> [len(part) for part in held_out(50_000, 0.1)]
    [45000, 5000]
    """
    count = round(share * size)
    if not 0 <= share < 1 or not 0 < count < size:
        raise ArgumentError(
            f"data.validation = {share:g} holds out {count} of {size} training images: choose a share such as 0.1"
        )
    order = torch.randperm(size, generator=generator(SEED, size))
    return order[count:].sort().values, order[:count].sort().values


@dataclass(eq=False)
class SomeFiles:
    """Some of the images of a folder or of shards, in the order in which those would be read."""

    files: Files
    indices: Tensor  # ascending

    def __post_init__(self) -> None:
        self.labels = self.files.labels[self.indices]
        self._place = torch.full((len(self.files),), -1)
        self._place[self.indices] = torch.arange(len(self.indices))

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> bytes:
        return self.files.read(int(self.indices[index]))

    def name(self, index: int) -> str:
        return self.files.name(int(self.indices[index]))

    def order(self, plan: Plan) -> Tensor:
        places = self._place[self.files.order(plan)]
        return places[places >= 0]


def hold_out(
    train: "MemorySplit | DecodedSplit", share: float
) -> "tuple[MemorySplit | DecodedSplit, MemorySplit | DecodedSplit]":
    """What is left to train on, and the validation split, whose images are not augmented.

    >>> split = MemorySplit(torch.zeros(50, 4, 4, 1, dtype=torch.uint8), torch.arange(50), (0.5,), (0.5,), pad=2)
    >>> rest, validation = hold_out(split, 0.2)
    >>> len(rest), len(validation), validation.pad
    (40, 10, 0)
    """
    kept, apart = held_out(len(train), share)
    if isinstance(train, DecodedSplit):
        return tuple(replace(train, files=SomeFiles(train.files, part)) for part in (kept, apart))  # type: ignore[return-value]
    rest, validation = (
        replace(train, images=train.images[part], labels=train.labels[part]) for part in (kept, apart)
    )
    return rest, replace(validation, pad=0, flip=False)
