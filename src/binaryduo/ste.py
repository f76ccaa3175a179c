"""The differentiable stand-ins (STEs) used in the backward pass of a quantized activation.

Every STE here approximates the binary activation f(x) = 1 if x >= 1/2 else 0, whose threshold is 1/2 and
whose values are 0 and 1. Those published for sign(x) are moved there by x -> 2x - 1 and y -> (y + 1)/2,
which leaves their slope as it is.

An activation with L levels has its thresholds at t_i = (i - 1/2)/(L - 1). Its STE is the binary one,
shrunk L - 1 times and repeated at each threshold:

    g_L(x)  = 1/(L - 1) * sum_i g((L - 1)(x - t_i) + 1/2)
    g_L'(x) =             sum_i g'((L - 1)(x - t_i) + 1/2)

so ReLU1 stays ReLU1 for any number of levels. To add an STE, write one `register(STE(...))` below.

Paper: Section 3.2, Figure 2, Equation 2.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from binaryduo.errors import ArgumentError, unknown_name

# (x, slope) -> tensor of x's shape
Shape = Callable[[Tensor, float], Tensor]

__all__ = [
    "STE",
    "cumulative_difference",
    "derivative",
    "function",
    "get",
    "names",
    "register",
    "thresholds",
]


@dataclass(frozen=True)
class STE:
    """One stand-in g for the binary activation: the function, its derivative and what is known of it.

    `ramp` marks an STE that is a straight line of height 1 around the threshold: its derivative is the
    constant slope on a closed interval of width 1/slope, and 0 outside, which has a faster backward pass.
    `bounded` says that g' vanishes outside [0, 1], so that repeated copies do not overlap.
    """

    name: str
    function: Shape
    derivative: Shape
    slope: float  # the default; a training schedule may raise it where `scheduled`
    area: Callable[[float], float] | None  # cumulative difference as a function of the slope
    source: str
    ramp: bool = False
    bounded: bool = True
    scheduled: bool = False


_STES: dict[str, STE] = {}


def register(ste: STE) -> STE:
    """Make an STE known by its name, for `QuantAct(ste=name)` and the command line.

    >>> def square(x, slope): return ((x - 0.5).abs() <= 0.5 / slope).to(x.dtype) * slope
    """
    if ste.name in _STES and _STES[ste.name] is not ste:
        raise ArgumentError(f"an STE called {ste.name!r} exists already: choose another name")
    _STES[ste.name] = ste
    return ste


def names() -> list[str]:
    """The names of all STEs, those of the paper's Figure 2 first.

    >>> names()[:5]
    ['relu1', 'steep2', 'steep4', 'polynomial', 'swishsign']
    """
    return list(_STES)


def get(ste: "str | STE") -> STE:
    """The STE of that name; an STE is returned as it is.

    >>> get("steep2").slope
    2.0
    """
    if isinstance(ste, STE):
        return ste
    if ste not in _STES:
        raise unknown_name("STE", ste, names())
    return _STES[ste]


def thresholds(levels: int) -> list[float]:
    """Where an activation with that many levels goes up: level i is reached at (i - 1/2)/(L - 1).

    >>> thresholds(2), thresholds(3)
    ([0.5], [0.25, 0.75])
    """
    check_levels(levels)
    return [(i - 0.5) / (levels - 1) for i in range(1, levels)]


def check_levels(levels: int) -> None:
    """Refuse a number of levels that is not a whole number from 2 to 256."""
    if not isinstance(levels, int) or isinstance(levels, bool) or not 2 <= levels <= 256:
        raise ArgumentError(f"levels must be a whole number from 2 to 256 (2 is binary), not {levels!r}")


def function(ste: "str | STE", x: Tensor, levels: int = 2, slope: float | None = None) -> Tensor:
    """g_L(x): the curve that the backward pass pretends the activation to be. Same shape as x.

    >>> function("relu1", torch.tensor([-1.0, 0.25, 2.0])).tolist()
    [0.0, 0.25, 1.0]
    """
    entry = get(ste)
    k = entry.slope if slope is None else slope
    parts = [entry.function((levels - 1) * (x - t) + 0.5, k) for t in thresholds(levels)]
    return torch.stack(parts).sum(0) / (levels - 1)


def derivative(ste: "str | STE", x: Tensor, levels: int = 2, slope: float | None = None) -> Tensor:
    """g_L'(x): what the incoming gradient is multiplied by. Same shape as x.

    >>> derivative("relu1", torch.tensor([-0.1, 0.0, 1.0, 1.1]), levels=3).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    check_levels(levels)
    entry = get(ste)
    k = entry.slope if slope is None else slope
    if levels == 2:
        return entry.derivative(x, k)
    if entry.bounded:
        # Only the nearest copy counts. Choosing it by cell, not by summing all copies, keeps the value at
        # a border between two cells single: ReLU1's derivative is 1 there, not 2.
        u = x * (levels - 1)
        cell = u.floor().clamp_(0, levels - 2)
        return entry.derivative(u - cell, k)
    parts = [entry.derivative((levels - 1) * (x - t) + 0.5, k) for t in thresholds(levels)]
    return torch.stack(parts).sum(0)


def cumulative_difference(ste: "str | STE", levels: int = 2, slope: float | None = None) -> float:
    """The area between the activation and its STE: the criterion that the paper finds misleading (Eq. 2).

    >>> [cumulative_difference(n) for n in ("relu1", "steep2", "steep4")]
    [0.25, 0.125, 0.0625]
    """
    check_levels(levels)
    entry = get(ste)
    k = entry.slope if slope is None else slope
    if entry.area is not None and (levels == 2 or entry.bounded):
        return entry.area(k) / (levels - 1)
    return _integrate(entry, levels, k)


def _integrate(entry: STE, levels: int, slope: float) -> float:
    """∫ |f - g_L| by the midpoint rule, whose cells have the jumps of f on their borders.

    The tails are followed for 40/slope to both sides: beyond that every exponential tail is below 1e-15.
    """
    reach, cells = max(1.0, 40.0 / slope), 200_000
    edges = [-reach, *thresholds(levels), 1 + reach]
    total = 0.0
    for low, high in itertools.pairwise(edges):
        width = (high - low) / cells
        x = low + width * (torch.arange(cells, dtype=torch.float64) + 0.5)
        step = sum((x >= t).double() for t in thresholds(levels)) / (levels - 1)
        total += float((step - function(entry, x, levels, slope)).abs().sum()) * width
    return total


# --- Figure 2 -----------------------------------------------------------------------------------------


def _ramp(x: Tensor, slope: float) -> Tensor:
    return ((x - 0.5) * slope + 0.5).clamp(0, 1)


def _ramp_derivative(x: Tensor, slope: float) -> Tensor:
    # Written as bounds on x, not on (x - 1/2): with slope 1, 2, 4 they are exact in floating point.
    return ((x >= 0.5 - 0.5 / slope) & (x <= 0.5 + 0.5 / slope)).to(x.dtype) * slope


def _register_ramp(name: str, slope: float, source: str, scheduled: bool = False) -> None:
    register(
        STE(
            name,
            _ramp,
            _ramp_derivative,
            slope,
            lambda k: 0.25 / k,
            source,
            ramp=True,
            scheduled=scheduled,
        )
    )


_register_ramp("relu1", 1.0, "clip(x, 0, 1), the conventional choice; hard tanh moved to [0, 1]")
_register_ramp("steep2", 2.0, "a ramp of slope 2 (Figure 2)")
_register_ramp("steep4", 4.0, "a ramp of slope 4 (Figure 2)")


def _polynomial(x: Tensor, slope: float) -> Tensor:
    a = x.clamp(0, 1)
    return torch.where(a < 0.5, 2 * a * a, 1 - 2 * (1 - a) * (1 - a))


def _polynomial_derivative(x: Tensor, slope: float) -> Tensor:
    return (2 - 4 * (x - 0.5).abs()).clamp_min(0)


register(
    STE(
        "polynomial",
        _polynomial,
        _polynomial_derivative,
        1.0,
        lambda k: 1 / 6,
        "ApproxSign of Bi-Real-Net: two parabolas, a triangular derivative",
    )
)


def _swishsign(x: Tensor, slope: float) -> Tensor:
    z = slope * (2 * x - 1)
    s = z.sigmoid()
    return s * (1 + z * (1 - s))


def _swishsign_derivative(x: Tensor, slope: float) -> Tensor:
    # d/dx s(1 + z(1 - s)) with z = slope(2x - 1), s' = s(1 - s): 2 slope s(1 - s)(2 + z(1 - 2s))
    z = slope * (2 * x - 1)
    s = z.sigmoid()
    return 2 * slope * s * (1 - s) * (2 + z * (1 - 2 * s))


def _swishsign_area(slope: float) -> float:
    # g crosses 1 where z s(z) = 1, at z0 = 1.27846...; ∫ g has the closed form (x - 1/2) s(z) + const,
    # which makes the area 2 (z0 - 1)/slope.
    z = 1.2784645427610738
    return 2 * (z - 1) / slope


register(
    STE(
        "swishsign",
        _swishsign,
        _swishsign_derivative,
        5.0,
        _swishsign_area,
        "SwishSign of BNN+, beta = 5 on the scale of sign(x); overshoots 1 on the right and 0 on the left",
        bounded=False,
    )
)

# --- continuous binarizations: a slope that grows during training (Section 2) ---------------------------

_register_ramp("piecewise-linear", 1.0, "a ramp whose slope grows during training", scheduled=True)


def _sigmoid(x: Tensor, slope: float) -> Tensor:
    return torch.sigmoid(4 * slope * (x - 0.5))


def _sigmoid_derivative(x: Tensor, slope: float) -> Tensor:
    s = _sigmoid(x, slope)
    return 4 * slope * s * (1 - s)


register(
    STE(
        "sigmoid",
        _sigmoid,
        _sigmoid_derivative,
        1.0,
        lambda k: 2 * math.log(2) / (4 * k),
        "a sigmoid whose slope at the threshold is `slope` (quantization networks)",
        bounded=False,
        scheduled=True,
    )
)


def _tanh(x: Tensor, slope: float) -> Tensor:
    # On [0, 1] the tanh is scaled to pass through (0, 0) and (1, 1), as differentiable soft quantization
    # does in each of its intervals; outside it is constant.
    reach = math.tanh(slope)
    return (torch.tanh(slope * (2 * x.clamp(0, 1) - 1)) / reach + 1) / 2


def _tanh_derivative(x: Tensor, slope: float) -> Tensor:
    t = torch.tanh(slope * (2 * x - 1))
    inside = ((x >= 0) & (x <= 1)).to(x.dtype)
    return inside * (slope / math.tanh(slope)) * (1 - t * t)


def _tanh_area(slope: float) -> float:
    # 2 ∫_{1/2}^{1} (1 - g) dx = 1/2 - log(cosh(slope))/(2 slope tanh(slope))
    log_cosh = slope + math.log1p(math.exp(-2 * slope)) - math.log(2)
    return 0.5 - log_cosh / (2 * slope * math.tanh(slope))


register(
    STE(
        "tanh",
        _tanh,
        _tanh_derivative,
        1.0,
        _tanh_area,
        "a tanh scaled to reach 0 and 1 at the ends of its interval (differentiable soft quantization)",
        scheduled=True,
    )
)
