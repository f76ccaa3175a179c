"""Operations of the networks people have, through every verb: couple, decouple, cost, profile, pack, ONNX."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import binaryduo as bd
from binaryduo.nn import BinaryConv1d, BinaryConv2d, BinaryLinear, QuantAct


class Gate(nn.Module):
    """Squeeze-and-excitation as it is usually written."""

    def __init__(self, c):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(c, c // 4), nn.ReLU(), nn.Linear(c // 4, c), nn.Sigmoid())

    def forward(self, x):
        b, c, _, _ = x.size()
        y = self.fc(F.adaptive_avg_pool2d(x, 1).view(b, c)).view(b, c, 1, 1)
        return x * y.expand_as(x)


class Move(nn.Module):
    """ReActNet's learned shift."""

    def __init__(self, c):
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(1, c, 1, 1))

    def forward(self, x):
        return x + self.bias.expand_as(x)


class React(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.rsign = nn.Sequential(Move(c), QuantAct())
        self.conv = nn.Sequential(BinaryConv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c))
        self.rprelu = nn.Sequential(Move(c), nn.PReLU(c), Move(c))

    def forward(self, x):
        return self.rprelu(self.conv(self.rsign(x)) + x)


class Up(nn.Module):
    def __init__(self, up, channels):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), QuantAct())
        self.deep = nn.Sequential(
            BinaryConv2d(12, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), QuantAct()
        )
        self.up = nn.Sequential(up, nn.BatchNorm2d(channels), QuantAct())
        self.head = nn.Sequential(BinaryConv2d(12 + channels, 8, 3, padding=1), nn.BatchNorm2d(8))

    def forward(self, x):
        a = self.down(x)
        return self.head(torch.cat([a, self.up(self.deep(a))], 1))


class Resized(nn.Module):
    """An interpolation to another tensor's size, zeros around an image, a crop and a mirror image."""

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8))
        self.act, self.b = QuantAct(), BinaryConv2d(8, 4, 3)

    def forward(self, x):
        y = F.interpolate(self.a(x), size=x.shape[2:], mode="bilinear", align_corners=True)
        y = F.pad(y, (1, 0, 2, 1)) + F.pad(y, (0, 1, 1, 2), mode="reflect")
        return self.b(self.act(y[:, :, 1:9, 1:9].flip(3)))


class Two(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.names = names
        self.f = body(QuantAct(), BinaryConv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), QuantAct())
        self.a, self.b = nn.Linear(16 * 64, 5), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        f = self.f(x)
        a, b = self.a(f.flatten(1)), self.b(f)
        return dict(zip(self.names, (a, b), strict=True)) if self.names else (a, b)


class Parameters(nn.Module):
    """Scales and shifts of one's own, in the ways people write them."""

    def __init__(self):
        super().__init__()
        self.conv, self.act, self.next = nn.Conv2d(3, 8, 3), QuantAct(), BinaryConv2d(8, 8, 3)
        self.scale = nn.Parameter(1 + 0.1 * torch.randn(8, 1, 1))
        self.shift = nn.Parameter(0.1 * torch.randn(8))
        self.bound = nn.Parameter(torch.randn(1, 8, 1, 1))
        self.register_buffer("mean", torch.rand(1, 3, 1, 1))

    def forward(self, x):
        x = self.conv((x - self.mean) / 0.5)
        x = x * torch.sigmoid(self.scale) - self.shift.view(1, -1, 1, 1)
        x = self.next(self.act(x))
        return torch.maximum(x * self.bound, 0.5 - x)


def body(*modules):
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), *modules)


def ended(*modules):
    return body(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


def normed(norm):
    conv = BinaryConv2d(16, 16, 3, padding=1, bias=False)
    first = [nn.Conv2d(3, 16, 3, padding=1), norm(), QuantAct()]
    return nn.Sequential(*first, conv, norm(), QuantAct(), nn.Flatten(), nn.Linear(16 * 64, 10))


def curves():
    layers = []
    for curve in (nn.Hardtanh(), nn.PReLU(16), nn.LeakyReLU(0.1), nn.ELU(), nn.Sigmoid(), nn.Hardsigmoid()):
        layers += [BinaryConv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16), curve, QuantAct()]
    rest = [nn.Hardswish(), nn.SiLU(), nn.GELU(), nn.Mish(), nn.Tanh(), nn.Softplus(), nn.ReLU6()]
    return ended(QuantAct(), *layers, BinaryConv2d(16, 16, 3), *rest)


SHAPE = (4, 3, 8, 8)
NETWORKS = {
    "squeeze and excitation": lambda: ended(
        QuantAct(), BinaryConv2d(16, 16, 3), nn.BatchNorm2d(16), Gate(16)
    ),
    "rsign and rprelu": lambda: ended(React(16), React(16)),
    "nearest": lambda: Up(nn.Upsample(scale_factor=2), 16),
    "bilinear": lambda: Up(nn.Upsample(scale_factor=2, mode="bilinear"), 16),
    "transposed": lambda: Up(nn.ConvTranspose2d(16, 12, 3, 2, 1, output_padding=1), 12),
    "transposed, in groups": lambda: Up(nn.ConvTranspose2d(16, 12, 2, 2, groups=4), 12),
    "resized": Resized,
    "parameters": Parameters,
    "group norm": lambda: normed(lambda: nn.GroupNorm(4, 16)),
    "instance norm": lambda: normed(lambda: nn.InstanceNorm2d(16, affine=True)),
    "layer norm of images": lambda: normed(lambda: nn.LayerNorm([16, 8, 8])),
    "curves": curves,
    "two outputs": lambda: Two(()),
    "named outputs": lambda: Two(("label", "map")),
}


def trained(make, shape=SHAPE):
    """A network whose norms have seen data, so that nothing in it is trivial."""
    torch.manual_seed(0)
    net = make()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
        for _ in range(2):
            net(torch.randn(8, *shape[1:]))
    return net.eval()


def values(output):
    if isinstance(output, torch.Tensor):
        return [output.detach().numpy()]
    return [v.detach().numpy() for v in (output.values() if isinstance(output, dict) else output)]


def packed_agrees(net, x, path):
    bd.pack(net, x, path, verbose=False)
    found = bd.load(path, threads=1).outputs(x.numpy())
    for a, b in zip(found, values(net(x)), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_through_every_verb(name, tmp_path):
    net, x = trained(NETWORKS[name]), torch.randn(SHAPE)
    coupled = bd.couple(net, x)
    assert coupled.coupling.widths
    with torch.no_grad():
        coupled.train()(torch.randn(8, *SHAPE[1:]))
    binary = bd.decouple(coupled.eval(), x)
    assert binary.decoupling.comparison.largest_difference_float64 < 1e-12
    quad = bd.decouple(bd.couple(net, x, topology="quad").eval(), x, topology="quad")
    assert quad.decoupling.comparison.largest_difference_float64 < 1e-12
    assert bd.cost(net, x).macs > 0
    for model in (net, binary):
        packed_agrees(model, x, tmp_path / "net.duo")

    def loss(output, target):
        outputs = values_of(output)
        return sum((o.double() ** 2).mean() for o in outputs)

    if name not in ("two outputs", "named outputs"):
        profile = bd.mismatch.profile(binary, loss, x, torch.zeros(len(x)), coordinates=3)
        assert profile.layers


def values_of(output):
    return [output] if isinstance(output, torch.Tensor) else list(output)


@pytest.mark.parametrize("name", ["rsign and rprelu", "transposed", "two outputs", "named outputs"])
def test_onnx_with_any_number_of_images(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    net = trained(NETWORKS[name])
    bd.export_onnx(net, torch.randn(SHAPE)[:1], tmp_path / "net.onnx")
    session = runtime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    for count in (1, 3, 7):
        x = torch.randn(count, *SHAPE[1:])
        for a, b in zip(session.run(None, {"images": x.numpy()}), values(net(x)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    if name == "named outputs":
        assert [o.name for o in session.get_outputs()] == ["label", "map"]


def test_channels_that_keep_their_groups_and_norms_that_follow():
    net = trained(NETWORKS["group norm"])
    coupled = bd.couple(net, torch.randn(SHAPE))
    assert coupled[1].num_channels == coupled[0].out_channels == len(coupled[1].weight) == 8
    net = trained(NETWORKS["layer norm of images"])
    coupled = bd.couple(net, torch.randn(SHAPE))
    assert coupled[1].weight.shape == (coupled[0].out_channels, 8, 8) == coupled[1].normalized_shape


def test_dense_layer_norm(tmp_path):
    def make():
        hidden = [BinaryLinear(32, 32), nn.LayerNorm(32), nn.Hardswish(), QuantAct()]
        return nn.Sequential(nn.Linear(24, 32), nn.LayerNorm(32), QuantAct(), *hidden, nn.Linear(32, 4))

    net, x = trained(make, (8, 24)), torch.randn(4, 24)
    coupled = bd.couple(net, x)
    assert coupled[1].normalized_shape == (coupled[0].out_features,) == (22,)
    packed_agrees(bd.decouple(coupled.eval(), x), x, tmp_path / "net.duo")


def test_transposed_sequences(tmp_path):
    def make():
        first = [nn.Conv1d(4, 12, 5, padding=2), nn.BatchNorm1d(12), QuantAct()]
        up = [nn.ConvTranspose1d(12, 8, 4, 2, 1), nn.BatchNorm1d(8), QuantAct(), nn.Upsample(scale_factor=2)]
        return nn.Sequential(*first, *up, BinaryConv1d(8, 3, 3, padding=1))

    net, x = trained(make, (4, 4, 16)), torch.randn(4, 4, 16)
    coupled = bd.couple(net, x)
    assert "3" in coupled.coupling.widths
    binary = bd.decouple(coupled.eval(), x)
    assert binary.decoupling.comparison.largest_difference_float64 < 1e-12
    for model in (net, binary):
        packed_agrees(model, x, tmp_path / "net.duo")


REFUSED = {
    "GRU": lambda: nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), QuantAct(), nn.GRU(16, 8, batch_first=True)),
    "bicubic": lambda: body(QuantAct(), nn.Upsample(scale_factor=2, mode="bicubic")),
    "LayerNorm": lambda: body(nn.LayerNorm(8), QuantAct(), BinaryConv2d(16, 4, 1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_packed_is_named(name, tmp_path):
    x = torch.randn(2, 4, 16) if name == "GRU" else torch.randn(SHAPE)
    with pytest.raises(
        bd.BinaryDuoError, match=r"module '\d+' \((GRU|Upsample|LayerNorm)\) cannot be packed"
    ):
        bd.pack(REFUSED[name]().eval(), x, tmp_path / "net.duo", verbose=False)
    assert not (tmp_path / "net.duo").exists()
