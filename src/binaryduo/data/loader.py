"""A user's own DataLoader as a split, so that the same loop trains on anything."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from torch import Tensor

from binaryduo.data.in_memory import Batch
from binaryduo.data.order import Plan, seed_all
from binaryduo.errors import DataError


class LoaderSplit:
    """Any iterable of (images, labels) batches with a length, such as a DataLoader.

    Before each batch the random states are set from the seed, the epoch and the batch's number, so that a
    shuffling, augmenting DataLoader gives the same batches again when a run resumes; those already taken
    are skipped. The loader makes its own batches: the recipe's batch size is not used, and with several
    processes it has to give each its share (a DistributedSampler does).
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        if not isinstance(loader, Sized):
            raise DataError(
                "the loader has no length, and a schedule needs to know how many batches there are per epoch"
            )
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def steps(self, plan: Plan) -> int:
        """How many batches one pass has."""
        return len(self)

    def to(self, device: torch.device) -> "LoaderSplit":
        """Itself: batches are moved one at a time."""
        return self

    def batches(self, plan: Plan) -> Iterator[Batch]:
        """One pass, or what is left of it from `plan.start`."""
        sampler: Any = getattr(self.loader, "sampler", None)
        if plan.train and hasattr(sampler, "set_epoch"):
            sampler.set_epoch(plan.epoch)
        seed_all(plan.seed, plan.epoch, 4, 0)
        items = iter(self.loader)
        for step in range(len(self)):
            seed_all(plan.seed, plan.epoch, 4, step)
            item = next(items, None)
            if not (isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[1], Tensor)):
                raise DataError(f"batch {step} of the loader is {type(item).__name__}, not (images, labels)")
            if step >= plan.start:
                yield Batch(item[0], item[1])
