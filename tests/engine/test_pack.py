"""Packed networks against PyTorch: the paper's, small ones of the same parts, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import binaryduo as bd
from binaryduo.engine import reference
from binaryduo.engine.program import Code, Flag
from binaryduo.errors import ArgumentError, GraphError
from binaryduo.nn import BinaryConv2d, BinaryLinear, QuantAct
from binaryduo.packing import verify
from tests.engine.programs import Builder
from tests.random_nets import RandomNet


def trained_like(model, seed=0):
    """Statistics and parameters as after training: every BN different, some γ negative, some zero."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(0, 0.3, generator=g)
                module.running_var.uniform_(0.5, 2, generator=g)
                module.weight.normal_(0.7, 0.6, generator=g)
                module.bias.add_(0.3 * torch.randn(module.bias.shape, generator=g))
                module.weight[::7] = 0
    return model.eval()


def check_pack(model, x, path, tolerance=1e-4):
    packed = bd.pack(model, x, path, verbose=False)
    loaded = bd.load(path, threads=1)
    with torch.no_grad():
        wanted = model(x).numpy()
    found = loaded(x.numpy())
    assert found.dtype == np.float32
    assert found.shape == wanted.shape
    size = np.abs(wanted).max()
    agree = np.abs(found - wanted).max(axis=tuple(range(1, wanted.ndim))) <= tolerance * size
    return packed, loaded, agree


@pytest.mark.parametrize("variant", ["baseline", "decoupled"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"weight_bits": 1, "image_size": 12}),
        ("mlp", {"weight_bits": 32, "image_size": 12}),
        ("vgg7", {"weight_bits": 1, "width": 0.5, "image_size": 16}),
        ("vgg7", {"weight_bits": 32, "width": 0.25, "image_size": 16}),
        ("alexnet", {"width": 0.125, "image_size": 95, "num_classes": 17}),
        ("resnet18", {"width": 0.25, "image_size": 64, "num_classes": 17}),
        ("resnet18-sc", {"width": 0.25, "image_size": 64, "num_classes": 17}),
    ],
)
def test_networks(name, options, variant, tmp_path):
    model = trained_like(bd.models.build(name, variant=variant, **options))
    size = options["image_size"]
    x = torch.randn(4, 1 if name == "mlp" else 3, size, size)
    packed, loaded, agree = check_pack(model, x, tmp_path / "net.duo")
    assert agree.mean() >= 0.75  # a value within rounding of its threshold may flip, and its image with it
    assert packed.checked.close <= 1e-4 * packed.checked.bits
    binary = [op for op in loaded.program.ops if op.code == Code.BINARY_CONV]
    assert bool(binary) == (options.get("weight_bits", 1) == 1)
    np.testing.assert_allclose(reference.logits(loaded.program, x.numpy()), loaded(x.numpy()), atol=1e-2)


def small(*layers):
    return trained_like(
        nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), QuantAct(), *layers)
    )


class Pieces(nn.Module):
    """Concatenated bits, slices, numbers, operations in place, a one-bit layer on floats."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding="same")
        self.norm = nn.BatchNorm2d(12)
        self.act = QuantAct()
        self.joined = BinaryConv2d(29, 14, 3, padding=1)
        self.bn = nn.BatchNorm2d(14)
        self.relu = nn.ReLU(inplace=True)
        self.on_floats = BinaryConv2d(14, 10, 3, padding="same")
        self.pool = nn.AdaptiveMaxPool2d(2)
        self.head = nn.Linear(40, 5)

    def forward(self, x):
        bits = self.act(self.norm(self.stem(x)))
        joined = torch.cat([bits, bits[:, 2:7], F.pad(bits, (0, 0, 0, 0, 0, 0))], 1)
        y = self.bn(self.joined(joined[..., ::2, ::2]))
        z = self.relu(y)
        y = 2 * (y + z) / 4 - 0.5
        return self.head(self.pool(self.on_floats(1 - y)).flatten(1))


class Streams(nn.Module):
    """Additions, concatenations, padding and functional calls as a user would write them."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.act = QuantAct()
        self.conv1 = BinaryConv2d(16, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.act1 = QuantAct()
        self.conv2 = BinaryConv2d(16, 8, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.head = nn.Linear(48, 5)

    def forward(self, x):
        stream = self.norm(self.stem(x))
        y = self.bn1(self.conv1(self.act(stream))) + stream
        z = self.bn2(self.conv2(self.act1(y)))
        z = F.pad(z, (0, 0, 0, 0, 4, 4))
        w = torch.cat([F.relu(z + y), y, F.relu(y)], 1)
        return self.head(F.adaptive_avg_pool2d(F.max_pool2d(w, 2), 1).flatten(1))


@pytest.mark.parametrize(
    "model",
    [
        small(BinaryConv2d(24, 20, 3), nn.MaxPool2d(2), nn.BatchNorm2d(20), QuantAct(), nn.Conv2d(20, 4, 1)),
        small(nn.MaxPool2d(3, 2, 1), BinaryConv2d(24, 9, 3, stride=2), nn.ReLU(), nn.BatchNorm2d(9)),
        small(BinaryConv2d(24, 9, 1), nn.BatchNorm2d(9), nn.MaxPool2d(2), QuantAct(), nn.Conv2d(9, 4, 3)),
        small(nn.AvgPool2d(2), nn.Conv2d(24, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(6), nn.ReLU()),
        small(
            nn.Flatten(),
            nn.Dropout(),
            BinaryLinear(1536, 30),
            nn.BatchNorm1d(30),
            QuantAct(),
            nn.Linear(30, 3),
        ),
        small(BinaryConv2d(24, 20, 3), nn.BatchNorm2d(20), nn.ReLU(), QuantAct(), nn.Conv2d(20, 4, 1)),
        Streams(),
        Pieces(),
    ],
    ids=["pooled", "bits pooled", "normed pooled", "averaged", "flattened", "biased", "streams", "pieces"],
)
def test_parts(model, tmp_path):
    trained_like(model)
    _, _, agree = check_pack(model, torch.randn(6, 3, 8, 8), tmp_path / "net.duo")
    assert agree.mean() >= 0.8


def test_one_bit_layers_stay_one_bit(tmp_path):
    _, loaded, _ = check_pack(trained_like(Pieces()), torch.randn(2, 3, 8, 8), tmp_path / "net.duo")
    ops = {op.name: op for op in loaded.program.ops}
    assert ops["joined"].code == Code.BINARY_CONV
    assert ops["on_floats"].flags & Flag.BIT_WEIGHTS
    assert ops["on_floats"].weights.size == 14 * 9 * 10 // 8 + 1


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), levels=st.integers(2, 4))
def test_random_networks(seed, levels, tmp_path_factory):
    """Networks that users might write, decoupled where need be, give PyTorch's answers."""
    model = RandomNet(seed, levels).eval()
    x = torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
    model = bd.decouple(model, x) if levels > 2 else model
    _, _, agree = check_pack(model, x, tmp_path_factory.mktemp("net") / "net.duo")
    assert agree.mean() >= 0.5  # images with a value within rounding of its threshold may part


def test_the_model_is_untouched_and_float16_halves_the_file(tmp_path):
    model = trained_like(
        bd.models.build("vgg7", variant="decoupled", weight_bits=32, width=0.25, image_size=16)
    )
    model.train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x = torch.randn(1, 3, 16, 16)
    full = bd.pack(model, x, tmp_path / "full.duo", verbose=False)
    half = bd.pack(model, x, tmp_path / "half.duo", float_weights="float16", verbose=False)
    assert model.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert half.bytes < 0.62 * full.bytes
    assert "times smaller" in str(full)


class Written(nn.Module):
    """A model whose forward is given as a function of its parts and the input."""

    def __init__(self, how):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.other = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.dense = nn.Linear(3 * 64, 6)
        self.how = how

    def forward(self, x):
        return self.how(self, x)


def changed_under_another_name(m, x):
    y = m.conv(x)
    z = y
    z += 1
    return m.second(y)


def relu_on_a_view(m, x):
    y = m.conv(x)
    z = y.flatten(1)
    y.relu_()
    return z


def functional_in_place(m, x):
    y = m.dense(x.flatten(1))
    F.relu(y, inplace=True)
    return y


@pytest.mark.parametrize(
    "how",
    [
        functional_in_place,
        lambda m, x: m.norm(y := m.conv(x)[:, :8]) + F.relu(y),
        lambda m, x: m.norm(y := torch.cat([m.conv(x)], 1)) + m.other(y),
        lambda m, x: m.conv(x).mean((-1, -2)),
        lambda m, x: m.conv(x).mean(dim=[2, 3], keepdim=True),
        lambda m, x: m.conv(x).flatten(1),
        lambda m, x: F.avg_pool2d(m.conv(x), 3, 2, 1, False, True),
        lambda m, x: (y := m.conv(x))[:, 1:5, :, :] + y[:, :8:2],
        lambda m, x: x,
    ],
)
def test_ways_of_writing(how, tmp_path):
    model, x = trained_like(Written(how)), torch.randn(5, 3, 8, 8)
    bd.pack(model, x, tmp_path / "net.duo", verbose=False)
    with torch.no_grad():
        np.testing.assert_allclose(bd.load(tmp_path / "net.duo")(x.numpy()), model(x).numpy(), atol=1e-4)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (changed_under_another_name, "in place under two names"),
        (relu_on_a_view, "in place under two names"),
        (lambda m, x: (y := m.conv(x)) + y.mean(0, keepdim=True), "'mean' cannot be packed"),
        (lambda m, x: (y := m.conv(x)) + y[:1], "'getitem' cannot be packed"),
        (lambda m, x: m.conv(x).flatten(1)[:, :100], "flattened image"),
        (lambda m, x: (y := m.conv(x)) + y.mean(), "'mean' cannot be packed"),
        (lambda m, x: m.conv(x) + x.shape[1], "'add' cannot be packed"),
        (lambda m, x: F.avg_pool2d(m.conv(x), 3, 2, 1, False, False), "divisor"),
        (lambda m, x: F.avg_pool2d(m.conv(x), 2, divisor_override=1), "divisor"),
        (lambda m, x: F.pad(m.conv(x), (0, 0, 0, 0, 0, x.size(1))), "number must be constant"),
        (lambda m, x: m.conv(x)[:, 3:3], "selects nothing"),
    ],
)
def test_what_cannot_be_followed_is_refused(how, message, tmp_path):
    with pytest.raises(GraphError, match=message):
        bd.pack(trained_like(Written(how)), torch.randn(5, 3, 8, 8), tmp_path / "net.duo", verbose=False)
    assert not (tmp_path / "net.duo").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Conv2d(3, 6, 1), nn.Softsign()), r"module '1' \(Softsign\) cannot be packed"),
        (nn.Sequential(BinaryConv2d(3, 6, 3, dilation=2)), "dilation"),
        (nn.Sequential(nn.AdaptiveAvgPool2d(3)), "not all of one size"),
        (nn.Sequential(nn.Conv2d(3, 8, (1, 3), padding=1)), r"'0' \(Conv2d\).*whole kernel"),
        (nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False)), "running statistics"),
        (nn.Sequential(nn.AvgPool2d(3, ceil_mode=True)), "ceil_mode"),
        (nn.Sequential(nn.Conv2d(3, 4, 1), nn.Softmax(1)), "leave it out of the model"),
    ],
)
def test_refused_by_name(model, message, tmp_path):
    with pytest.raises(GraphError, match=message):
        bd.pack(model.eval(), torch.randn(1, 3, 8, 8), tmp_path / "net.duo")
    assert not (tmp_path / "net.duo").exists()


def test_arguments(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 4, 1))
    with pytest.raises(ArgumentError, match="float_weights"):
        bd.pack(model, torch.randn(1, 3, 4, 4), tmp_path / "x.duo", float_weights="int4")
    bd.pack(model, torch.randn(1, 3, 4, 4), tmp_path / "x.duo", verbose=False)
    loaded = bd.load(tmp_path / "x.duo")
    with pytest.raises(ArgumentError, match="N × 3 × 4 × 4"):
        loaded(np.zeros((1, 3, 5, 4)))
    with pytest.raises(ArgumentError, match="threads"):
        bd.load(tmp_path / "x.duo", threads=0)


def test_a_wrong_program_is_not_written(tmp_path, monkeypatch):
    """If the folding were wrong, pack would notice."""
    from binaryduo.packing import builder

    right = builder.fold_integers

    def wrong(*args):
        folded = right(*args)
        folded.threshold = folded.threshold + 1
        return folded

    monkeypatch.setattr(builder, "fold_integers", wrong)
    model = small(BinaryConv2d(24, 20, 3), nn.BatchNorm2d(20), QuantAct(), nn.Conv2d(20, 4, 1))
    with pytest.raises(GraphError, match="does not agree"):
        bd.pack(model, torch.randn(1, 3, 8, 8), tmp_path / "net.duo")
    assert not (tmp_path / "net.duo").exists()


@pytest.mark.parametrize("where", ["0.weight", "1.running_var", "3.weight"])
def test_values_that_are_no_numbers_are_refused_by_name(where, tmp_path):
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), QuantAct(), BinaryConv2d(8, 4, 3, bias=False), nn.Flatten()
    ).eval()
    net.state_dict()[where].view(-1)[1] = float("nan")
    with pytest.raises(GraphError, match=where.replace(".", r"\.")):
        bd.pack(net, torch.rand(1, 3, 8, 8), tmp_path / "net.duo", verbose=False)
    assert not (tmp_path / "net.duo").exists()


def test_native_bits_may_differ_within_rounding_of_their_threshold_only():
    """However few bits there are: of ten, one at its threshold is no error, and one far from it is."""
    builder = Builder(6, 1, 1, seed=1)
    builder.conv(0, 10, (1, 1), padding=(0, 0), out="bits")
    program, image = builder.program, builder.images()
    op = program.ops[0]
    traced = reference.run(program, image)
    sums = reference.step(program, replace(op, out_float=9, out_bits=-1), traced)[9][0, 0, 0]
    op.threshold[3] = sums[3]
    traced = reference.run(program, image)
    verify.check_native(program, traced)
    traced[op.out_bits][0, 0, 0, 3] ^= 1
    verify.check_native(program, traced)
    traced[op.out_bits][0, 0, 0, int(np.abs(sums - op.threshold).argmax())] ^= 1
    with pytest.raises(GraphError, match="bits differ"):
        verify.check_native(program, traced)
