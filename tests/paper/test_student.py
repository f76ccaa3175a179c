"""Quantiles of Student's t against closed forms, against an integral of its density, and against printed tables."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binaryduo.paper.student import incomplete_beta, quantile, two_sided


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_one_and_two_degrees_have_closed_forms(confidence: float) -> None:
    assert quantile(1, confidence) == pytest.approx(math.tan(math.pi * confidence / 2), rel=1e-10)
    two = confidence * math.sqrt(2 / (1 - confidence**2))
    assert quantile(2, confidence) == pytest.approx(two, rel=1e-10)


@pytest.mark.parametrize(
    ("df", "printed"), [(3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (19, 2.093), (120, 1.980)]
)
def test_printed_tables(df: int, printed: float) -> None:
    assert round(quantile(df), 3) == printed


def test_many_degrees_are_normal() -> None:
    assert quantile(1e7) == pytest.approx(1.959964, abs=1e-5)


@given(st.floats(0.6, 200.0), st.floats(0.05, 8.0))
def test_probability_is_the_integral_of_the_density(df: float, t: float) -> None:
    """Substituting x = √df · tan(θ) turns the integral over [-t, t] into one of cos(θ)^(df−1) over a finite angle."""
    angle = np.linspace(0.0, math.atan(t / math.sqrt(df)), 20_001)
    front = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    inside = 2 * front * np.trapezoid(np.cos(angle) ** (df - 1), angle)
    assert two_sided(t, df) == pytest.approx(1 - inside, abs=2e-8)


@given(st.floats(0.5, 300.0), st.floats(0.5, 0.995))
def test_the_quantile_inverts_the_probability(df: float, confidence: float) -> None:
    assert two_sided(quantile(df, confidence), df) == pytest.approx(1 - confidence, rel=1e-8)


@given(st.floats(0.01, 0.99), st.floats(0.3, 50.0), st.floats(0.3, 50.0))
def test_the_beta_function_is_symmetric(x: float, a: float, b: float) -> None:
    assert incomplete_beta(x, a, b) + incomplete_beta(1 - x, b, a) == pytest.approx(1.0, abs=1e-12)


def test_what_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="0 degrees of freedom"):
        quantile(0)
    with pytest.raises(ValueError, match="from 0 to 1"):
        incomplete_beta(1.5, 1.0, 1.0)
