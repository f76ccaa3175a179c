"""A user's own model: it starts as its user starts networks, and nothing goes wrong without a word."""

import math
import warnings
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from binaryduo.errors import ArgumentError, GraphError
from binaryduo.graph.tracing import tensors_in
from binaryduo.transform.equality import relative_difference


def net(width: int = 32, bias: bool = True) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1, bias=bias),
        nn.BatchNorm2d(width),
        bd.nn.QuantAct(),
        nn.Conv2d(width, width, 3, padding=1, bias=bias),
        nn.BatchNorm2d(width),
        bd.nn.QuantAct(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 10),
    )


X = torch.rand(4, 3, 8, 8)


@given(deviation=st.floats(1e-3, 1.0), width=st.sampled_from([32, 64]))
@settings(max_examples=10, deadline=None)
def test_a_coupled_network_is_drawn_as_its_user_draws(deviation: float, width: int) -> None:
    torch.manual_seed(0)
    model = net(width)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, std=deviation)
            nn.init.zeros_(module.bias)
    coupled = bd.couple(model, X)
    for old, new in zip(model, coupled, strict=True):
        if isinstance(old, nn.Conv2d | nn.Linear):
            fan = math.prod(old.weight.shape[1:]) / math.prod(new.weight.shape[1:])
            assert new.weight.std().item() == pytest.approx(deviation * math.sqrt(fan), rel=0.15)
            assert not new.bias.any()
        if isinstance(new, nn.BatchNorm2d):
            assert bool((new.weight == 1).all())
            assert not new.bias.any()
    assert not torch.equal(coupled[3].weight.flatten()[:9], model[3].weight.flatten()[:9])  # never sliced


def test_other_ways_to_start() -> None:
    torch.manual_seed(0)
    he = bd.couple(net(64), X, init="he")
    assert he[3].weight.std().item() == pytest.approx((2 / he[3].weight[0].numel()) ** 0.5, rel=0.05)
    own = bd.couple(net(), X, init=lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Conv2d) else None)
    assert bool((own[0].weight == 1).all())
    with pytest.raises(ArgumentError, match="init must be None, 'he' or a function"):
        bd.couple(net(), X, init="xavier")  # type: ignore[arg-type]


def test_widths_of_the_user_s_choice() -> None:
    coupled = bd.couple(net(), X, widths={"0": 24, "3": 20})
    assert (coupled[0].out_channels, coupled[3].out_channels, coupled[8].in_features) == (24, 20, 20)
    assert "24 channels, as asked" in str(coupled.coupling)
    binary = bd.decouple(coupled, X)
    with torch.no_grad():
        assert torch.allclose(coupled.eval()(X), binary.eval()(X), atol=1e-5)
    with pytest.raises(ArgumentError, match="'9', which is no layer: there are 0, 3, 8"):
        bd.couple(net(), X, widths={"9": 3})
    with pytest.raises(ArgumentError, match="the width of '8' cannot be chosen"):
        bd.couple(net(), X, widths={"8": 3})


class Behind(nn.Module):
    """A one-bit layer after something that no table knows."""

    def __init__(self, levels: int, move: Any) -> None:
        super().__init__()
        self.first, self.norm, self.act = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), bd.nn.QuantAct(levels)
        self.layer, self.move = bd.nn.BinaryConv2d(8, 5, 3), move

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.move(self.act(self.norm(self.first(x))))).mean((2, 3))


def sorted_channels(x: Tensor) -> Tensor:
    return x.sort(1)[0]


def test_a_one_bit_layer_that_would_not_read_bits_is_named() -> None:
    model = Behind(3, sorted_channels).eval()
    with pytest.warns(UserWarning, match="these one-bit layers read averaged copies .* 'layer'"):
        binary = bd.decouple(model, X)
    assert binary.decoupling.reads_levels == ("layer",)
    with pytest.raises(GraphError, match="'layer'"):
        bd.decouple(model, X, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = bd.decouple(Behind(3, lambda x: x.roll(1, 1)).eval(), X, strict=True)
    assert fine.decoupling.reads_levels == ()


def test_couple_says_which_layers_keep_their_width_and_why() -> None:
    coupled = bd.couple(Behind(2, sorted_channels), X)
    assert coupled.first.out_channels == 8
    why = ".sort() in forward() is not an operation that binaryduo can follow"
    assert coupled.coupling.kept == {"first": why}
    assert f"first: keeps its width because {why}" in str(coupled.coupling)


Pair = namedtuple("Pair", "label features")


@dataclass(frozen=True)
class Found:
    label: Tensor
    features: Tensor


class Recorded(nn.Module):
    """Two outputs in a named tuple, a data class or a dictionary; one of them an activation."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind, self.body, self.head = kind, net(8)[:6], nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        x = self.body(x)
        return self.kind(label=self.head(x.mean((2, 3))), features=x)


@pytest.mark.parametrize("kind", [Pair, Found, dict])
def test_outputs_in_a_record(kind: Any, tmp_path: Any) -> None:
    """Whatever holds the outputs, they keep their channels and their values, through every verb."""
    model = Recorded(kind).eval()
    coupled = bd.couple(model, X).eval()
    binary = bd.decouple(coupled, X).eval()
    found, wanted = binary(X), coupled(X)
    assert type(found) is type(wanted) is kind
    values, others = list(tensors_in(found)), list(tensors_in(wanted))
    assert [t.shape for t in values] == [(4, 4), (4, 8, 8, 8)]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(values, others, strict=True))
    bd.pack(binary, X, tmp_path / "net.duo", verbose=False)
    for a, b in zip(bd.load(tmp_path / "net.duo")(X.numpy()), values, strict=True):
        assert abs(a - b.detach().numpy()).max() < 1e-5
    bd.export_onnx(binary, X, tmp_path / "net.onnx")
    labels = torch.tensor([0, 1, 2, 3])
    profile = bd.mismatch.profile(
        model, lambda out, y: F.cross_entropy(next(tensors_in(out)), y), X, labels, 0.05, coordinates=4
    )
    assert profile.method == "suffix"


def test_a_record_of_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match="no tensors to compare"):
        relative_difference({}, {})


class Turned(nn.Module):
    """Neighbouring columns change places: no order of channels, though channels keep theirs."""

    def __init__(self, levels: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), bd.nn.QuantAct(levels))
        self.head = nn.Linear(8 * 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x).view(-1, 8, 8, 4, 2).permute(0, 1, 2, 4, 3).reshape(-1, 8, 8, 8)
        return self.head(x[:, :, ::4, ::4].reshape(-1, 32))


def test_pixels_that_are_moved_stay_moved() -> None:
    """Also where forward() is written anew, because the width stands in it as a number."""
    coupled = bd.couple(Turned(), X).eval()
    x = coupled.body(X)
    x = x.view(4, -1, 8, 4, 2).transpose(3, 4).reshape(4, -1, 8, 8)
    assert torch.equal(coupled(X), coupled.head(x[:, :, ::4, ::4].flatten(1)))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = net(8)[:2], nn.Conv2d(8, 3, 1)
        self.register_buffer("gain", torch.linspace(0.5, 2, 8).view(8, 1, 1))
        self.act = bd.nn.QuantAct()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.body(x) * self.gain))


def test_a_buffer_that_keeps_a_width_is_named() -> None:
    with pytest.raises(
        GraphError,
        match=r"'body.0' keeps its width because 'gain', which is no parameter, has a number for each",
    ):
        bd.couple(Scaled(), X)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3))
        self.gru = nn.GRU(4, 6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(F.conv2d(x, self.weight).flatten(2).transpose(1, 2))[0]


def test_cost_counts_functions_and_says_what_it_does_not_count() -> None:
    found = bd.cost(Functional(), torch.rand(2, 3, 5, 5))
    assert found.macs == 4 * 3 * 9 * 9  # the convolution's, at 3 × 3 places
    assert "'gru' (GRU)" in str(found)
    assert "kbit of parameters" in str(bd.cost(nn.Linear(10, 10), torch.rand(1, 10)))
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(6, 3, bias=False))
    assert bd.cost(nn.Sequential(normed), torch.rand(1, 6)).macs == 18


class Flagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = net()

    def forward(self, x: Tensor, flag: bool = False) -> Tensor:
        return self.layers(x) if not flag else x


class Keywords(Flagged):
    def forward(self, x: Tensor, **options: Any) -> Tensor:  # type: ignore[override]
        return self.layers(x)


def test_arguments_with_defaults_pack_and_others_are_refused_by_name(tmp_path: Any) -> None:
    bd.pack(Flagged().eval(), X, tmp_path / "net.duo", verbose=False)
    assert bd.load(tmp_path / "net.duo")(X.numpy()).shape == (4, 10)
    with pytest.raises(GraphError, match=r"takes \*\*options, which cannot be followed: name its arguments"):
        bd.couple(Keywords(), X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(net().eval(), X)
    with pytest.raises(GraphError, match="pass the model that it was scripted from"):
        bd.couple(scripted, X)
    averaged = torch.optim.swa_utils.AveragedModel(net())
    assert isinstance(bd.couple(averaged, X), nn.Sequential)


def test_a_step_of_its_own_for_each_layer() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(64, 3, 8, 8), torch.randint(0, 10, (64,))
    model = net(16)
    for _ in range(30):
        model(x)
    model.eval()
    small = bd.mismatch.profile(model, F.cross_entropy, x, y, step="auto", coordinates=24)
    with torch.no_grad():  # BN after it: the same function
        model[3].weight.mul_(100)
        model[3].bias.mul_(100)
        model[4].running_var.mul_(100**2)
        model[4].running_mean.mul_(100)
        model[4].eps *= 100**2
    large = bd.mismatch.profile(model, F.cross_entropy, x, y, step="auto", coordinates=24)
    a, b = (next(layer for layer in p.layers if layer.name == "3") for p in (small, large))
    assert b.step == pytest.approx(100 * a.step, rel=1e-3)
    assert b.cosine == pytest.approx(a.cosine, abs=1e-3)
    with pytest.raises(ArgumentError, match="positive number or 'auto'"):
        bd.mismatch.profile(model, F.cross_entropy, x, y, step="large")  # type: ignore[arg-type]
