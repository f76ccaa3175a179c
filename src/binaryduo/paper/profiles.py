"""The gradient mismatch of networks that an experiment has trained, layer by layer."""

import math

import torch
from torch import Tensor, nn

from binaryduo import mismatch
from binaryduo.data import Plan, Split
from binaryduo.mismatch.perturbation import is_weighted

Cosines = dict[str, list[float | None]]  # of each layer: the cosine and both ends of its 95 % interval


def first_images(split: Split, count: int) -> tuple[Tensor, Tensor]:
    """The first images of a split as they are, without augmentation, and their labels."""
    images, labels, _ = next(iter(split.batches(Plan(count, False))))
    return images, labels


def cosines(
    model: nn.Module, images: Tensor, labels: Tensor, coordinates: int, first: int | None = None
) -> Cosines:
    """Of each layer the cosine of coarse gradient and CDG; None where no weight that was drawn has a gradient.

    `coordinates` weights are drawn in each layer, `first` in the first one if it is given: there a weight costs most.
    """
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = images.contiguous(memory_format=torch.channels_last)
    loss = nn.functional.cross_entropy
    names = [name for name, module in model.named_modules() if is_weighted(module)]
    counts: list[tuple[list[str] | None, int]] = [(None, coordinates)]
    if first is not None and len(names) > 1:
        counts = [(names[:1], first), (names[1:], coordinates)]
    found = [
        layer
        for some, count in counts
        for layer in mismatch.profile(
            model, loss, images, labels, "auto", count, layers=some, batch_size=256
        ).layers
    ]
    return {
        layer.name: [round(v, 4) if math.isfinite(v) else None for v in (layer.cosine, *layer.interval)]
        for layer in found
    }
