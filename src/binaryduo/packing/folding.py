"""Batch normalisation and activation become one threshold a channel, exactly.

What stands between a layer's sums and its activation is a list of steps, each the float64 copy of a module
that maps every channel monotonically (BN, a bias, ReLU). Their composition with the activation is a step
function of each channel's sum, so its one jump is found by bisection over all values that the sum can take:
the integers -K … K of a one-bit layer, or all float32 numbers. The modules themselves decide, so nothing is
lost to algebra: ties, a negative γ (the comparison turns round) and γ = 0 (a constant) need no special case.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Step = Callable[[Tensor], Tensor]  # (B, C) -> (B, C') in float64, channel by channel, monotone

# Thresholds that are always, or never, reached.
ALWAYS, NEVER = np.iinfo(np.int32).min, np.iinfo(np.int32).max


@dataclass
class Folded:
    """bits = (x >= threshold) xor flip, channel by channel."""

    threshold: NDArray[Any]  # int32 or float32
    flip: NDArray[np.bool_]


def compose(steps: list[Step]) -> Step:
    """All steps one after the other.

    >>> compose([lambda x: x + 1, lambda x: x * 2])(torch.tensor([[1.0]])).tolist()
    [[4.0]]
    """

    def run(x: Tensor) -> Tensor:
        for step in steps:
            x = step(x)
        return x

    return run


def fold_integers(steps: list[Step], limit: int, channels: int, copies: int, scale: Tensor) -> Folded:
    """The thresholds of a one-bit layer with sums in [-limit, limit]; its value is scale · sum.

    `steps` end in the activation and turn C channels into copies × C, blocked; `channels` is C.

    >>> act = [lambda x: (x >= 0.5).double()]
    >>> fold_integers(act, 9, 1, 1, torch.tensor(0.25, dtype=torch.float64)).threshold.tolist()
    [2]
    >>> turned = [lambda x: (-x >= 0.5).double()]  # -x/4 >= 1/2 where not x >= -1
    >>> folded = fold_integers(turned, 9, 1, 1, torch.tensor(0.25, dtype=torch.float64))
    >>> folded.threshold.tolist(), folded.flip.tolist()
    ([-1], [True])
    """
    run = compose(steps)

    def decide(x: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _decide(run, torch.from_numpy(x.astype(np.float64)) * scale, channels, copies)

    threshold, flip, constant = _bisect(decide, -limit, limit, channels * copies)
    threshold = np.where(constant == 1, ALWAYS, np.where(constant == 0, NEVER, threshold))
    return Folded(threshold.astype(np.int32), flip)


def fold_floats(steps: list[Step], channels: int, copies: int) -> Folded:
    """The thresholds of a channel that may take any float32 value.

    >>> fold_floats([lambda x: (2 * x >= 0.5).double()], 1, 1).threshold.tolist()
    [0.25]
    """
    run = compose(steps)

    def decide(x: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _decide(run, torch.from_numpy(_ordered_float(x).astype(np.float64)), channels, copies)

    top = int(np.float32(np.finfo(np.float32).max).view(np.int32))
    order, flip, constant = _bisect(decide, -top, top, channels * copies)
    threshold = _ordered_float(order)
    threshold = np.where(constant == 1, -np.inf, np.where(constant == 0, np.inf, threshold))
    return Folded(threshold.astype(np.float32), flip)


def _ordered_float(order: NDArray[np.int64]) -> NDArray[np.float32]:
    """Whole numbers to float32 so that the order is kept and every float is met: -n is the float -(n-th)."""
    magnitude = np.abs(order).astype(np.int32).view(np.float32)
    return np.where(order < 0, -magnitude, magnitude).astype(np.float32)


def _decide(run: Step, x: Tensor, channels: int, copies: int) -> NDArray[np.bool_]:
    """x (copies · C): a value for the sum of each output channel. Returns the bit of each."""
    with torch.no_grad():
        out = run(x.view(copies, channels))  # row i: all copies, from the values meant for copy i
    parts = out.view(copies, copies, channels)
    own = torch.stack([parts[i, i] for i in range(copies)])
    bits: NDArray[np.bool_] = (own.reshape(-1) > 0.5).numpy()
    return bits


def _bisect(
    decide: Callable[[NDArray[np.int64]], NDArray[np.bool_]], low: int, high: int, outputs: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """For each output: the least value whose bit differs from that of `low`, whether the bit falls there,
    and the bit where it is constant (else -1)."""
    below, above = np.full(outputs, low, np.int64), np.full(outputs, high, np.int64)
    at_low, at_high = decide(below), decide(above)
    while np.any(above - below > 1):
        middle = (below + above) // 2
        same = decide(middle) == at_low
        below, above = np.where(same, middle, below), np.where(same, above, middle)
    constant = np.where(at_low == at_high, at_low.astype(np.int64), -1)
    return above, at_low & ~at_high, constant
