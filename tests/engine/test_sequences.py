"""One dimension end to end: couple, decouple, cost and pack of networks on sequences (N, C, T)."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from binaryduo.engine.program import Code
from binaryduo.errors import ArgumentError
from tests.engine.test_pack import trained_like


class Keywords(nn.Module):
    """Convolutions over time as keyword spotters have them: strided, pooled, dilated, grouped, residual."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(6, 24, 5, stride=2, padding=2, bias=False)
        self.bn1, self.act1 = nn.BatchNorm1d(24), bd.nn.QuantAct(levels)
        self.second = bd.nn.BinaryConv1d(24, 24, 3, padding=1, bias=False)
        self.bn2, self.act2 = nn.BatchNorm1d(24), bd.nn.QuantAct(levels)
        self.third = bd.nn.BinaryConv1d(24, 32, 3, stride=2, padding="valid", bias=False)
        self.bn3, self.act3 = nn.BatchNorm1d(32), bd.nn.QuantAct(levels)
        self.wide = nn.Conv1d(32, 32, 3, dilation=2, padding=2, groups=4)
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.first(F.pad(x, (1, 1))))
        x = self.bn2(self.second(self.act1(x))) + x
        x = self.bn3(F.max_pool1d(self.third(self.act2(x)), 2))
        return self.head(F.relu(self.wide(self.act3(x))).mean(2))


@pytest.mark.parametrize("length", [16, 33, 50])
def test_packed_sequences(length: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 6, length)
    model = trained_like(Keywords(3))
    binary = bd.decouple(model, x, strict=True)
    bd.pack(binary, x, tmp_path / "net.duo", verbose=False)
    loaded = bd.load(tmp_path / "net.duo")
    found, wanted = loaded(x.numpy()), binary.eval()(x).detach().numpy()
    close = np.abs(found - wanted).max(1) < 1e-3 * np.abs(wanted).max()
    assert close.mean() >= 0.75  # an activation within rounding of its threshold may fall on its other side
    binaries = {op.name for op in loaded.program.ops if op.code == Code.BINARY_CONV}
    assert binaries == {layer.name for layer in bd.cost(binary, x).layers if layer.binary} != set()
    with pytest.raises(ArgumentError, match=f"N × 6 × {length}, not"):
        loaded(np.zeros((1, 6, length + 1)))


def test_a_sequence_in_a_sequence_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv1d(2, 8, 3, padding=1), nn.BatchNorm1d(8), bd.nn.QuantAct(), bd.nn.BinaryConv1d(8, 3, 1)
    )
    net, x = trained_like(net), torch.randn(5, 2, 17)
    bd.pack(net, x, tmp_path / "net.duo", verbose=False)
    found = bd.load(tmp_path / "net.duo")(x.numpy())
    assert found.shape == (5, 3, 17)
    assert np.mean(np.abs(found - net(x).detach().numpy()) < 1e-4) > 0.99


def test_one_bit_weights_of_one_dimension_are_those_of_two() -> None:
    torch.manual_seed(0)
    one, two = bd.nn.BinaryConv1d(4, 6, 3, padding=1), bd.nn.BinaryConv2d(4, 6, (1, 3), padding=(0, 1))
    with torch.no_grad():
        two.weight.copy_(one.weight.unsqueeze(2))
        two.bias.copy_(one.bias)
    x = torch.randn(2, 4, 9)
    assert torch.allclose(one(x), two(x.unsqueeze(2)).squeeze(2), atol=1e-6)


def test_coupling_of_sequences() -> None:
    coupled = bd.couple(Keywords(2), torch.randn(2, 6, 33))
    assert coupled.first.out_channels < 24
    assert coupled.coupling.decoupled_weights <= coupled.coupling.baseline_weights
