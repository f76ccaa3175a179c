"""Which images make which batch: a pure function of the seed, the epoch and the step.

Nothing is remembered between batches, so a run resumes in the middle of an epoch by asking for the next
step, and any number of processes sees the same global batches.
"""

import random
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from binaryduo.errors import ArgumentError


def derived_seed(*numbers: int) -> int:
    """A well mixed 63-bit seed from a tuple of numbers: neighbouring tuples give unrelated streams.

    >>> derived_seed(0, 1, 2) == derived_seed(0, 1, 2) != derived_seed(0, 2, 1)
    True
    """
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1


def generator(*numbers: int) -> torch.Generator:
    """A CPU generator started from `derived_seed`."""
    return torch.Generator().manual_seed(derived_seed(*numbers))


def seed_all(*numbers: int) -> None:
    """Set the random states of Python, NumPy and torch from a tuple of numbers."""
    seed = derived_seed(*numbers)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (the state that other people's code draws from)
    torch.manual_seed(seed)


@lru_cache(maxsize=4)
def epoch_order(size: int, seed: int, epoch: int) -> Tensor:
    """A permutation of 0 … size-1.

    >>> sorted(epoch_order(5, seed=0, epoch=3).tolist())
    [0, 1, 2, 3, 4]
    """
    return torch.randperm(size, generator=generator(seed, epoch, 0))


@dataclass(frozen=True)
class Plan:
    """The batches that one process takes from one pass over a split.

    `batch` is the global batch: each of `world` processes takes its share of every one. Training leaves
    out the last, incomplete batch; evaluation keeps it. `start` skips batches already taken.
    """

    batch: int
    train: bool
    seed: int = 0
    epoch: int = 0
    start: int = 0
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1 or self.batch % self.world:
            raise ArgumentError(
                f"a global batch of {self.batch} cannot be shared equally by {self.world} processes: "
                f"choose a multiple of {self.world}"
            )

    def steps(self, size: int) -> int:
        """How many batches one pass has.

        >>> Plan(batch=4, train=True).steps(10), Plan(batch=4, train=False).steps(10)
        (2, 3)
        """
        return size // self.batch if self.train else -(-size // self.batch)

    def share(self, indices: Tensor) -> Tensor:
        """This process's part of a global batch, a contiguous slice of it."""
        part = self.batch // self.world
        return indices[self.rank * part : (self.rank + 1) * part]

    def order(self, size: int) -> Tensor:
        """All indices in the order of this pass: shuffled by seed and epoch to train, as they are to test."""
        return epoch_order(size, self.seed, self.epoch) if self.train else torch.arange(size)
