"""Images of uint8: the same results as with normalised floats, borders included; what 8-bit weights change."""

import numpy as np
import pytest
import torch
from torch import nn

import binaryduo as bd
from binaryduo.engine import _native
from binaryduo.engine.program import Code, Storage
from binaryduo.errors import ArgumentError
from binaryduo.nn import BinaryConv2d, BinaryLinear, QuantAct
from tests.engine.test_pack import trained_like

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def network(channels=3, padding=2):
    """A first layer with a frame, then one-bit layers."""
    return trained_like(
        nn.Sequential(
            nn.Conv2d(channels, 21, 5, stride=2, padding=padding, bias=False),
            nn.BatchNorm2d(21),
            QuantAct(),
            BinaryConv2d(21, 33, 3, padding=1),
            nn.BatchNorm2d(33),
            QuantAct(),
            nn.Flatten(),
            BinaryLinear(33 * 6 * 7, 5),
        )
    )


def pixels(count=3, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, channels, 12, 13)).astype(np.uint8)


def normalised(images, mean=MEAN, std=STD):
    """An independent computation in float64, rounded once."""
    wide = images.astype(np.float64) / 255
    shape = (1, -1, 1, 1)
    return ((wide - np.reshape(mean, shape)) / np.reshape(std, shape)).astype(np.float32)


@pytest.fixture(params=_native.available().split())
def isa(request, monkeypatch):
    monkeypatch.setenv("BINARYDUO_ISA", request.param)
    return request.param


def test_the_same_results_to_the_last_bit(isa, tmp_path):
    torch.manual_seed(0)
    model, images = network(), pixels()
    x = torch.from_numpy(normalised(images))
    bd.pack(model, x[:1], tmp_path / "floats.duo", verbose=False)
    report = bd.pack(model, x[:1], tmp_path / "bytes.duo", verbose=False, input="uint8", mean=MEAN, std=STD)
    packed = bd.load(tmp_path / "bytes.duo", threads=1)
    assert (packed.input_type, report.deviation) == ("uint8", 0.0)
    np.testing.assert_array_equal(packed(images), bd.load(tmp_path / "floats.duo", threads=1)(x.numpy()))


@pytest.mark.parametrize(("mean", "std"), [(None, None), (0.3, 0.2), (MEAN, 0.25), ((0.0, 1.0, 0.5), STD)])
def test_an_example_may_be_pixels_or_floats(mean, std, tmp_path):
    torch.manual_seed(1)
    model, images = network(), pixels(1)
    floats = normalised(images, *(np.broadcast_to(v, 3) for v in (mean or 0, std or 1)))
    for name, example in (("a", torch.from_numpy(images)), ("b", torch.from_numpy(floats))):
        bd.pack(model, example, tmp_path / name, verbose=False, input="uint8", mean=mean, std=std)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert bd.load(tmp_path / "a").program.ops[0].code == Code.LOOKUP


def test_weights_that_8_bits_hold_lose_nothing_at_the_border_either(isa, tmp_path):
    """Weights on the grid: what is left is the frame, which must count as the mean, no whole number of a pixel."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(3, 20, 5, padding=4, bias=True), nn.ReLU()).eval()
    with torch.no_grad():
        grid = torch.randint(-126, 127, model[0].weight.shape).double()
        grid[:, 0, 0, 0] = 127
        model[0].weight.copy_(grid * torch.tensor(STD).double().view(1, 3, 1, 1) / 100)
    images = pixels(2, seed=3)
    options = {"input": "uint8", "mean": MEAN, "std": STD, "first_layer": "int8"}
    report = bd.pack(model, torch.from_numpy(images[:1]), tmp_path / "net.duo", verbose=False, **options)
    with torch.no_grad():
        wanted = model.double()(torch.from_numpy(normalised(images)).double()).numpy()
    found = bd.load(tmp_path / "net.duo", threads=1)(images)
    assert np.abs(found - wanted).max() < 4e-5 * np.abs(wanted).max()
    assert report.deviation < 4e-5


def test_8_bit_weights_are_as_near_as_promised(isa, tmp_path):
    torch.manual_seed(4)
    model = nn.Sequential(nn.Conv2d(3, 20, 5, padding=2)).eval()
    images = pixels(2, seed=5)
    options = {"input": "uint8", "mean": MEAN, "std": STD, "first_layer": "int8"}
    bd.pack(model, torch.from_numpy(images), tmp_path / "net.duo", verbose=False, **options)
    x = torch.from_numpy(normalised(images)).double()
    weight = model[0].weight.detach().double() / torch.tensor(STD).double().view(1, 3, 1, 1)
    with torch.no_grad():
        wanted = model.double()(x).numpy()
        step = weight.abs().amax((1, 2, 3)) / 127  # in which x · std is multiplied
        reach = nn.functional.conv2d(
            (x * torch.tensor(STD).double().view(1, 3, 1, 1)).abs(),
            torch.ones(1, 3, 5, 5).double(),
            padding=2,
        )
        bound = (reach * step.view(1, -1, 1, 1) / 2).numpy()
    found = bd.load(tmp_path / "net.duo", threads=1)(images)
    difference = np.abs(found - wanted)
    assert (difference <= bound + 1e-4).all()
    assert difference.max() > 1e-4  # they are rounded


def test_every_set_gives_the_same_bits_of_8_bit_layers(tmp_path, monkeypatch):
    torch.manual_seed(6)
    model, images = network(), pixels(2, seed=7)
    options = {"input": "uint8", "mean": MEAN, "std": STD, "float_weights": "int8"}
    bd.pack(model, torch.from_numpy(images[:1]), tmp_path / "net.duo", verbose=False, **options)
    traces = []
    for isa in _native.available().split():
        monkeypatch.setenv("BINARYDUO_ISA", isa)
        traces.append(bd.load(tmp_path / "net.duo", threads=1).trace(images[:1]))
    program = bd.load(tmp_path / "net.duo").program
    for trace in traces[1:]:
        for tensor, one, other in zip(program.tensors, traces[0], trace, strict=True):
            if tensor.kind == Storage.BITS:
                np.testing.assert_array_equal(one, other)


def test_8_bit_weights_on_bits_and_floats(isa, tmp_path):
    """float_weights="int8": the packed model is the model with its weights rounded, which leaves the caller's alone."""
    torch.manual_seed(8)
    model = bd.models.build("vgg7", variant="decoupled", width=0.25, image_size=16).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(2, 3, 16, 16)
    small = bd.pack(model, x[:1], tmp_path / "small.duo", float_weights="int8", verbose=False)
    large = bd.pack(model, x[:1], tmp_path / "large.duo", verbose=False)
    assert small.bytes < 0.35 * large.bytes
    assert small.deviation > 0
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    ops = bd.load(tmp_path / "small.duo").program.ops
    assert all(op.weights.dtype == np.int8 for op in ops if op.code == Code.FLOAT_CONV)
    rounded = bd.models.build("vgg7", variant="decoupled", width=0.25, image_size=16).eval()
    rounded.load_state_dict(before)
    for module in rounded.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            flat = module.weight.data.double().flatten(1)
            step = flat.abs().amax(1, keepdim=True) / 127
            module.weight.data = ((flat / step).round() * step).float().view_as(module.weight)
    bd.pack(rounded, x[:1], tmp_path / "rounded.duo", verbose=False)
    found, wanted = (bd.load(tmp_path / f"{name}.duo", threads=1)(x.numpy()) for name in ("small", "rounded"))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"input": "int8"}, "input must be 'float32' or 'uint8', not 'int8'"),
        ({"mean": 0.5}, "belong to input"),
        ({"first_layer": "int8"}, "needs input"),
        ({"first_layer": "float16"}, "first_layer must be"),
        ({"float_weights": "int4"}, "float_weights must be 'float32', 'float16' or 'int8', not 'int4'"),
        ({"input": "uint8", "std": 0}, "std must be positive"),
        ({"input": "uint8", "mean": [0.1, 0.2]}, "one for each of the 3 channels"),
        ({"input": "uint8", "mean": "grey"}, "one for each of the 3 channels"),
    ],
)
def test_what_does_not_go_together_is_refused(options, sentence, tmp_path):
    with pytest.raises(ArgumentError, match=sentence):
        bd.pack(network(), torch.zeros(1, 3, 12, 13), tmp_path / "net.duo", **options)


def test_other_images_are_refused(tmp_path):
    bd.pack(network(), torch.from_numpy(pixels(1)), tmp_path / "net.duo", verbose=False, input="uint8")
    packed = bd.load(tmp_path / "net.duo", threads=1)
    with pytest.raises(ArgumentError, match="must be of the type uint8"):
        packed(pixels(1).astype(np.float32))
    with pytest.raises(ArgumentError, match="shape"):
        packed(pixels(1)[:, :2])
