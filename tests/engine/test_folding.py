"""Folded thresholds decide as the float64 modules do, for every sum that can occur."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from binaryduo.nn import QuantAct
from binaryduo.nn.copies import CopiedBatchNorm2d
from binaryduo.packing.folding import fold_floats, fold_integers

REACH = 600


def norm_of(copies, channels, seed):
    """A BN in float64 with all that training can bring, and ties made on purpose."""
    g = torch.Generator().manual_seed(seed)
    norm = CopiedBatchNorm2d.of(nn.BatchNorm2d(channels), copies).double().eval()
    with torch.no_grad():
        norm.running_mean.copy_(torch.randn(channels, generator=g, dtype=torch.float64) * 5)
        norm.running_var.copy_(torch.rand(channels, generator=g, dtype=torch.float64) * 4 + 1e-3)
        norm.weight.copy_(torch.randn(copies * channels, generator=g, dtype=torch.float64))
        norm.bias.copy_(torch.randn(copies * channels, generator=g, dtype=torch.float64))
        norm.weight[0] = 0
        norm.running_mean[1:4] = torch.tensor([0.0, 2.0, -1.5])  # exact ties: ±(x − mean)·k = 1/2
        norm.running_var[1:4] = 1 - norm.eps
        norm.weight[1:4] = torch.tensor([0.5, -0.25, 1.0])
        norm.bias[1:4] = torch.tensor([0.0, 0.5, 0.5])
    return norm


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("scale", [1.0, 0.25, 0.0137, 1 / 3])
def test_every_integer(copies, scale):
    channels = 12
    norm, act = norm_of(copies, channels, seed=copies), QuantAct()
    steps = [lambda x: norm(x[:, :, None, None]).flatten(1), act]
    folded = fold_integers(steps, REACH, channels, copies, torch.tensor(scale, dtype=torch.float64))
    sums = torch.arange(-REACH, REACH + 1, dtype=torch.float64)
    x = (sums * scale)[:, None, None, None].expand(-1, channels, 1, 1)
    with torch.no_grad():
        wanted = act(norm(x)).flatten(1).numpy() > 0.5
    found = (sums.numpy()[:, None] >= folded.threshold) ^ folded.flip
    np.testing.assert_array_equal(found, wanted)
    assert 0 < wanted.mean() < 1


def test_ties_are_reached():
    """x/2 at x = 1, and -(x - 2)/4 + 1/2 at x = 2, are exactly 1/2: the bit is set."""
    norm = norm_of(1, 12, seed=0)
    steps = [lambda x: norm(x[:, :, None, None]).flatten(1), QuantAct()]
    folded = fold_integers(steps, 9, 12, 1, torch.tensor(1.0, dtype=torch.float64))
    assert folded.threshold[1:3].tolist() == [1, 3]
    assert folded.flip[1:3].tolist() == [False, True]


@settings(max_examples=60, deadline=None)
@given(
    slope=st.floats(-100, 100, width=32),
    offset=st.floats(-100, 100, width=32),
    values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
)
def test_every_float(slope, offset, values):
    def act(x):
        return (x * slope + offset >= 0.5).double()

    folded = fold_floats([act], 1, 1)
    near = [np.nextafter(folded.threshold[0], np.float32(side)) for side in (-np.inf, np.inf)]
    x = np.array([*values, *[v for v in near if np.isfinite(v)]], np.float32)
    found = (x >= folded.threshold[0]) ^ folded.flip[0]
    np.testing.assert_array_equal(found, act(torch.from_numpy(x.astype(np.float64))).numpy() > 0.5)
