"""Packed pools, picks and shuffles of pixels give what PyTorch gives, for windows of all sorts."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from binaryduo.engine.program import Code
from binaryduo.nn.extremes import largest


class Lambda(nn.Module):
    """A layer, an activation or none, something with pixels, and a one-bit layer that reads it if it is an image."""

    def __init__(self, how: Any, bits: bool, one_bit: bool = False) -> None:
        super().__init__()
        self.conv, self.how = nn.Conv2d(2, 8, 1), how
        self.act = bd.nn.QuantAct() if bits else nn.Identity()
        self.last = bd.nn.BinaryConv2d(8, 3, 1) if one_bit else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.how(self.act(self.conv(x))))


def packed(model: nn.Module, x: Tensor, path: Path) -> Any:
    torch.manual_seed(0)
    bd.pack(model.eval(), x, path, verbose=False)
    found = bd.load(path, threads=1)
    with torch.no_grad():
        np.testing.assert_allclose(found(x.numpy()), model(x).numpy(), rtol=1e-5, atol=1e-5)
    return found


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize(("kernel", "stride"), list(itertools.product([2, 3, 5], [1, 2, 3, 4])))
def test_max_pools_with_ceil_mode(kernel: int, stride: int, bits: bool, tmp_path: Path) -> None:
    for height, width, padding in ((7, 8, 0), (10, 6, 1), (5, 11, kernel // 2)):
        pool = nn.MaxPool2d(kernel, stride, padding, ceil_mode=True)
        packed(Lambda(pool, bits, bits), torch.randn(3, 2, height, width), tmp_path / "net.duo")


def test_windows_that_stay_inside_cost_nothing(tmp_path: Path) -> None:
    model = packed(
        Lambda(nn.MaxPool2d(2, ceil_mode=True), True, True), torch.randn(2, 2, 8, 8), tmp_path / "net.duo"
    )
    plain = packed(Lambda(nn.MaxPool2d(2), True, True), torch.randn(2, 2, 8, 8), tmp_path / "plain.duo")
    assert len(model.program.ops) == len(plain.program.ops)
    packed(Lambda(nn.AvgPool2d(2, ceil_mode=True), False), torch.randn(2, 2, 8, 8), tmp_path / "net.duo")


WAYS = {
    "amax": lambda x: x.amax((2, 3)),
    "amax, kept": lambda x: torch.amax(x, (-2, -1), keepdim=True),
    "flat mean": lambda x: x.flatten(2).mean(-1),
    "flat mean, viewed": lambda x: x.view(x.size(0), x.size(1), -1).mean(2),
    "flat maximum": lambda x: torch.max(x.flatten(2), 2)[0],
    "sum": lambda x: x.sum((2, 3)),
    "flat sum": lambda x: x.flatten(2).sum(2),
    "square": lambda x: x**2 - torch.pow(x, 2) / 3,
    "window of the size": lambda x: F.avg_pool2d(x, x.size()[2:]),
    "window of a shape": lambda x: F.max_pool2d(x, (x.shape[2], 2)),
    "one pixel": lambda x: x[:, :, -1, 2],
    "one row": lambda x: x[:, :, 1],
    "new dimensions": lambda x: x.mean((2, 3))[:, :, None, None],
    "gate": lambda x: x * torch.sigmoid(x.mean((2, 3)))[:, :, None, None],
    "pixel shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel shuffle, a module": nn.PixelShuffle(2),
}


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_other_ways(way: str, bits: bool, tmp_path: Path) -> None:
    packed(Lambda(WAYS[way], bits), torch.randn(3, 2, 5, 6), tmp_path / "net.duo")


class Points(nn.Module):
    def __init__(self, levels: int = 2) -> None:
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), bd.nn.QuantAct(levels)
        self.fc = bd.nn.BinaryLinear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.max(self.act(self.norm(self.conv(x))), dim=2).values)


def test_the_largest_along_a_dimension_keeps_bits_levels_and_gradients(tmp_path: Path) -> None:
    """torch.max(x, dim)[0] is followed like amax, but the gradient goes to one of equal values, as it did."""
    x = torch.randn(5, 3, 9)
    model = packed(Points(), x, tmp_path / "net.duo")
    assert {op.name: op.code for op in model.program.ops}["fc"] == Code.BINARY_CONV
    coupled = bd.couple(Points(), x)
    assert coupled.conv.out_channels < 16
    binary = bd.decouple(coupled.eval(), x, strict=True)  # the layer after it still reads bits
    packed(binary, x, tmp_path / "net.duo")
    ties = torch.ones(1, 2, 3, requires_grad=True)
    (mine,) = torch.autograd.grad(largest(ties, 2).sum(), ties)
    (theirs,) = torch.autograd.grad(torch.max(ties, 2)[0].sum(), ties)
    assert torch.equal(mine, theirs)


def test_a_column_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(bd.errors.GraphError, match="'getitem' cannot be packed: a pixel or a row"):
        bd.pack(Lambda(lambda x: x[:, :, :, 1], False).eval(), torch.randn(1, 2, 5, 6), tmp_path / "net.duo")


def test_squeezing_everything_says_what_to_write_instead(tmp_path: Path) -> None:
    with pytest.raises(bd.errors.GraphError, match=r"use flatten\(1\)"):
        bd.pack(
            Lambda(lambda x: F.adaptive_avg_pool2d(x, 1).squeeze(), False).eval(),
            torch.randn(1, 2, 5, 6),
            tmp_path / "n",
        )


class Attended(nn.Module):
    """CBAM's spatial attention: the mean and the largest over the channels are not channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(2, 16, 1), nn.BatchNorm2d(16), bd.nn.QuantAct()
        self.gate, self.last, self.fc = nn.Conv2d(3, 1, 3, padding=1), nn.Conv2d(16, 16, 1), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x))
        pooled = [y.mean(1, keepdim=True), torch.max(y, 1, keepdim=True)[0], y.sum(1, keepdim=True)]
        y = y * torch.sigmoid(self.gate(torch.cat(pooled, 1)))
        return self.fc(self.act(self.last(self.act(y))).mean((2, 3)))


def test_reductions_over_channels_are_not_taken_for_channels(tmp_path: Path) -> None:
    model, x = Attended(), torch.randn(3, 2, 5, 6)
    coupled = bd.couple(model, x).eval()
    assert coupled.gate.in_channels == 3
    binary = bd.decouple(coupled.double(), x.double())
    with torch.no_grad():
        torch.testing.assert_close(binary(x.double()), coupled(x.double()), rtol=1e-12, atol=1e-12)
    with pytest.raises(bd.errors.GraphError, match="only over all pixels"):
        bd.pack(model.eval(), x, tmp_path / "net.duo")
