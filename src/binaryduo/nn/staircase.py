"""The quantizing function: a staircase forward, an STE's derivative backward (Equation 1)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from binaryduo import ste as stes
from binaryduo.ste import STE


def staircase(x: Tensor, levels: int, at: "Sequence[float | Tensor] | None" = None) -> Tensor:
    """Values 0, 1/(L-1), …, 1: level i where x >= (i - 1/2)/(L - 1). A tie goes up, never to even.

    `at` are other thresholds, each a number or a tensor that broadcasts against x.

    >>> staircase(torch.tensor([0.2, 0.25, 0.7, 0.75]), levels=3).tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    first, *rest = stes.thresholds(levels) if at is None else at
    if torch.compiler.is_compiling():  # the compiler fuses the plain form
        out = (x >= first).to(x.dtype)
        for t in rest:
            out = out + (x >= t).to(x.dtype)
        return out / (levels - 1) if rest else out
    # Comparing straight into a float tensor is one pass over memory instead of two.
    out = torch.ge(x, first, out=torch.empty_like(x))
    if rest:
        step = torch.empty_like(x)
        for t in rest:
            out.add_(torch.ge(x, t, out=step))
        out.div_(levels - 1)
    return out


@lru_cache
def _open_interval(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """The open interval that holds the same numbers of that dtype as the closed one [low, high]."""
    ends = torch.tensor([low, high], dtype=dtype)
    outward = torch.tensor([-torch.inf, torch.inf], dtype=dtype)
    below, above = torch.nextafter(ends, outward).tolist()
    return below, above


def coarse_gradient(grad: Tensor, x: Tensor, levels: int, ste: STE, slope: float) -> Tensor:
    """The incoming gradient times the STE's derivative at x."""
    if ste.ramp and (levels == 2 or slope == 1) and not torch.compiler.is_compiling():
        # A ramp's derivative is an indicator: hardtanh's backward does it in one pass, but on the open
        # interval, so it is given the next number outward. ReLU1 is the same ramp for all levels.
        low, high = _open_interval(0.5 - 0.5 / slope, 0.5 + 0.5 / slope, x.dtype)
        out: Tensor = torch.ops.aten.hardtanh_backward(grad, x, low, high)
        return out if slope == 1 else out * slope
    return grad * stes.derivative(ste, x, levels, slope)


class _Quantize(torch.autograd.Function):
    """The staircase forward, the STE's derivative backward."""

    @staticmethod
    def forward(x: Tensor, levels: int, ste: STE, slope: float) -> Tensor:
        return staircase(x.detach(), levels)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, STE, float], output: Tensor) -> None:
        x, ctx.levels, ctx.ste, ctx.slope = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        return coarse_gradient(grad, x, ctx.levels, ctx.ste, ctx.slope), None, None, None


@torch.fx.wrap
def quantize(x: Tensor, levels: int, ste: "str | STE" = "relu1", slope: float | None = None) -> Tensor:
    """x quantized to evenly spaced levels in [0, 1]; its gradient is the STE's. Same shape, same dtype.

    >>> quantize(torch.tensor([0.4, 0.5]), levels=2).tolist()
    [0.0, 1.0]
    """
    entry = stes.get(ste)
    out: Tensor = _Quantize.apply(  # type: ignore[no-untyped-call]
        x, levels, entry, entry.slope if slope is None else slope
    )
    return out
