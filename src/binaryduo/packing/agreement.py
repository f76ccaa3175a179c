"""How often a packed model and its PyTorch original disagree on real images, and why.

Both compute in float32 but add in different orders, so a value that lies within rounding of its threshold may
fall on its other side, and what is behind it follows. For every image whose prediction differs, the first
activation with a differing bit is found: all bits before it are equal, so its value must be that close.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from binaryduo.engine.program import Storage
from binaryduo.engine.runtime import PackedModel
from binaryduo.graph.tracing import copied, tensors_in, trace
from binaryduo.packing.learned_thresholds import fix_thresholds
from binaryduo.packing.verify import FLOAT32_ROUNDING, Recorder


@dataclass
class Cause:
    """Why one image's prediction differs: the activation, how far its value is from its threshold, and the bound."""

    image: int
    activation: str
    distance: float
    bound: float

    @property
    def rounding(self) -> bool:
        return self.distance <= self.bound


@dataclass
class Agreement:
    """What a comparison on images found; `causes` has one entry for each changed prediction."""

    images: int = 0
    changed: int = 0
    flipped: int = 0  # images with at least one differing bit, among those looked into
    causes: list[Cause] = field(default_factory=list)

    def __str__(self) -> str:
        explained = sum(cause.rounding for cause in self.causes)
        return (
            f"{self.changed} of {self.images} predictions differ from PyTorch's; "
            f"{explained} of them start at a value within rounding of its threshold"
        )


@torch.no_grad()
def agreement(model: nn.Module, packed: PackedModel, images: Tensor, batch: int = 64) -> Agreement:
    """Compare predictions on images (N, …), by the first output, and trace every difference to its cause.

    Images that are predicted alike are not looked into. Needs the model that was packed.
    """
    work = copied(model).cpu().float().eval()
    fix_thresholds(work)
    graph = trace(work, (images[:1].float(),))
    result = Agreement(images=len(images))
    for first in range(0, len(images), batch):
        part = images[first : first + batch].float()
        wanted = next(tensors_in(work(part))).argmax(1).numpy()
        found = packed.predict(part.numpy())
        for i in np.flatnonzero(wanted != found):
            result.changed += 1
            recorder = Recorder(work, graph)
            recorder.run(part[i : i + 1])
            cause = _first_flip(first + int(i), packed, recorder, packed.trace(part[i : i + 1].numpy()))
            if cause is not None:
                result.flipped += 1
                result.causes.append(cause)
    return result


def _first_flip(
    image: int, packed: PackedModel, recorder: Recorder, traced: list[NDArray[Any]]
) -> Cause | None:
    for number in _written(packed):
        tensor = packed.program.tensors[number]
        if tensor.kind != Storage.BITS or tensor.name not in recorder.kept:
            continue
        wrong = recorder.bits(tensor) != (traced[number] > 0)
        if not wrong.any():
            continue
        distances, largest = recorder.distances(tensor)
        bound = FLOAT32_ROUNDING * max(1.0, largest)
        return Cause(image, tensor.name, float(distances[wrong].max()), bound)
    return None


def _written(packed: PackedModel) -> Iterator[int]:
    """The tensors in the order in which they are written."""
    for op in packed.program.ops:
        yield from (number for number in (op.out_bits, op.out_float) if number >= 0)
