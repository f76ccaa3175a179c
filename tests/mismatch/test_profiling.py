"""The profiler against brute force on whole networks, and against the toy problem."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from binaryduo import ste as stes
from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.mismatch import ToyProblem, compare_stes, cosine, profile
from binaryduo.nn import BinaryConv2d, BinaryLinear, QuantAct, binarize_weight, is_binary_weight


def vgg(levels=2, conv=nn.Conv2d, dense=nn.Linear):
    """A small VGG-7: pooling, batch normalisation, flattening, a last activation that is not quantized."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        QuantAct(levels),
        conv(6, 6, 3, padding=1, bias=False),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(6),
        QuantAct(levels),
        conv(6, 8, 3, padding=1, stride=2, groups=2, bias=False),
        nn.BatchNorm2d(8),
        QuantAct(levels),
        nn.Flatten(),
        dense(32, 10, bias=False),
        nn.BatchNorm1d(10),
        nn.ReLU(inplace=True),
        nn.Linear(10, 3),
    )
    return warm(net, torch.randn(64, 2, 8, 8))


class Block(nn.Module):
    """A residual block that adds in place, with a dense layer over the last dimension behind it."""

    def __init__(self, levels=3):
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Conv2d(2, 5, 3, padding=1, padding_mode="circular")
        self.bn1, self.act1 = nn.BatchNorm2d(5), QuantAct(levels)
        self.second = BinaryConv2d(5, 5, 3, padding="same", bias=False)
        self.bn2, self.act2 = nn.BatchNorm2d(5), QuantAct(levels)
        self.mix, self.last = nn.Linear(6, 4), nn.Linear(20, 2)

    def forward(self, x):
        stream = self.bn1(self.first(x))
        branch = self.bn2(self.second(self.act1(stream)))
        branch += stream
        y = self.mix(F.relu(self.act2(branch), inplace=True))  # (B, 5, 6, 4)
        return self.last(y.mean(2).view(x.size(0), -1))


class Untraceable(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.a, self.act, self.b = nn.Linear(4, 6), QuantAct(), nn.Linear(6, 1)

    def forward(self, x):
        return self.b(self.act(self.a(x))) if x.sum() < 1e9 else x


def warm(net, x):
    """Let batch normalisation see data, so that it does something in evaluation mode."""
    net.train()
    with torch.no_grad():
        for _ in range(20):
            net(x)
    return net.eval()


def brute_force(model, loss_fn, inputs, targets, name, index, step):
    """Two forward passes with the weight itself changed; of one-bit layers the effective weight."""
    losses = []
    for sign in (1, -1):
        net = copy.deepcopy(model).eval()
        module = net.get_submodule(name)
        with torch.no_grad():
            if is_binary_weight(module):
                plain = nn.Conv2d if isinstance(module, nn.Conv2d) else nn.Linear
                module.weight.copy_(binarize_weight(module.weight))
                module.__class__ = plain
            module.weight[index] += sign * step
            losses.append(float(loss_fn(net(inputs.clone()).double(), targets)))
    return (losses[0] - losses[1]) / (2 * step)


def case(name):
    """A model in float64 with its loss, inputs and targets."""
    torch.manual_seed(7)
    if name == "residual":
        net = warm(Block(), torch.randn(50, 2, 6, 6)).double()
        return net, F.mse_loss, torch.randn(40, 2, 6, 6).double(), torch.randn(40, 2).double()
    if name == "untraceable":
        return Untraceable().double(), F.mse_loss, torch.randn(80, 4).double(), torch.randn(80, 1).double()
    kinds = {"one-bit weights": {"conv": BinaryConv2d, "dense": BinaryLinear}, "ternary": {"levels": 3}}
    images, labels = torch.randn(70, 2, 8, 8).double(), torch.randint(3, (70,))
    return vgg(**kinds.get(name, {})).double(), F.cross_entropy, images, labels


@pytest.mark.parametrize("name", ["binary", "ternary", "one-bit weights", "residual", "untraceable"])
@pytest.mark.filterwarnings("ignore:the model cannot be followed")
def test_is_brute_force(name):
    model, loss, inputs, targets = case(name)
    step = 0.02
    result = profile(model, loss, inputs, targets, step=step, coordinates=12, batch_size=32)
    assert result.method == ("whole" if name == "untraceable" else "suffix")
    changed = 0
    for layer in result.layers:
        assert len(layer.coordinates) <= 12
        expected = [
            brute_force(model, loss, inputs, targets, layer.name, index, step) for index in layer.coordinates
        ]
        torch.testing.assert_close(layer.cdg, torch.tensor(expected).double(), rtol=1e-7, atol=1e-12)
        changed += sum(value != 0 for value in expected)
    assert changed > 0


@pytest.mark.parametrize("levels", [2, 3, None])
def test_exact_on_the_toy_problem(levels):
    problem = ToyProblem(width=10, samples=800, levels=levels, seed=1)
    layers = []
    for name, weight in problem.weights.items():
        layers.append((name, nn.Linear(10, len(weight), bias=False, dtype=torch.float64)))
        layers[-1][1].weight.data.copy_(weight)
        layers.append((f"act{name}", QuantAct(levels)))
    net = nn.Sequential()
    for name, module in layers[:-1]:
        net.add_module(name, module)
    loss = lambda out, goal: (out.squeeze(1) - goal).square().sum() / (2 * len(goal))  # noqa: E731
    result = profile(net, loss, problem.inputs.T, problem.targets, 0.02, coordinates=100)
    cdg, coarse = problem.cdg(0.02), problem.coarse_gradient()
    for layer in result.layers:
        torch.testing.assert_close(layer.cdg.view_as(cdg[layer.name]), cdg[layer.name], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(layer.coarse.view_as(cdg[layer.name]), coarse[layer.name])
    expected = cosine(coarse, cdg)
    assert {layer.name: layer.cosine for layer in result.layers} == pytest.approx(
        {name: value for name, value in expected.items() if name != "total"}
    )
    assert result.total == pytest.approx(expected["total"])
    assert all(layer.interval == (layer.cosine, layer.cosine) for layer in result.layers)


def test_the_model_is_unchanged_and_the_seed_decides():
    model = vgg().train()
    state = copy.deepcopy(model.state_dict())
    x, y = torch.randn(50, 2, 8, 8), torch.randint(3, (50,))
    one, same, other = (profile(model, F.cross_entropy, x, y, coordinates=5, seed=s) for s in (0, 0, 1))
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    assert model[-2].inplace
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert [a.cosine for a in one.layers] == pytest.approx([a.cosine for a in same.layers], nan_ok=True)
    assert [a.coordinates for a in one.layers] != [a.coordinates for a in other.layers]


def test_coarse_gradient_is_that_of_the_whole_batch():
    model = vgg().double()
    x, y = torch.randn(30, 2, 8, 8).double(), torch.randint(3, (30,))
    result = profile(model, nn.CrossEntropyLoss(), x, y, coordinates=10, batch_size=7)
    F.cross_entropy(model(x), y).backward()
    for layer in result.layers:
        grad = model.get_submodule(layer.name).weight.grad
        expected = torch.stack([grad[index] for index in layer.coordinates])
        torch.testing.assert_close(layer.coarse, expected, rtol=1e-8, atol=1e-12)


def test_a_user_s_own_ste_beside_the_known_ones():
    def triangle(x, slope):
        return (1 - (2 * x - 1).abs()).clamp(min=0) * 2 * slope

    mine = stes.STE("mine", stes.get("relu1").function, triangle, 1.0, None, "a test")
    x, y = torch.randn(40, 2, 8, 8), torch.randint(3, (40,))
    found = compare_stes(vgg(), F.cross_entropy, x, y, ["relu1", mine, "swishsign"], 0.05, 20)
    assert [p.ste for p in found] == ["relu1", "mine", "swishsign"]
    first, second, _ = found
    assert all(torch.equal(a.cdg, b.cdg) for a, b in zip(first.layers, second.layers, strict=True))
    assert not torch.equal(first.layers[0].coarse, second.layers[0].coarse)
    alone = profile(vgg(), F.cross_entropy, x, y, 0.05, 20, ste=mine)
    assert [a.cosine for a in alone.layers] == pytest.approx([a.cosine for a in second.layers])


def test_the_interval_holds_the_cosine_and_shrinks():
    x, y = torch.randn(100, 2, 8, 8), torch.randint(3, (100,))
    widths = []
    for count in (20, 100):
        layer = profile(vgg(), F.cross_entropy, x, y, 0.05, count, layers=["3"]).layers[0]
        low, high = layer.interval
        assert low <= layer.cosine <= high
        widths.append(high - low)
    assert widths[1] < widths[0]


def test_table_dictionary_and_picture(tmp_path):
    x, y = torch.randn(40, 2, 8, 8), torch.randint(3, (40,))
    result = profile(vgg(conv=BinaryConv2d), F.cross_entropy, x, y, 0.05, 10)
    table = str(result)
    assert "effective" in table
    assert "latent" in table
    assert all(layer.name in table for layer in result.layers)
    assert [d["name"] for d in result.to_dict()["layers"]] == ["0", "3", "7", "11", "14"]
    assert result.plot(tmp_path / "p.png").read_bytes()[1:4] == b"PNG"
    assert result.brute_force_passes == 2 * 10 * 5
    assert math.isfinite(result.forward_passes)


def test_few_rows_are_run_where_little_changes():
    x, y = torch.randn(100, 2, 8, 8), torch.randint(3, (100,))
    result = profile(vgg(), F.cross_entropy, x, y, 1e-4, 30)
    assert result.layers[2].cost.evaluated < 0.1 * result.layers[2].cost.possible


def bad(**changes):
    x = torch.randn(20, 2, 8, 8)
    arguments = {"model": vgg(), "loss_fn": F.cross_entropy, "inputs": x, "targets": torch.zeros(20).long()}
    return {**arguments, **changes}


def nan_inputs():
    x = torch.randn(20, 2, 8, 8)
    x[3, 0, 0, 0] = float("nan")
    return x


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(128, 3), nn.ReLU())}, "no quantized layer"),
        ({"loss_fn": lambda o, t: F.cross_entropy(o, t, reduction="none")}, "not a scalar"),
        ({"loss_fn": lambda o, t: (o.argmax(1) != t).double().mean()}, "no gradient"),
        ({"inputs": nan_inputs()}, "inputs contain NaN"),
        ({"step": 0}, "step must be a positive"),
        ({"step": -1e-3}, "step must be a positive"),
        ({"coordinates": 0}, "coordinates must be"),
        ({"targets": torch.zeros(3).long()}, "20 inputs and 3 targets"),
        ({"layers": ["conv9"]}, "no dense or convolution layer is called 'conv9'"),
        ({"loss_fn": lambda o, t: o.sum() * float("nan")}, "loss of the unchanged model is nan"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(ArgumentError, match=message):
        profile(**bad(**changes))


def test_a_layer_used_twice_is_refused_by_name():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.act, self.end = nn.Linear(4, 4), QuantAct(), nn.Linear(4, 1)

        def forward(self, x):
            return self.end(self.act(self.layer(self.act(self.layer(x)))))

    x, y = torch.randn(10, 4), torch.randn(10, 1)
    with pytest.raises(BinaryDuoError, match="'layer' is used 2 times"):
        profile(Twice(), F.mse_loss, x, y)
    assert [a.name for a in profile(Twice(), F.mse_loss, x, y, layers=["end"]).layers] == ["end"]


def test_an_untraceable_model_is_announced():
    with pytest.warns(UserWarning, match="cannot be followed"):
        profile(Untraceable(), F.mse_loss, torch.randn(10, 4), torch.randn(10, 1), coordinates=2)
