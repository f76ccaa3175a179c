"""Learned thresholds: where an activation goes up, while its levels stay evenly spaced in [0, 1].

An activation with L levels has the thresholds t_i = τ_i + δ_i: τ_i = (i - 1/2)/(L - 1) is where they are without
learning, and the offsets δ_i are learned, one for each layer or each channel. They start at 0.

Backward, x is first brought to the scale that the STE is made for, by the line through the two thresholds that x lies
between (or nearest to): u(t_i) = τ_i. For three levels that is one line, and u is the transformer of QIL, which maps
the learned interval to [0, 1]; for two levels it is u = x - δ, since a single threshold has no width. With
a = du/dx and h = (x - t_i)/(t_{i+1} - t_i), the share of the way to the upper threshold,

    dy/dx = a g'(u)        dy/dt_i = -(1 - h) a g'(u)        dy/dt_{i+1} = -h a g'(u)

The gradients of the thresholds are scaled by 1/√(N (L - 1)), as LSQ has it, with N the values of one image that share
the threshold: a sum of N terms would move it far too quickly. (Adam does not notice such a factor, SGD does.)

At δ = 0 everything is bit for bit what it is without learning: a = 1 and u = x exactly.

Paper: Appendix G. LSQ: Esser et al., ICLR 2020. QIL: Jung et al., CVPR 2019.
"""

import math
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor

from binaryduo import ste as stes
from binaryduo.errors import ArgumentError
from binaryduo.nn.staircase import coarse_gradient, staircase
from binaryduo.ste import STE

Interval = Literal["layer", "channel"]
INTERVALS: tuple[Interval, ...] = ("layer", "channel")
LEAST_GAP = (
    1 / 8
)  # of the distance that two thresholds start with: below it, gradients would grow without bound


def rows(offsets: Tensor, levels: int, dims: int) -> list[Tensor]:
    """The offsets of each threshold, shaped so that they broadcast against a tensor with channels in dimension 1.

    >>> [row.shape for row in rows(torch.zeros(2 * 5), levels=3, dims=4)]
    [torch.Size([1, 5, 1, 1]), torch.Size([1, 5, 1, 1])]
    """
    shape = (1,) if offsets.numel() == levels - 1 else (1, -1) + (1,) * (dims - 2)
    return [row.view(shape) for row in offsets.view(levels - 1, -1)]


def thresholds_of(offsets: Tensor, levels: int, dims: int) -> list[Tensor]:
    """Each threshold t_i = τ_i + δ_i, shaped as `rows` has it."""
    starts = stes.thresholds(levels)
    return [start + row for start, row in zip(starts, rows(offsets, levels, dims), strict=True)]


def kept_apart(offsets: Tensor, levels: int) -> Tensor:
    """The offsets with thresholds that came too close, or crossed, pushed up again; all others as they were.

    >>> kept_apart(torch.tensor([0.5, 0.0]), levels=3).tolist()  # thresholds 0.75, 0.75 become 0.75, 0.8125
    [0.5, 0.0625]
    """
    steps = torch.arange(levels - 1, dtype=offsets.dtype, device=offsets.device).unsqueeze(1)
    room = steps * ((1 - LEAST_GAP) / (levels - 1))
    given = offsets.view(levels - 1, -1)
    at = given + room
    highest = at.cummax(0).values
    return torch.where(at < highest, highest - room, given).view(-1)


def to_unit(x: Tensor, offsets: Tensor, levels: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """(u, a, h, segment): x on the STE's scale, du/dx, the share of the way from one threshold to the next, and which
    two they are; the last two are None for two levels, which have one threshold."""
    deltas, starts = rows(offsets, levels, x.dim()), stes.thresholds(levels)
    if levels == 2:
        return x - deltas[0], torch.ones((), dtype=x.dtype, device=x.device), None, None
    slopes = [1 / (1 + (levels - 1) * (high - low)) for low, high in pairwise(deltas)]
    bases = [start * (1 - a) - a * low for start, a, low in zip(starts, slopes, deltas, strict=False)]
    ends = [start + row for start, row in zip(starts, deltas, strict=True)][1:-1]
    segment = torch.zeros_like(x, dtype=torch.long)
    for end in ends:
        segment += x >= end
    a, base = (_pick(values, segment) for values in (slopes, bases))
    start = torch.tensor(starts, dtype=x.dtype, device=x.device)[segment] if ends else starts[0]
    u = a * x + base
    return u, a, (u - start) * (levels - 1), segment


def _pick(values: list[Tensor], segment: Tensor) -> Tensor:
    """values[segment], for each element."""
    if len(values) == 1:
        return values[0]
    return torch.stack([value.expand_as(segment) for value in values]).gather(0, segment.unsqueeze(0))[0]


class _QuantizeLearned(torch.autograd.Function):
    """The staircase with learned thresholds forward; the STE on the scale of the interval backward."""

    @staticmethod
    def forward(x: Tensor, offsets: Tensor, levels: int, ste: STE, slope: float) -> Tensor:
        return staircase(x.detach(), levels, thresholds_of(offsets.detach(), levels, x.dim()))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int, STE, float], output: Tensor) -> None:
        x, offsets, ctx.levels, ctx.ste, ctx.slope = inputs
        ctx.save_for_backward(x, offsets)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        x, offsets = ctx.saved_tensors
        levels: int = ctx.levels
        u, a, share, segment = to_unit(x, offsets.to(x.dtype), levels)
        inner = coarse_gradient(grad, u, levels, ctx.ste, ctx.slope) * a
        if share is None or segment is None:
            parts = [inner]
        else:
            low, high = inner - inner * share, inner * share
            parts = [
                torch.where(segment == i, low, 0) + torch.where(segment == i - 1, high, 0)
                for i in range(levels - 1)
            ]
        channels = offsets.numel() // (levels - 1)
        dims = [d for d in range(x.dim()) if d != 1 or channels == 1]
        scale = 1 / math.sqrt(max(1, x[0].numel() // channels) * (levels - 1)) if len(x) else 0.0
        sums = [-scale * part.sum(dims, dtype=offsets.dtype).view(-1) for part in parts]
        return inner, torch.cat(sums), None, None, None


def quantize_learned(
    x: Tensor,
    offsets: Tensor,
    levels: int,
    ste: "str | STE" = "relu1",
    slope: float | None = None,
    each_channel: bool = False,
    training: bool = False,
    soft: bool = False,
) -> Tensor:
    """x quantized with the thresholds τ_i + δ_i; offsets ((L - 1) · C,) are blocked: all channels of δ_1, then of δ_2.

    With `each_channel`, offsets (L - 1,) are first given to each channel of x, in place. In `training` thresholds are
    kept apart, in place. `soft` is the STE itself, on the scale of the interval.

    >>> x = torch.tensor([[0.2, 0.3, 0.8]])
    >>> quantize_learned(x, torch.tensor([0.0, 0.1]), levels=3).tolist()
    [[0.0, 0.5, 0.5]]
    """
    if each_channel:
        _fit(offsets, x, levels)
    if training and levels > 2:
        # Past autograd, which would take it for a change of what an earlier use of the same activation has saved.
        offsets.data.copy_(kept_apart(offsets.detach(), levels))
    if soft:
        return stes.function(ste, to_unit(x, offsets, levels)[0], levels, slope)
    entry = stes.get(ste)
    out: Tensor = _QuantizeLearned.apply(  # type: ignore[no-untyped-call]
        x, offsets, levels, entry, entry.slope if slope is None else slope
    )
    return out


def _fit(offsets: Tensor, x: Tensor, levels: int) -> None:
    """Give offsets that are of no channel yet to each channel of x."""
    if x.dim() < 2:
        raise ArgumentError(f"thresholds for each channel need an input (N, C, …), not {tuple(x.shape)}")
    known, found = offsets.numel() // (levels - 1), x.shape[1]
    if known == 1 and found != 1:
        # The same parameter, so that an optimizer that has it already keeps it.
        offsets.data = offsets.data.repeat_interleave(found)
    elif known != found:
        raise ArgumentError(
            f"this QuantAct has learned thresholds for {known} channels, and its input has {found}"
        )
