"""One line on the mismatch of a network in training: cosines by two estimators, and where no gradient passes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from binaryduo.graph.tracing import copied
from binaryduo.mismatch.directions import Losses, project
from binaryduo.mismatch.profiling import Loss, _coarse, _loss_and_slope, profile
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

    cosine/, cosine_low/ and cosine_high/ are `profile`'s; directions/ and its ends the second estimator's, and
    directions_variance/ its variance; outside/ the share of an activation's inputs where no gradient passes.
    """
    with torch.random.fork_rng(devices=[]):
        found = profile(
            model, loss_fn, inputs, targets, "auto", size.coordinates, seed, batch_size=len(inputs)
        )
        line = {}
        net = copied(model).eval()
        names = [layer.name for layer in found.layers]
        with torch.no_grad():
            outputs = net(inputs.clone())
        _, slope = _loss_and_slope(loss_fn, outputs, targets)
        coarse = _coarse(net, names, inputs, slope, len(inputs))
        losses = Losses(loss_fn, inputs, targets)
        for number, layer in enumerate(found.layers):
            second = project(net, layer.name, coarse[layer.name], losses, size.directions, seed + number)
            line[f"cosine/{layer.name}"] = layer.cosine
            line[f"cosine_low/{layer.name}"], line[f"cosine_high/{layer.name}"] = layer.interval
            line[f"directions/{layer.name}"] = second.cosine
            line[f"directions_variance/{layer.name}"] = second.variance
            low, high = second.interval
            line[f"directions_low/{layer.name}"], line[f"directions_high/{layer.name}"] = low, high
        line |= {f"outside/{name}": share for name, share in outside_support(net, inputs).items()}
    return line


def disagreements(line: dict[str, float]) -> list[str]:
    """The layers in which the intervals of the two estimators do not meet, by more than a curved loss explains.

    >>> ends = {"cosine_low/fc": 0.1, "cosine_high/fc": 0.2}
    >>> disagreements({"cosine/fc": 0.15, **ends, "directions_low/fc": 0.5, "directions_high/fc": 0.9})
    ['fc']
    """
    layers = [key.removeprefix("cosine/") for key in line if key.startswith("cosine/")]
    return [
        name
        for name in layers
        if line[f"cosine_low/{name}"] > line[f"directions_high/{name}"] + APART
        or line[f"cosine_high/{name}"] < line[f"directions_low/{name}"] - APART
    ]


APART = 0.05  # behind the last activation both are 1 up to the loss's curvature, with intervals of no width
SIZES: Sequence[Size] = (
    Size(8, 16, 6),
    Size(16, 32, 8),
    Size(32, 64, 10),
    Size(64, 128, 16),
    Size(128, 256, 24),
)
