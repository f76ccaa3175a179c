"""An activation of L levels as L − 1 bits, the planes: a thermometer code, whose mean is the activation.

Plane i is 1 where the value has reached threshold i, so all planes below it are 1 as well, and the greatest of some
values has as planes the OR of theirs. A decoupled network's copies are the same bits; there each copy has weights of
its own, here one set of weights serves all planes. Planes are blocked as copies are: all channels of plane 1, then
those of plane 2.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from binaryduo.nn import QuantAct
from binaryduo.ste import thresholds


def plane_thresholds(act: QuantAct) -> Tensor:
    """Where each plane of an activation begins, in float64: (L − 1, 1), or (L − 1, C) where channels have their own.

    Ascending, also where learned thresholds have crossed: the activation only counts how many are reached.

    >>> plane_thresholds(QuantAct(levels=3)).tolist()
    [[0.25], [0.75]]
    """
    rows = [torch.as_tensor(t, dtype=torch.float64).reshape(-1) for t in act.steps(dims=2)]
    return torch.stack(rows).sort(0).values


def to_planes(act: QuantAct, x: Tensor) -> Tensor:
    """What an activation makes of x (N, C), as planes of zeros and ones (N, (L − 1) · C).

    >>> to_planes(QuantAct(levels=3), torch.tensor([[0.3, 0.8]])).tolist()
    [[1.0, 1.0, 0.0, 1.0]]
    """
    return torch.cat([(x >= t).to(x.dtype) for t in plane_thresholds(act)], 1)


def planes_of_levels(values: NDArray[Any], planes: int) -> NDArray[np.bool_]:
    """The planes of values k/(L − 1) that an activation gave: (…, C) -> (…, (L − 1) · C).

    >>> planes_of_levels(np.array([0.5, 1.0]), 2).astype(int).tolist()
    [1, 1, 0, 1]
    """
    return np.concatenate([values >= t for t in thresholds(planes + 1)], axis=-1)
