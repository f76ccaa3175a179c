"""The profiler on networks that do odd things, against brute force; and the weights and inputs that it refuses."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.mismatch import compare_stes, profile
from binaryduo.nn import QuantAct
from tests.mismatch.test_profiling import brute_force, warm


class Odd(nn.Module):
    """A small network whose forward() does one odd thing on the way."""

    def __init__(self, way):
        super().__init__()
        torch.manual_seed(3)
        self.way = way
        self.one, self.norm, self.act = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), QuantAct()
        self.two, self.act2, self.last = nn.Conv2d(4, 4, 3, padding=1), QuantAct(3), nn.Linear(4 * 25, 2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x, factor=0.5, skip=None):
        y = self.norm(self.one(x))
        if skip is not None:
            y = y + skip
        y = ODD[self.way](self, y)
        return self.last(self.act2(self.two(self.act(y)) * factor).flatten(1))


def _add_under_two_names(net, y):
    kept = y
    y += 0.3
    return y + 0.5 * kept


def _relu_under_two_names(net, y):
    kept = y
    return net.relu(y) - 0.5 * kept


def _as_statements(net, y):
    y.mul_(1.5)
    F.relu(y, inplace=True)
    return y


ODD = {
    "nothing": lambda net, y: y,
    "in place under two names": _add_under_two_names,
    "a module in place under two names": _relu_under_two_names,
    "in place, as statements": _as_statements,
    "a function in place": lambda net, y: torch.sigmoid_(y),
    "a number for each row": lambda net, y: y + 0.1 * torch.arange(y.size(2), dtype=y.dtype),
    "samples that see each other": lambda net, y: y - y.mean(0, keepdim=True),
    "another order": lambda net, y: y.transpose(0, 1).contiguous().transpose(0, 1) * 1.1,
    "samples and channels as one": lambda net, y: (y.flatten(0, 1) * 1.2).view(-1, 4, 5, 5),
}


@pytest.mark.parametrize("way", ODD)
@pytest.mark.filterwarnings("ignore:the model cannot be followed")
def test_odd_networks_are_brute_force_too(way):
    model = Odd(way)
    warm(model, torch.randn(50, 2, 5, 5)).double()
    inputs, targets = torch.randn(20, 2, 5, 5).double(), torch.randn(20, 2).double()
    result = profile(model, F.mse_loss, inputs, targets, step=0.05, coordinates=6)
    assert result.method == "suffix" or way not in ("nothing", "another order")
    leaf = copy.deepcopy(model)
    F.mse_loss(leaf(inputs), targets).backward()
    for layer in result.layers:
        expected = [
            brute_force(model, F.mse_loss, inputs, targets, layer.name, index, 0.05)
            for index in layer.coordinates
        ]
        torch.testing.assert_close(layer.cdg, torch.tensor(expected).double(), rtol=1e-7, atol=1e-12)
        gradient = leaf.get_submodule(layer.name).weight.grad
        torch.testing.assert_close(
            layer.coarse, torch.stack([gradient[index] for index in layer.coordinates])
        )


def test_a_dense_layer_in_front_of_a_convolution():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 3), nn.Conv1d(3, 5, 1), QuantAct(), nn.Flatten(), nn.Linear(15, 2)
    ).double()
    inputs, targets = torch.randn(20, 3, 6).double(), torch.randn(20, 2).double()
    result = profile(model, F.mse_loss, inputs, targets, step=0.05, coordinates=6)
    for layer in result.layers:
        expected = [
            brute_force(model, F.mse_loss, inputs, targets, layer.name, index, 0.05)
            for index in layer.coordinates
        ]
        torch.testing.assert_close(layer.cdg, torch.tensor(expected).double(), rtol=1e-7, atol=1e-12)


def small_net():
    return nn.Sequential(nn.Linear(4, 4), QuantAct(), nn.Linear(4, 4), QuantAct(), nn.Linear(4, 1))


def test_weights_that_are_not_the_layer_s_own_are_refused():
    x, y = torch.randn(20, 4), torch.randn(20, 1)
    tied = small_net()
    tied[2].weight = tied[0].weight
    with pytest.raises(ArgumentError, match="shares its weight with '2'"):
        profile(tied, F.mse_loss, x, y)
    assert [layer.name for layer in profile(tied, F.mse_loss, x, y, layers=["4"]).layers] == ["4"]
    computed = small_net()
    nn.utils.parametrizations.weight_norm(computed[0])
    with pytest.raises(ArgumentError, match="computed from other"):
        profile(computed, F.mse_loss, x, y)
    old = small_net()
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(old[0])
    with pytest.raises(BinaryDuoError, match="weight_norm"):
        profile(old, F.mse_loss, x, y)


def test_more_bad_input_is_refused():
    x, y = torch.randn(20, 4), torch.randn(20, 1)
    with pytest.raises(ArgumentError, match="`layers` is empty"):
        profile(small_net(), F.mse_loss, x, y, layers=[])
    with pytest.raises(ArgumentError, match="inputs must be a torch tensor, not ndarray"):
        profile(small_net(), F.mse_loss, x.numpy(), y)
    with pytest.raises(BinaryDuoError, match="unknown STE 'typo'"):
        compare_stes(small_net(), lambda out, goal: 1 / 0, x, y, ["typo"])  # said before anything is computed


def test_under_no_grad_and_with_one_ste_by_name():
    x, y = torch.randn(20, 4), torch.randn(20, 1)
    torch.manual_seed(0)
    net = small_net()
    wanted = profile(net, F.mse_loss, x, y, ste="relu1")
    with torch.no_grad():
        (found,) = compare_stes(net, F.mse_loss, x, y, "relu1")
    assert found.total == wanted.total


@pytest.mark.filterwarnings("ignore:the model cannot be followed")
def test_a_model_that_changes_its_input():
    class Changing(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = small_net().double()

        def forward(self, x):
            x *= 1.5
            return self.net(x)

    torch.manual_seed(0)
    model, x, y = Changing(), torch.randn(20, 4).double(), torch.randn(20, 1).double()
    kept = x.clone()
    result = profile(model, F.mse_loss, x, y, step=0.05, coordinates=6)
    assert torch.equal(x, kept)
    for layer in result.layers:
        expected = [brute_force(model, F.mse_loss, x, y, layer.name, i, 0.05) for i in layer.coordinates]
        torch.testing.assert_close(layer.cdg, torch.tensor(expected).double(), rtol=1e-7, atol=1e-12)


class Several(nn.Module):
    """Two outputs of different shapes, as a tuple or by name."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.act, self.names = nn.Conv2d(2, 6, 3), QuantAct(3), names
        self.box, self.fc = nn.Conv2d(6, 3, 1), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Any:
        y = self.act(self.conv(x))
        found = (self.fc(y.mean((2, 3))), self.box(y))
        return dict(zip(self.names, found, strict=True)) if self.names else found


class Flat(Several):
    """The same values in one tensor."""

    def forward(self, x: Tensor) -> Tensor:
        label, box = super().forward(x)
        return torch.cat([label, box.flatten(1)], 1)


def test_several_outputs_are_profiled_as_one_tensor_of_them_is() -> None:
    x, y = torch.randn(12, 2, 5, 5, dtype=torch.float64), torch.randn(12, 4, dtype=torch.float64)

    def loss(label: Tensor, box: Tensor, target: Tensor) -> Tensor:
        return (label - target).square().mean() + box.abs().mean()

    one = profile(
        Flat().double(), lambda out, t: loss(out[:, :4], out[:, 4:], t), x, y, step=0.05, coordinates=9
    )
    ways = {
        (): lambda out, t: loss(*out, t),
        ("label", "box"): lambda out, t: loss(out["label"], out["box"], t),
    }
    for names, of in ways.items():
        several = profile(Several(names).double(), of, x, y, step=0.05, coordinates=9)
        assert several.method == "suffix"
        assert [layer.name for layer in several.layers] == ["conv", "box", "fc"]
        for a, b in zip(one.layers, several.layers, strict=True):
            torch.testing.assert_close(a.cdg, b.cdg)
            torch.testing.assert_close(a.coarse, b.coarse)


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(4, 6), QuantAct()
        self.attention, self.out = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.fc(x))
        return self.out(self.attention(y, y, y, need_weights=False)[0].mean(1))


def test_layers_that_are_never_called_are_left_out_and_named() -> None:
    x = torch.randn(8, 5, 4)
    found = profile(
        Attending(), lambda out, _: out.square().mean(), x, torch.zeros(8), step=0.05, coordinates=4
    )
    assert [layer.name for layer in found.layers] == ["fc", "out"]
    assert found.left_out == ("attention.out_proj",)
    assert "Not profiled, because forward() never calls them: attention.out_proj." in str(found)
    with pytest.raises(ArgumentError, match=r"'attention\.out_proj' is used 0 times"):
        profile(Attending(), lambda out, _: out.sum(), x, torch.zeros(8), layers=["attention.out_proj"])
