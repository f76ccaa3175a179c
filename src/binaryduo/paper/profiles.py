"""The gradient mismatch of networks that an experiment has trained, layer by layer."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from binaryduo import mismatch
from binaryduo.data import Plan, Split

Cosines = dict[str, list[float | None]]  # of each layer: the cosine and both ends of its 95 % interval


def first_images(split: Split, count: int) -> tuple[Tensor, Tensor]:
    """The first images of a split as they are, without augmentation, and their labels."""
    images, labels, _ = next(iter(split.batches(Plan(count, False))))
    return images, labels


def cosines(model: nn.Module, images: Tensor, labels: Tensor, coordinates: int) -> Cosines:
    """Of each layer the cosine of coarse gradient and CDG; None where no weight that was drawn has a gradient."""
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = images.contiguous(memory_format=torch.channels_last)
    loss = nn.functional.cross_entropy
    return numbers_of(
        mismatch.profile(model, loss, images, labels, "auto", coordinates, batch_size=256).layers
    )


def numbers_of(layers: "Sequence[mismatch.LayerProfile | mismatch.LayerSlopes]") -> Cosines:
    """The cosine of each layer and both ends of its interval, as they are kept."""
    return {
        layer.name: [round(v, 4) if math.isfinite(v) else None for v in (layer.cosine, *layer.interval)]
        for layer in layers
    }
