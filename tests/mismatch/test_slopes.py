"""Slopes against whole forward passes, against gradients where there are any, and against the toy problem's CDG."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from binaryduo.errors import ArgumentError
from binaryduo.mismatch import ToyProblem, compare_slopes, cosine, slopes
from binaryduo.mismatch.parallel import generator
from binaryduo.mismatch.slopes import from_slopes, unit_vectors
from binaryduo.nn import BinaryConv2d, BinaryLinear, QuantAct, binarize_weight


def network(levels: int = 2, conv: type[nn.Conv2d] = nn.Conv2d) -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        QuantAct(levels),
        conv(6, 6, 3, padding=1, bias=False),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(6),
        QuantAct(levels),
        nn.Flatten(),
        nn.Linear(96, 5, bias=False),
    )
    with torch.no_grad():
        for _ in range(20):
            net.train()(torch.randn(64, 2, 8, 8))
    return net.eval()


def data(count: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(count, 2, 8, 8), torch.arange(count) % 5


@torch.no_grad()
def brute_force(net: nn.Module, name: str, unit: torch.Tensor, length: float) -> float:
    """Two whole forward passes in float64 with the weight itself moved; of a one-bit layer the effective weight."""
    x, y = data()
    losses = []
    for sign in (1, -1):
        moved = copy.deepcopy(net).double()
        layer = moved.get_submodule(name)
        if isinstance(layer, BinaryConv2d):
            plain = nn.Conv2d(6, 6, 3, padding=1, bias=False).double()
            plain.weight.copy_(binarize_weight(layer.weight))
            moved.set_submodule(name, plain)
            layer = plain
        layer.get_parameter("weight").add_(unit.double(), alpha=sign * length)
        losses.append(float(F.cross_entropy(moved(x.double()), y)))
    return (losses[0] - losses[1]) / (2 * length)


@pytest.mark.parametrize("conv", [nn.Conv2d, BinaryConv2d])
def test_along_the_coarse_gradient_it_is_what_whole_passes_give(conv: type[nn.Conv2d]) -> None:
    net, (x, y) = network(conv=conv), data()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = slopes(net.double(), F.cross_entropy, x.double(), y, step=0.05, directions=4, batch_size=16)
    F.cross_entropy(net(x.double()), y).backward()
    for layer in found.layers:
        gradient = net.get_submodule(layer.name).get_parameter("weight").grad
        assert gradient is not None
        promised = float(gradient.norm())
        wanted = brute_force(net, layer.name, gradient / promised, layer.step)
        assert layer.kept * promised == pytest.approx(wanted, rel=1e-9)
        weight = net.get_submodule(layer.name).get_parameter("weight")
        effective = binarize_weight(weight) if layer.weights == "effective" else weight
        assert layer.step == pytest.approx(0.05 * float(effective.detach().norm()))
    assert all(torch.equal(value, before[name].to(value)) for name, value in net.state_dict().items())


def test_the_length_of_the_gradient_is_that_of_whole_passes() -> None:
    """As many directions as weights: they are at right angles, and the cosine has no interval."""
    net, (x, y) = network(), data()
    found = slopes(net.double(), F.cross_entropy, x.double(), y, step=0.02, directions=108, layers=["0"])
    (layer,) = found.layers
    units = list(unit_vectors(net[0].weight.shape, 108, generator(0, 0)))
    flat = torch.stack(units).flatten(1)
    torch.testing.assert_close(flat @ flat.T, torch.eye(108, dtype=torch.float64))
    slope = np.array([brute_force(net, "0", unit, layer.step) for unit in units])
    F.cross_entropy(net(x.double()), y).backward()
    gradient = net[0].weight.grad
    assert gradient is not None
    wanted = layer.kept * float(gradient.norm()) / float(np.linalg.norm(slope))
    assert layer.cosine == pytest.approx(wanted, rel=1e-9)
    assert layer.interval == (layer.cosine, layer.cosine)


def test_without_a_staircase_behind_it_a_layer_keeps_its_promise() -> None:
    net, (x, y) = network(), data(200)
    last = slopes(net, F.cross_entropy, x, y, step=0.01, directions=480).layers[-1]
    assert (last.cosine, last.kept) == (pytest.approx(1, abs=0.01), pytest.approx(1, abs=0.01))


def test_the_interval_holds_what_it_promises() -> None:
    """A gradient of 500 weights, of which 16 random directions tell the length: 95 times in 100 it is inside."""
    torch.manual_seed(0)
    inside, trials = 0, 400
    gradient = torch.randn(500, dtype=torch.float64)
    for _ in range(trials):
        v = torch.randn(16, 500, dtype=torch.float64)
        v /= v.norm(dim=1, keepdim=True)
        length = math.sqrt(500 * float((v @ gradient).square().mean()))
        low, high = from_slopes(0.3 * float(gradient.norm()), length, 16)[1]
        inside += low <= 0.3 <= high
    assert 0.92 <= inside / trials <= 0.98


@pytest.mark.parametrize("directions", [1, 2, 32])
def test_the_sign_is_that_of_the_slope(directions: int) -> None:
    middle, (low, high) = from_slopes(-0.4, 2.0, directions)
    assert low < middle < high <= 0
    assert from_slopes(6.0, 2.0, directions)[0] == 3  # no cosine any more, and seen to be none
    for along, gradient in ((0.4, 0.0), (math.nan, 1.0)):
        found, ends = from_slopes(along, gradient, directions)
        assert all(math.isnan(value) for value in (found, *ends))


def test_a_layer_without_a_gradient_has_no_cosine() -> None:
    """The last layer is zero, so that nothing before it has a coarse gradient; its own step is still taken."""
    net, (x, y) = network(), data()
    net[8].weight.data.zero_()
    found = slopes(net, F.cross_entropy, x, y, directions=3)
    assert [math.isnan(layer.cosine) for layer in found.layers] == [True, True, False]
    assert math.isnan(found.layers[0].kept)
    assert (found.layers[2].step, found.layers[2].kept) == (0.01, pytest.approx(1, abs=0.01))
    assert "Nothing is decided in 0, 3" in str(found)


def test_several_stes_share_the_random_directions() -> None:
    net, (x, y) = network(), data()
    both = compare_slopes(net, F.cross_entropy, x, y, ["relu1", "swishsign"], directions=6)
    for name, found in zip(("relu1", "swishsign"), both, strict=True):
        alone = slopes(net, F.cross_entropy, x, y, directions=6, ste=name)
        assert (found.ste, alone.ste) == (name, name)
        for a, b in zip(found.layers, alone.layers, strict=True):
            assert (a.cosine, a.kept) == (pytest.approx(b.cosine), pytest.approx(b.kept))


def test_several_outputs_and_a_stream_beside_the_layer() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.first, self.act = nn.Linear(6, 8), QuantAct()
            self.second, self.last = BinaryLinear(8, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            stream = self.first(x)
            stream = stream + self.second(self.act(stream))
            return {"label": self.last(stream), "stream": stream}

    def loss(out: dict[str, torch.Tensor], goal: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(out["label"], goal) + out["stream"].square().mean()

    torch.manual_seed(4)
    x, y = torch.randn(50, 6), torch.arange(50) % 3
    found = slopes(Net(), loss, x, y, directions=100, batch_size=16, step=1e-3)
    assert [layer.weights for layer in found.layers] == ["latent", "effective", "latent"]
    for layer in found.layers[1:]:  # no staircase follows them
        assert (layer.cosine, layer.kept) == (pytest.approx(1, abs=0.01), pytest.approx(1, abs=0.01))


def test_it_ranks_the_layers_of_the_toy_problem_as_the_cdg_does() -> None:
    """The same network as a module: more levels have a smaller mismatch by both, in the first layer."""
    both: dict[int, tuple[float, float]] = {}
    for levels in (2, 8):
        problem = ToyProblem(width=16, hidden_layers=2, samples=20_000, levels=levels)
        layers: list[nn.Module] = []
        for name in ("fc1", "fc2", "out"):
            weight = problem.weights[name]
            layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False).double()
            layer.weight.data.copy_(weight)
            layers += [layer, QuantAct(levels)]
        net = nn.Sequential(*layers[:-1])

        def loss(out: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
            return (out.squeeze(1) - goal).square().mean() / 2

        x = problem.inputs.T.double()
        found = slopes(net, loss, x, problem.targets.double(), 0.03, 256, layers=["0"], batch_size=20_000)
        cdg = cosine(problem.coarse_gradient(), problem.cdg(step=1e-2))["fc1"]
        both[levels] = (found.layers[0].cosine, cdg)
    assert both[8][0] > both[2][0]
    assert both[8][1] > both[2][1]


def test_what_cannot_be_traced_gives_the_same_numbers() -> None:
    class Untraceable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.inner(x)
            return out if x.sum() < 1e9 else x

    x, y = data()
    wanted = slopes(network(), F.cross_entropy, x, y, directions=5)
    with pytest.warns(UserWarning, match="whole forward pass"):
        found = slopes(Untraceable(), F.cross_entropy, x, y, directions=5)
    for a, b in zip(found.layers, wanted.layers, strict=True):
        assert (a.cosine, a.kept) == (pytest.approx(b.cosine, abs=1e-3), pytest.approx(b.kept, abs=1e-3))


def test_a_layer_that_is_not_called_once_is_refused_by_name() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.unused, self.act = nn.Linear(4, 4), nn.Linear(4, 4), QuantAct()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.a(self.act(self.a(x)))
            return out if x.sum() < 1e9 else x

    x, y = torch.randn(20, 4), torch.arange(20) % 4
    for name, uses in (("a", 2), ("unused", 0)):
        with (
            pytest.warns(UserWarning, match="whole forward pass"),
            pytest.raises(ArgumentError, match=f"layer '{name}' is used {uses} times"),
        ):
            slopes(Twice(), F.cross_entropy, x, y, layers=[name])


def test_it_is_shown_and_refuses_what_cannot_be_meant(tmp_path) -> None:
    x, y = data()
    found = slopes(network(3), F.cross_entropy, x, y, directions=4, ste="relu1")
    assert "kept" in str(found)
    assert "steps of 1 % of each layer's weights, 4 random directions, STE relu1" in str(found)
    assert found.plot(tmp_path / "slopes.png").stat().st_size > 5000
    assert [layer["name"] for layer in found.to_dict()["layers"]] == ["0", "3", "8"]
    for arguments, words in (({"step": 0}, "positive share"), ({"directions": 0}, "whole number from 1")):
        with pytest.raises(ArgumentError, match=words):
            slopes(network(), F.cross_entropy, x, y, **arguments)
