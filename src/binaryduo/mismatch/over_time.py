"""One line on the mismatch of a network in training: cosines by two estimators, and where no gradient passes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from binaryduo.mismatch.prepared import Loss, prepare
from binaryduo.mismatch.profiling import profiles_of
from binaryduo.mismatch.slopes import STEP, slopes_of
from binaryduo.mismatch.support import outside_support


@dataclass(frozen=True)
class Size:
    """How much is measured: weights drawn from each layer, images, random directions."""

    coordinates: int
    images: int
    directions: int


def snapshot(
    model: nn.Module, loss_fn: Loss, inputs: Tensor, targets: Tensor, size: Size, seed: int = 0
) -> dict[str, float]:
    """Flat numbers by name, a slash before the layer or activation; the model is left as it was.

    cosine/, cosine_low/ and cosine_high/ are `profile`'s; slopes/ and its ends those of `slopes`, and kept/ what is
    kept of the slope that back-propagation promises; outside/ the share of an activation's inputs where no gradient
    passes.
    """
    with torch.random.fork_rng(devices=[]):
        given = prepare(model, loss_fn, inputs, targets, None, len(inputs))
        (found,) = profiles_of(given, [None], "auto", size.coordinates, seed)
        (second,) = slopes_of(given, [None], STEP, size.directions, seed)
        line = {}
        for one, other in zip(found.layers, second.layers, strict=True):
            for what, layer in (("cosine", one), ("slopes", other)):
                line[f"{what}/{layer.name}"] = layer.cosine
                line[f"{what}_low/{layer.name}"], line[f"{what}_high/{layer.name}"] = layer.interval
            line[f"kept/{other.name}"] = other.kept
        line |= {f"outside/{name}": share for name, share in outside_support(given.net, inputs).items()}
    return line


def disagreements(line: dict[str, float]) -> list[str]:
    """The layers in which the intervals of the two estimators do not meet, by more than a curved loss explains.

    >>> ends = {"cosine_low/fc": 0.1, "cosine_high/fc": 0.2}
    >>> disagreements({"cosine/fc": 0.15, **ends, "slopes_low/fc": 0.5, "slopes_high/fc": 0.9})
    ['fc']
    """
    layers = [key.removeprefix("cosine/") for key in line if key.startswith("cosine/")]
    return [
        name
        for name in layers
        if line[f"cosine_low/{name}"] > line[f"slopes_high/{name}"] + APART
        or line[f"cosine_high/{name}"] < line[f"slopes_low/{name}"] - APART
    ]


APART = 0.05  # after the last activation both are 1 up to the loss's curvature
SIZES: Sequence[Size] = (
    Size(8, 16, 6),
    Size(16, 32, 8),
    Size(32, 64, 10),
    Size(64, 128, 16),
    Size(128, 256, 24),
)
