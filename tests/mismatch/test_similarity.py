"""The cosine of gradients."""

import math

import numpy as np
import pytest
import torch

from binaryduo.errors import ArgumentError
from binaryduo.mismatch import cosine


def test_each_layer_and_total():
    rng = np.random.default_rng(0)
    a = {"fc1": rng.normal(size=(4, 4)), "out": rng.normal(size=(1, 4))}
    b = {"fc1": rng.normal(size=(4, 4)), "out": rng.normal(size=(1, 4))}
    found = cosine({k: torch.tensor(v) for k, v in a.items()}, {k: torch.tensor(v) for k, v in b.items()})
    assert list(found) == ["fc1", "out", "total"]
    flat_a, flat_b = (np.concatenate([v.ravel() for v in d.values()]) for d in (a, b))
    pairs = {"fc1": (a["fc1"].ravel(), b["fc1"].ravel()), "out": (a["out"][0], b["out"][0])}
    for name, (x, y) in {**pairs, "total": (flat_a, flat_b)}.items():
        assert found[name] == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y), rel=1e-12)


def test_numpy_arrays_do_as_well():
    ones = {"fc1": np.ones((2, 2))}
    assert cosine(ones, ones)["total"] == pytest.approx(1)


def test_zero_has_no_direction():
    found = cosine({"fc1": torch.zeros(2, 2)}, {"fc1": torch.ones(2, 2)})
    assert math.isnan(found["fc1"])
    assert math.isnan(found["total"])


def test_tiny_gradients_do_not_underflow():
    a = {"fc1": torch.full((2, 2), 1e-200, dtype=torch.float64)}
    assert cosine(a, a)["fc1"] == pytest.approx(1)


def test_different_layers_or_shapes_are_refused():
    a = {"fc1": torch.ones(2, 2)}
    with pytest.raises(ArgumentError, match="different layers"):
        cosine(a, {"fc2": torch.ones(2, 2)})
    with pytest.raises(ArgumentError, match="shapes"):
        cosine(a, {"fc1": torch.ones(4, 1)})
