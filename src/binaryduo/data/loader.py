"""A user's own DataLoader as a split, so that the same loop trains on anything."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import default_convert

from binaryduo.data.in_memory import Batch
from binaryduo.data.order import Plan, seed_all
from binaryduo.errors import ArgumentError, DataError


class LoaderSplit:
    """Any iterable of batches (inputs, targets), such as a DataLoader; either may be a tuple or a dictionary.

    A schedule needs to know how many batches an epoch has. A loader without a length, such as one of an
    IterableDataset, is given it as `steps`: each epoch begins the loader anew and takes that many. To test, such a
    loader is taken to its end.

    Before each batch the random states are set from the seed, the epoch and the batch's number, so that a
    shuffling, augmenting DataLoader gives the same batches again when a run resumes; those already taken
    are skipped. The loader makes its own batches: the recipe's batch size is not used, and with several
    processes it has to give each its share (a DistributedSampler does).

    >>> stream = LoaderSplit(((torch.ones(2, 3), torch.ones(2)) for _ in range(9)), steps=4)
    >>> len(list(stream.batches(Plan(1, train=True))))
    4
    """

    def __init__(self, loader: Iterable[Any], steps: int | None = None) -> None:
        if not hasattr(loader, "__iter__"):
            raise DataError(
                f"an object of type {type(loader).__name__} is no loader: give an iterable of (inputs, targets), as "
                "DataLoader(dataset, batch_size=…) is"
            )
        if steps is not None and steps < 1:
            raise ArgumentError(f"steps must be at least 1, not {steps}")
        self.loader = loader
        self._steps = _length(loader) if steps is None else steps

    def __len__(self) -> int:
        if self._steps is None:
            raise DataError(
                "the loader has no length, and a schedule needs to know how many batches an epoch has: give "
                "bd.data.LoaderSplit(loader, steps=…)"
            )
        return self._steps

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
        wanted = len(self) if plan.train else self._steps
        step = 0
        while wanted is None or step < wanted:
            seed_all(plan.seed, plan.epoch, 4, step)
            try:
                item = next(items)
            except StopIteration:
                if wanted is None:
                    return
                raise DataError(f"the loader ended after {step} of {wanted} batches") from None
            if not (isinstance(item, tuple | list) and len(item) == 2):
                parts = f" of {len(item)} parts" if isinstance(item, tuple | list) else ""
                raise DataError(
                    f"batch {step} of the loader is a {type(item).__name__}{parts}, not (inputs, targets), where "
                    "either may be a tuple or a dictionary"
                )
            if step >= plan.start:
                inputs, targets = default_convert(tuple(item))  # type: ignore[no-untyped-call] # of NumPy arrays
                yield Batch(inputs, targets)
            step += 1


def _length(loader: Any) -> int | None:
    """How many batches it has; None where it does not know (a DataLoader of an IterableDataset says so by an error)."""
    try:
        return len(loader)
    except TypeError:
        return None
