"""Activations of more than two levels as planes of bits (version 4 of the format): kernels, networks, files."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import binaryduo as bd
from binaryduo.engine import _native
from binaryduo.engine import format as duo
from binaryduo.engine.program import Code, Flag, Storage
from binaryduo.engine.weight_layout import BINARY_BLOCK, from_blocks, to_blocks
from binaryduo.errors import GraphError, PackedFormatError
from binaryduo.nn import BinaryConv1d, BinaryConv2d, BinaryLinear, QuantAct
from binaryduo.packing.agreement import agreement
from tests.engine.programs import Builder, load_program
from tests.engine.test_kernels import check
from tests.engine.test_pack import check_pack, trained_like
from tests.engine.test_sequences import Keywords
from tests.random_nets import RandomNet

SETS = _native.available().split()


@pytest.fixture(params=SETS)
def isa(request, monkeypatch):
    monkeypatch.setenv("BINARYDUO_ISA", request.param)
    return request.param


def learned(model, x, seed):
    """The model with learned thresholds that have moved; some of them have crossed."""
    with torch.no_grad():
        model.eval()(x)  # thresholds of each channel are given to the channels now
        g = torch.Generator().manual_seed(seed)
        for act in model.modules():
            if isinstance(act, QuantAct) and act.offsets is not None:
                act.offsets.copy_(0.15 * torch.randn(act.offsets.shape, generator=g))
    return model


# --- kernels ----------------------------------------------------------------------------------------------


def with_own_weights(program):
    """The same program with the weights of each plane written out: what the reader has to make of shared ones."""
    for op in program.ops:
        if op.flags & Flag.SHARED_WEIGHTS:
            planes = program.tensors[op.input].copies
            rows = from_blocks(op.weights, op.channels, BINARY_BLOCK)
            taps = rows.reshape(op.channels, op.kernel[0] * op.kernel[1], 1, -1)
            op.weights = to_blocks(np.tile(taps, (1, 1, planes, 1)).reshape(op.channels, -1), BINARY_BLOCK)
            op.flags &= ~Flag.SHARED_WEIGHTS
    return program


@pytest.mark.parametrize("planes", [1, 2, 3, 5, 32])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 31), (9, 33), (45, 64), (64, 130)])
def test_shared_weights_are_those_of_every_plane(isa, inputs, outputs, planes):
    b = Builder(inputs, 5, 6, seed=inputs + planes)
    x = b.conv(b.binarize(0, planes), outputs, copies=2, out="bits", integer=True, shared=True)
    x = b.conv(b.pool(x, Code.MAX_POOL), 20, (2, 3), padding=(0, 0), shared=True)  # a dense layer
    model, image, _ = check(b, x)
    found = model(image)
    stored = len(duo.to_bytes(b.program))
    assert duo.version_of(b.program) == 4
    written_out = with_own_weights(b.program)
    assert duo.version_of(written_out) == 1
    assert len(duo.to_bytes(written_out)) >= stored
    np.testing.assert_array_equal(load_program(written_out)(image), found)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: setattr(p.ops[1], "groups", 2), "between groups"),
        (lambda p: setattr(p.ops[0], "flags", Flag.SHARED_WEIGHTS), "do not go together"),
        (lambda p: setattr(p.ops[1], "code", Code.FLOAT_CONV), "do not go together|past the end"),
    ],
)
def test_what_is_not_as_it_should_be_is_refused(change, sentence):
    b = Builder(4, 3, 3)
    program = b.finish(b.conv(b.binarize(0, 2), 6, shared=True))
    load_program(program)
    change(program)
    with pytest.raises(PackedFormatError, match=sentence):
        load_program(program)


def test_more_planes_than_may_share_weights_are_refused():
    b = Builder(2, 3, 3)
    program = b.finish(b.conv(b.binarize(0, 33), 6, shared=True))
    with pytest.raises(PackedFormatError, match="too many planes"):
        load_program(program)


# --- networks ---------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), levels=st.integers(3, 5))
def test_random_networks(seed, levels, tmp_path_factory):
    """What users might write, of three to five levels, with fixed and learned thresholds: PyTorch's answers, those of
    the decoupled twin, and the same bits on every instruction set."""
    folder = tmp_path_factory.mktemp("net")
    x = torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
    model = RandomNet(seed, levels)
    for act in model.modules():
        if isinstance(act, QuantAct):
            act.set_levels(levels, random.Random(seed).choice([None, "layer", "channel"]))
    learned(model, x, seed)
    _, loaded, agree = check_pack(model, x, folder / "net.duo")
    assert agree.mean() >= 0.5  # images with a value within rounding of its threshold may part
    bd.pack(bd.decouple(model, x, strict=False), x, folder / "twin.duo", verbose=False)
    found, twin = loaded(x.numpy()), bd.load(folder / "twin.duo", threads=1)(x.numpy())
    assert (np.abs(found - twin).max(1) <= 1e-4 * np.abs(twin).max()).mean() >= 0.5
    with pytest.MonkeyPatch.context() as patch:
        for isa in SETS:
            if isa != "scalar":  # which does not fuse multiplication and addition
                patch.setenv("BINARYDUO_ISA", isa)
                np.testing.assert_array_equal(bd.load(folder / "net.duo", threads=1)(x.numpy()), found)


@pytest.mark.parametrize("levels", [3, 4])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"weight_bits": 1, "image_size": 12}),
        ("vgg7", {"weight_bits": 1, "width": 0.5, "image_size": 16}),
        ("vgg7", {"weight_bits": 32, "width": 0.25, "image_size": 16}),
        ("alexnet", {"width": 0.125, "image_size": 95, "num_classes": 17}),
        ("resnet18", {"width": 0.25, "image_size": 64, "num_classes": 17}),
        ("resnet18-sc", {"width": 0.25, "image_size": 64, "num_classes": 17}),
    ],
)
def test_networks_and_their_decoupled_twins(name, options, levels, tmp_path):
    model = trained_like(bd.models.build(name, variant="coupled", levels=levels, **options))
    size = options["image_size"]
    x = torch.randn(4, 1 if name == "mlp" else 3, size, size)
    packed, loaded, agree = check_pack(model, x, tmp_path / "net.duo")
    assert agree.mean() >= 0.75
    assert packed.checked.close <= 1e-4 * packed.checked.bits
    twin = bd.pack(bd.decouple(model, x), x, tmp_path / "twin.duo", verbose=False)
    other = bd.load(tmp_path / "twin.duo", threads=1)
    near = np.abs(loaded(x.numpy()) - other(x.numpy())).max(1) <= 1e-4 * np.abs(other(x.numpy())).max()
    assert near.mean() >= 0.75
    assert packed.bytes < twin.bytes
    counts = [
        {op.name for op in m.program.ops if op.code == Code.BINARY_CONV} for m in (loaded, other)
    ]  # the same layers run on bits
    assert counts[0] == counts[1]
    assert bool(counts[0]) == (options.get("weight_bits", 1) == 1)
    assert duo.version_of(loaded.program) == (4 if counts[0] else 1)
    weights = sum(op.weights.size for op in loaded.program.ops if op.code == Code.FLOAT_CONV)
    floats = [
        m
        for m in model.modules()
        if isinstance(m, nn.Conv2d | nn.Linear) and "Binary" not in type(m).__name__
    ]
    assert weights == sum(m.weight.numel() for m in floats)  # those of the coupled network, not of its twin


def test_pooling_stays_on_bits_and_only_float_layers_read_floats(tmp_path):
    model = trained_like(bd.models.build("vgg7", variant="coupled", weight_bits=1, width=0.25, image_size=16))
    _, loaded, _ = check_pack(model, torch.randn(2, 3, 16, 16), tmp_path / "net.duo")
    program = loaded.program
    pools = [op for op in program.ops if op.code == Code.MAX_POOL]
    assert pools
    assert all(program.tensors[op.input].kind == Storage.BITS for op in pools)
    assert all(program.tensors[op.input].copies == 2 for op in program.ops if op.flags & Flag.SHARED_WEIGHTS)
    assert not any(op.code == Code.UNPACK for op in program.ops)
    assert any("on 2 planes" in layer.weights for layer in loaded.describe())
    head = [nn.Conv2d(3, 8, 3), QuantAct(3), nn.MaxPool2d(2), nn.Conv2d(8, 2, 1)]
    _, loaded, _ = check_pack(nn.Sequential(*head).eval(), torch.randn(2, 3, 8, 8), tmp_path / "net.duo")
    codes = [op.code for op in loaded.program.ops[1:]]
    assert codes == [Code.MAX_POOL, Code.UNPACK, Code.MEAN_COPIES, Code.FLOAT_CONV]


@pytest.mark.parametrize("levels", [3, 5])
def test_sequences(levels, tmp_path):
    x = torch.randn(8, 6, 33)
    _, loaded, agree = check_pack(trained_like(Keywords(levels)), x, tmp_path / "net.duo")
    assert agree.mean() >= 0.75
    assert {op.name for op in loaded.program.ops if op.flags & Flag.SHARED_WEIGHTS} == {"second", "third"}


class Joined(nn.Module):
    """Levels that go through a concatenation, a flip of channels and zero channels to a one-bit layer."""

    def __init__(self, levels):
        super().__init__()
        self.stem, self.norm, self.act = nn.Conv2d(3, 13, 3, padding=1), nn.BatchNorm2d(13), QuantAct(levels)
        self.layer, self.bn, self.second = BinaryConv2d(28, 24, 3), nn.BatchNorm2d(24), QuantAct(levels)
        self.grouped = BinaryConv2d(24, 24, 3, groups=4)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = self.act(self.norm(self.stem(x)))
        x = nn.functional.pad(torch.cat([x, x.flip(1)], 1), (0, 0, 0, 0, 1, 1))
        return self.head(self.grouped(self.second(self.bn(self.layer(x)))).mean((2, 3)))


@pytest.mark.parametrize("levels", [3, 4])
def test_levels_are_followed_and_groups_read_their_mean(levels, tmp_path):
    _, loaded, agree = check_pack(trained_like(Joined(levels)), torch.randn(6, 3, 9, 9), tmp_path / "net.duo")
    assert agree.mean() >= 0.8
    ops = {op.name: op for op in loaded.program.ops}
    assert ops["layer"].flags & Flag.SHARED_WEIGHTS
    assert ops["grouped"].code == Code.FLOAT_CONV
    assert ops["grouped"].flags & Flag.BIT_WEIGHTS


@pytest.mark.parametrize("interval", ["layer", "channel"])
def test_thresholds_that_have_crossed(interval, tmp_path):
    """An activation counts how many thresholds are reached, in whatever order they are."""
    model = trained_like(
        nn.Sequential(
            nn.Conv2d(3, 9, 3), nn.BatchNorm2d(9), QuantAct(4, interval=interval), BinaryConv2d(9, 4, 3)
        )
    )
    x = torch.randn(5, 3, 8, 8)
    model(x)
    with torch.no_grad():
        model[2].offsets.copy_(
            torch.tensor([0.6, 0.0, -0.7]).repeat_interleave(model[2].offsets.numel() // 3)
        )
    _, _, agree = check_pack(model, x, tmp_path / "net.duo")
    assert agree.all()


def test_many_levels_read_floats(tmp_path):
    """Forty planes may not share weights, and sixteen of a whole image have too many inputs."""
    first = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), QuantAct(41), BinaryConv2d(8, 6, 3)]
    wide = [nn.Conv2d(3, 120, 1), nn.BatchNorm2d(120), QuantAct(17), nn.Flatten(), BinaryLinear(120 * 36, 6)]
    for layers in (first, wide):
        model = trained_like(nn.Sequential(*layers))
        packed, loaded, agree = check_pack(model, torch.randn(4, 3, 6, 6), tmp_path / "net.duo")
        assert agree.mean() >= 0.75
        assert packed.version == 1
        assert not any(op.code == Code.BINARY_CONV for op in loaded.program.ops)


def test_thresholds_of_single_values_are_refused(tmp_path):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.Flatten(), QuantAct(3, interval="channel"), nn.Linear(4 * 36, 2)
    ).eval()
    x = torch.randn(1, 3, 8, 8)
    model(x)
    with pytest.raises(GraphError, match=r"module '2' \(QuantAct\).*before the flattening"):
        bd.pack(model, x, tmp_path / "net.duo")


def test_binary_networks_keep_their_version(tmp_path):
    for variant in ("baseline", "decoupled"):
        model = bd.models.build("mlp", variant=variant, weight_bits=1, image_size=12).eval()
        assert bd.pack(model, torch.rand(1, 1, 12, 12), tmp_path / "net.duo", verbose=False).version == 1


@pytest.mark.parametrize("what", ["threshold", "weights"])
def test_wrong_planes_are_not_written(what, tmp_path, monkeypatch):
    """If a plane's threshold, or the layer that reads it, were wrong, pack would notice."""
    from binaryduo.packing import builder, layers

    right = builder.fold_floats if what == "threshold" else layers.binary_weights

    def wrong(*args, **options):
        found = right(*args, **options)
        if what == "weights":
            return found ^ 1
        found.threshold[-1] += 0.2  # the last plane of the last channel alone
        return found

    monkeypatch.setattr(builder if what == "threshold" else layers, right.__name__, wrong)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 9, 3), QuantAct(3), BinaryConv2d(9, 4, 3), nn.Flatten()).eval()
    with pytest.raises(GraphError, match="does not agree"):
        bd.pack(model, torch.randn(1, 3, 8, 8), tmp_path / "net.duo")


def test_differences_are_traced_to_a_plane(tmp_path):
    """Where bits differ, the activation is found, and how far its value is from that plane's threshold."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 9, 3), QuantAct(3), BinaryConv2d(9, 4, 6), nn.Flatten()).eval()
    x = torch.randn(40, 3, 8, 8)
    bd.pack(model, x, tmp_path / "net.duo", verbose=False)
    loaded = bd.load(tmp_path / "net.duo", threads=1)
    assert agreement(model, loaded, x).changed == 0
    with torch.no_grad():
        model[0].bias += 0.05  # not the model that was packed any more
    found = agreement(model, loaded, x)
    assert found.changed == len(found.causes) > 0
    assert all(cause.activation == "_1" and 0 < cause.distance <= 0.0501 for cause in found.causes)


def test_a_one_bit_layer_over_time(tmp_path):
    layers = [nn.Conv1d(2, 10, 3), nn.BatchNorm1d(10), QuantAct(4), nn.MaxPool1d(2), BinaryConv1d(10, 3, 2)]
    _, loaded, agree = check_pack(
        trained_like(nn.Sequential(*layers)), torch.randn(6, 2, 20), tmp_path / "n.duo"
    )
    assert agree.mean() >= 0.8
    assert duo.version_of(loaded.program) == 4
