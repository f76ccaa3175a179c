"""The quantized activation: evenly spaced levels forward, an STE's derivative backward (Equation 1)."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo import ste as stes
from binaryduo.errors import ArgumentError
from binaryduo.ste import STE


def staircase(x: Tensor, levels: int) -> Tensor:
    """Values 0, 1/(L-1), …, 1: level i where x >= (i - 1/2)/(L - 1). A tie goes up, never to even.

    >>> staircase(torch.tensor([0.2, 0.25, 0.7, 0.75]), levels=3).tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    first, *rest = stes.thresholds(levels)
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
        ste, slope = ctx.ste, ctx.slope
        if ste.ramp and (ctx.levels == 2 or slope == 1) and not torch.compiler.is_compiling():
            # A ramp's derivative is an indicator: hardtanh's backward does it in one pass, but on the open
            # interval, so it is given the next number outward. ReLU1 is the same ramp for all levels.
            low, high = _open_interval(0.5 - 0.5 / slope, 0.5 + 0.5 / slope, x.dtype)
            out = torch.ops.aten.hardtanh_backward(grad, x, low, high)
            return (out if slope == 1 else out * slope), None, None, None
        return grad * stes.derivative(ste, x, ctx.levels, slope), None, None, None


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


class QuantAct(nn.Module):
    """An activation with evenly spaced levels in [0, 1]: 2 is binary, 3 ternary, None a plain ReLU.

    `slope` belongs to the STE (its own default where None) and may be raised while training. With
    `soft=True` the forward pass in training is the STE itself, as in continuous binarization, so that
    there is no gradient mismatch to begin with; in evaluation the staircase is always used.

    >>> act = QuantAct(levels=3)
    >>> act(torch.tensor([0.1, 0.5, 0.9])).tolist()
    [0.0, 0.5, 1.0]
    """

    def __init__(
        self,
        levels: int | None = 2,
        ste: "str | STE" = "relu1",
        slope: float | None = None,
        soft: bool = False,
    ) -> None:
        super().__init__()
        if levels is not None:
            stes.check_levels(levels)
        if slope is not None and not slope > 0:
            raise ArgumentError(f"slope must be positive, not {slope!r}")
        stes.get(ste)  # an unknown name is refused here, not in the first backward pass
        self.levels, self.ste, self.slope, self.soft = levels, ste, slope, soft

    def forward(self, x: Tensor) -> Tensor:
        if self.levels is None:
            return torch.relu(x)
        if self.soft and self.training:
            return stes.function(self.ste, x, self.levels, self.slope)
        return quantize(x, self.levels, self.ste, self.slope)

    def extra_repr(self) -> str:
        name = self.ste if isinstance(self.ste, str) else self.ste.name
        parts = [f"levels={self.levels}", f"ste={name!r}"]
        if self.slope is not None:
            parts.append(f"slope={self.slope}")
        if self.soft:
            parts.append("soft=True")
        return ", ".join(parts)
