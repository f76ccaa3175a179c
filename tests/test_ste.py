"""STEs: values and derivatives against an independent computation in NumPy, areas against integration."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import binaryduo as bd
from binaryduo import ste

Curve = Callable[[np.ndarray, float], np.ndarray]


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(z / 2))


# The binary curves, written from the papers on the scale of sign(x), x in [-1, 1], then moved to [0, 1]:
# g(x) = (G(2x - 1) + 1)/2. The derivatives are taken by hand.
def ramp(x: np.ndarray, k: float) -> np.ndarray:
    return (np.clip(k * (2 * x - 1), -1, 1) + 1) / 2


def ramp_slope(x: np.ndarray, k: float) -> np.ndarray:
    return np.where(np.abs(2 * x - 1) * k <= 1, k, 0.0)


def bireal(x: np.ndarray, k: float) -> np.ndarray:
    z = 2 * x - 1
    inside = np.where(z < 0, 2 * z + z**2, 2 * z - z**2)
    return (np.where(z < -1, -1, np.where(z > 1, 1, inside)) + 1) / 2


def bireal_slope(x: np.ndarray, k: float) -> np.ndarray:
    z = 2 * x - 1
    return np.where(np.abs(z) <= 1, 2 - 2 * np.abs(z), 0.0)


def swish(x: np.ndarray, k: float) -> np.ndarray:
    z = 2 * x - 1
    return (2 * sigmoid(k * z) * (1 + k * z * (1 - sigmoid(k * z))) - 1 + 1) / 2


def swish_slope(x: np.ndarray, k: float) -> np.ndarray:
    z = 2 * x - 1
    return k * (2 - k * z * np.tanh(k * z / 2)) / (1 + np.cosh(k * z))  # BNN+, for the slope dg/dx = dG/dz


def logistic(x: np.ndarray, k: float) -> np.ndarray:
    return sigmoid(4 * k * (x - 0.5))


def logistic_slope(x: np.ndarray, k: float) -> np.ndarray:
    return k / np.cosh(2 * k * (x - 0.5)) ** 2


def soft(x: np.ndarray, k: float) -> np.ndarray:
    return (np.clip(np.tanh(k * (2 * x - 1)) / np.tanh(k), -1, 1) + 1) / 2


def soft_slope(x: np.ndarray, k: float) -> np.ndarray:
    return np.where((x >= 0) & (x <= 1), k / np.tanh(k) / np.cosh(k * (2 * x - 1)) ** 2, 0.0)


ORACLE: dict[str, tuple[Curve, Curve, float]] = {
    "relu1": (ramp, ramp_slope, 1.0),
    "steep2": (ramp, ramp_slope, 2.0),
    "steep4": (ramp, ramp_slope, 4.0),
    "polynomial": (bireal, bireal_slope, 1.0),
    "swishsign": (swish, swish_slope, 5.0),
    "piecewise-linear": (ramp, ramp_slope, 1.0),
    "sigmoid": (logistic, logistic_slope, 1.0),
    "tanh": (soft, soft_slope, 1.0),
}
LEVELS = [2, 3, 4, 5]


def thresholds(levels: int) -> np.ndarray:
    return (np.arange(1, levels) - 0.5) / (levels - 1)


def repeated(curve: Curve, x: np.ndarray, levels: int, slope: float, scale: float) -> np.ndarray:
    """The binary curve shrunk and put at each threshold, added up."""
    return scale * sum(curve((levels - 1) * (x - t) + 0.5, slope) for t in thresholds(levels))


def points(levels: int) -> np.ndarray:
    """At and around every threshold and every corner; a corner itself only where all copies agree on it."""
    corners = [c for t in thresholds(levels) for c in (t, t - 0.25 / (levels - 1), t + 0.25 / (levels - 1))]
    offsets = [-1e-3, -1e-7, 1e-7, 1e-3]
    near = [c + d for c in (*corners, 0.0, 1.0, 0.5) for d in offsets]
    return np.array(sorted({*near, *thresholds(levels), -3.0, -0.6, 0.123, 0.777, 1.6, 4.0}))


def staircase(x: np.ndarray, levels: int) -> np.ndarray:
    return np.searchsorted(thresholds(levels), x, side="right") / (levels - 1)


def test_every_ste_has_an_independent_curve() -> None:
    assert set(ORACLE) == set(bd.ste.names())


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("name", ORACLE)
def test_input_output_gradient(name: str, levels: int) -> None:
    curve, slope_of, slope = ORACLE[name]
    x = points(levels)
    t = torch.tensor(x, requires_grad=True)
    out = bd.nn.quantize(t, levels, name)
    assert np.array_equal(out.detach().numpy(), staircase(x, levels))
    incoming = torch.linspace(-2, 3, len(x), dtype=torch.float64)
    out.backward(incoming)
    expected = repeated(slope_of, x, levels, slope, 1.0) * incoming.numpy()
    assert t.grad is not None
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-9, atol=1e-12)
    value = ste.function(name, t.detach(), levels).numpy()
    np.testing.assert_allclose(value, repeated(curve, x, levels, slope, 1 / (levels - 1)), atol=1e-12)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_relu1_is_the_clip_on_the_closed_interval(levels: int, dtype: torch.dtype) -> None:
    inside = [0.0, 1.0, 0.5, *[i / (levels - 1) for i in range(levels)]]
    tiny = torch.finfo(dtype).eps
    x = torch.tensor([*inside, -tiny, 1 + 2 * tiny, -5, 7], dtype=dtype, requires_grad=True)
    bd.nn.quantize(x, levels).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0] * len(inside) + [0.0] * 4


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("name", ORACLE)
@pytest.mark.parametrize("slope", [None, 3.0])
def test_derivative_is_the_functions_own(name: str, levels: int, slope: float | None) -> None:
    x = torch.linspace(-0.7123, 1.7341, 211, dtype=torch.float64)  # misses every corner
    h = 1e-6
    central = (ste.function(name, x + h, levels, slope) - ste.function(name, x - h, levels, slope)) / (2 * h)
    torch.testing.assert_close(ste.derivative(name, x, levels, slope), central, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("name", ORACLE)
@pytest.mark.parametrize("factor", [1.0, 2.5])
def test_cumulative_difference_is_the_area(name: str, levels: int, factor: float) -> None:
    curve, _, default = ORACLE[name]
    slope = default * factor
    edges = [-30.0, 0.0, *thresholds(levels), 1.0, 31.0]
    area = 0.0
    for low, high in itertools.pairwise(edges):
        width = (high - low) / 60_000
        x = low + width * (np.arange(60_000) + 0.5)
        gap = staircase(x, levels) - repeated(curve, x, levels, slope, 1 / (levels - 1))
        area += float(np.abs(gap).sum() * width)
    assert bd.ste.cumulative_difference(name, levels, slope) == pytest.approx(area, abs=2e-6)


def test_the_areas_of_figure_2() -> None:
    exact = {"relu1": 1 / 4, "steep2": 1 / 8, "steep4": 1 / 16, "polynomial": 1 / 6}
    assert {name: bd.ste.cumulative_difference(name) for name in exact} == pytest.approx(exact, abs=1e-15)
    assert bd.ste.cumulative_difference("sigmoid") == pytest.approx(math.log(2) / 2)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.integers(2, 9),
    st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=8),
    st.sampled_from(sorted(ORACLE)),
)
def test_levels_never_fall_and_gradients_never_point_back(
    levels: int, values: list[float], name: str
) -> None:
    x = torch.tensor(sorted(values), requires_grad=True)
    out = bd.nn.quantize(x, levels, name)
    assert (out.diff() >= 0).all()
    assert set((out * (levels - 1)).round().tolist()) <= set(range(levels))
    out.sum().backward()
    assert x.grad is not None
    if name != "swishsign":  # which overshoots, and so falls again
        assert (x.grad >= 0).all()


def test_a_ste_of_ones_own() -> None:
    square = ste.STE(
        "test-square", lambda x, k: x.clamp(0, 1) ** 2, lambda x, k: 2 * x.clamp(0, 1), 1.0, None, "a test"
    )
    act = bd.nn.QuantAct(3, ste=square)
    x = torch.tensor([0.3], requires_grad=True)
    act(x).backward()
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(2 * 0.6)
    assert bd.ste.cumulative_difference(square) == pytest.approx(1 / 24 + (1 / 2 - 7 / 24), abs=1e-6)
    for bad in (1, 0, 257, 2.0, True):
        with pytest.raises(bd.BinaryDuoError, match="levels must be a whole number from 2 to 256"):
            bd.nn.QuantAct(bad)  # type: ignore[arg-type]
    with pytest.raises(bd.BinaryDuoError, match="unknown STE 'relu2': choose one of relu1"):
        bd.nn.QuantAct(2, ste="relu2")
