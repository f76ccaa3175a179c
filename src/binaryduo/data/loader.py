"""A user's own DataLoader as a split, so that the same loop trains on anything."""

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from binaryduo.data.memory import Batch
from binaryduo.data.order import Plan, derived_seed
from binaryduo.errors import DataError


class LoaderSplit:
    """Any iterable of (images, labels) batches with a length, such as a DataLoader.

    Before each training pass torch's random state is set from the seed and the epoch, so that a shuffling
    DataLoader gives the same order again when a run resumes; batches already taken are skipped. The
    loader makes its own batches: the recipe's batch size is not used, and with several processes it has to
    give each its share (a DistributedSampler does).
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        if not isinstance(loader, Sized):
            raise DataError(
                "the loader has no length: the schedule needs to know how many batches an epoch has"
            )
        self.loader, self.steps = loader, len(loader)

    def __len__(self) -> int:
        return self.steps

    def to(self, device: torch.device) -> "LoaderSplit":
        """Itself: batches are moved one at a time."""
        return self

    def batches(self, plan: Plan) -> Iterator[Batch]:
        """One pass, or what is left of it from `plan.start`."""
        if plan.train:
            torch.manual_seed(derived_seed(plan.seed, plan.epoch, 4))
            sampler: Any = getattr(self.loader, "sampler", None)
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(plan.epoch)
        for item in islice(self.loader, plan.start, None):
            if not (isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[1], Tensor)):
                raise DataError(f"the loader gave {type(item).__name__}, not a pair (images, labels)")
            yield Batch(item[0], item[1])
