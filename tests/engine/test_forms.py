"""What users write in other forms than the engine's: groups, holes, zeros around an image, parts of the channels."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import binaryduo as bd
from binaryduo.engine.program import Code
from binaryduo.errors import GraphError
from binaryduo.nn import BinaryConv2d, QuantAct
from tests.engine.test_pack import check_pack, trained_like


def behind_bits(*layers):
    """The layers between a first one that makes 16 channels of bits and a dense last one."""
    first = (nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), QuantAct())
    last = (nn.LazyBatchNorm2d(), QuantAct(), nn.Flatten(), nn.LazyLinear(5))
    model = nn.Sequential(*first, *layers, *last)
    model(torch.randn(2, 3, 11, 10))
    return trained_like(model)


FORMS = {
    "two groups of bits": lambda: [BinaryConv2d(16, 24, 3, padding=1, groups=2)],
    "a depthwise layer of bits": lambda: [BinaryConv2d(16, 16, 3, stride=2, groups=16, bias=False)],
    "groups of floats": lambda: [nn.Conv2d(16, 24, 3, padding=1, groups=4)],
    "holes": lambda: [nn.Conv2d(16, 8, 3, padding=2, dilation=2)],
    "holes and groups": lambda: [nn.Conv2d(16, 8, (3, 2), padding="same", dilation=(1, 2), groups=2)],
    "zeros around": lambda: [nn.ZeroPad2d((1, 1, 2, 2)), BinaryConv2d(16, 8, 3)],
    "zeros around, and holes": lambda: [nn.ZeroPad2d(1), nn.Conv2d(16, 8, 3, padding=1, dilation=2)],
    "more zeros on one side": lambda: [BinaryConv2d(16, 8, (2, 3), padding="same")],
    "holes, more zeros on one side": lambda: [nn.Conv2d(16, 8, (4, 1), padding="same", dilation=(3, 1))],
    "mirrored": lambda: [BinaryConv2d(16, 8, 3, padding=(1, 2), stride=2, padding_mode="reflect")],
    "mirrored floats": lambda: [nn.Conv2d(16, 8, 3, padding=1, padding_mode="reflect")],
    "edges repeated": lambda: [BinaryConv2d(16, 24, 3, padding=2, padding_mode="replicate", groups=2)],
    "the other side": lambda: [nn.Conv2d(16, 8, 3, padding="same", dilation=2, padding_mode="circular")],
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", FORMS)
def test_convolutions(name, tmp_path):
    torch.manual_seed(0)
    model = behind_bits(*FORMS[name]())
    size = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
    packed, loaded, agree = check_pack(model, torch.randn(8, 3, 11, 10), tmp_path / "net.duo")
    assert agree.mean() >= 0.75
    assert packed.model_bytes == size  # the user's model, not the rewritten one
    one_bit = any(isinstance(m, BinaryConv2d) for m in model.modules())
    assert one_bit == any(op.code == Code.BINARY_CONV for op in loaded.program.ops)


class Parts(nn.Module):
    """A one-bit layer on some channels, the others beside it."""

    CUTS = (
        lambda x: x.chunk(2, 1),
        lambda x: torch.chunk(x, chunks=2, dim=1),
        lambda x: torch.split(x, [8, 8], 1),
        lambda x: x.split(8, dim=1),
        lambda x: torch.split(x, split_size_or_sections=8, dim=1),
        lambda x: x.chunk(2, dim=-3),
        lambda x: x.split(x.shape[1] // 2, 1),
        lambda x: torch.split(x, [x.size(1) // 2, x.size(1) // 2], 1),
        lambda x: (x.chunk(4, 1)[0], x.chunk(2, 1)[1]),
    )

    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        self.first, self.norm, self.act = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), QuantAct()
        self.second, self.norm2, self.act2 = BinaryConv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), QuantAct()
        self.last = nn.LazyLinear(3)

    def forward(self, x):
        a, b = self.CUTS[self.cut](self.act(self.norm(self.first(F.pad(x, (1, 1, 1, 1))))))
        return self.last(torch.cat([a, self.act2(self.norm2(self.second(b)))], 1).flatten(1))


@pytest.mark.parametrize("cut", range(len(Parts.CUTS)))
def test_parts_of_the_channels(cut, tmp_path):
    torch.manual_seed(0)
    model = Parts(cut)
    model(torch.randn(2, 3, 6, 6))
    _, loaded, agree = check_pack(trained_like(model), torch.randn(8, 3, 6, 6), tmp_path / "net.duo")
    assert agree.mean() >= 0.75
    assert any(op.code == Code.BINARY_CONV for op in loaded.program.ops)


@pytest.mark.parametrize(
    "layers",
    [
        [nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(16, 8, 3)],
        [nn.ZeroPad2d(1), nn.MaxPool2d(2)],
        [nn.ReflectionPad2d(2), BinaryConv2d(16, 8, 3)],
    ],
)
def test_other_pixels(layers, tmp_path):
    torch.manual_seed(0)
    _, _, agree = check_pack(behind_bits(*layers).eval(), torch.randn(8, 3, 11, 10), tmp_path / "net.duo")
    assert agree.mean() >= 0.75


@pytest.mark.parametrize("name", ["two groups of bits", "zeros around", "zeros around, groups of floats"])
def test_decoupled(name, tmp_path):
    torch.manual_seed(0)
    padded = [nn.ZeroPad2d(1), nn.Conv2d(16, 8, 3, groups=2)]
    layers = FORMS[name]() if name in FORMS else padded
    model = behind_bits(*layers, nn.BatchNorm2d(layers[-1].out_channels), QuantAct())
    x = torch.randn(8, 3, 11, 10)
    binary = bd.decouple(bd.couple(model, x), x).eval()
    _, _, agree = check_pack(binary, x, tmp_path / "net.duo")
    assert agree.mean() >= 0.75


def test_one_bit_weights_with_holes_are_refused(tmp_path):
    layer = BinaryConv2d(16, 8, 3, padding=2, dilation=2)
    with pytest.raises(GraphError, match=r"'3' \(BinaryConv2d\) cannot be packed: .* dilation"):
        bd.pack(behind_bits(layer), torch.randn(1, 3, 11, 10), tmp_path / "net.duo")
    assert not (tmp_path / "net.duo").exists()


def test_casts_to_float_are_nothing(tmp_path):
    class Casting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = behind_bits(BinaryConv2d(16, 8, 3))

        def forward(self, x):
            x = self.inner[:3](x.float())
            return self.inner[3:](x.to(torch.float32)).type(torch.float32)

    torch.manual_seed(0)
    _, _, agree = check_pack(Casting().eval(), torch.randn(8, 3, 11, 10), tmp_path / "net.duo")
    assert agree.mean() >= 0.75


class Small(nn.Module):
    """A float part that a test puts in front of a binary one."""

    def __init__(self, front, **parts):
        super().__init__()
        self.front = front
        for name, part in parts.items():
            setattr(self, name, part)
        self.first, self.norm, self.relu = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
        )
        self.mix, self.act, self.last = nn.Conv2d(8, 8, 1), QuantAct(), nn.Linear(8 * 36, 3)

    def forward(self, x):
        return self.last(self.act(self.front(self, self.norm(self.first(x)))).flatten(1))


def relu_behind_a_cast(net, y):
    out = net.relu(y.float())  # changes y too
    return net.mix(out) + y


def add_behind_a_cast(net, y):
    out = y.to(torch.float32)
    out += 1
    return net.mix(y)


@pytest.mark.parametrize("front", [relu_behind_a_cast, add_behind_a_cast])
def test_a_change_in_place_behind_a_cast_is_not_lost(front, tmp_path):
    torch.manual_seed(0)
    model = trained_like(Small(front))
    try:
        _, _, agree = check_pack(model, torch.randn(8, 3, 6, 6), tmp_path / "net.duo")
    except GraphError as error:
        assert "changed in place under two names" in str(error)  # noqa: PT017
    else:
        assert agree.mean() >= 0.75


@pytest.mark.parametrize(
    ("layer", "front"),
    [
        (nn.Conv2d(8, 8, 3, padding=2, dilation=2), lambda net, y: net.c_dense_0(net.c(y))),
        (nn.Conv2d(8, 8, 3, padding=1, groups=2), lambda net, y: net.c_group_0(net.c(y))),
        (nn.Conv2d(8, 8, 3), lambda net, y: net.c_padded_0(net.c(F.pad(y, (1, 1, 1, 1))))),
    ],
)
def test_names_of_the_user_s_stay_his(layer, front, tmp_path):
    torch.manual_seed(0)
    names = {name: nn.Conv2d(8, 8, 3, padding=1) for name in ("c_dense_0", "c_group_0", "c_padded_0")}
    model = trained_like(Small(front, c=layer, c_dense=True, c_padded="text", **names))
    _, _, agree = check_pack(model, torch.randn(8, 3, 6, 6), tmp_path / "net.duo")
    assert agree.mean() >= 0.75


def test_an_input_may_be_called_chunk(tmp_path):
    class Named(nn.Sequential):
        def forward(self, chunk):
            return super().forward(chunk[:, :2])

    model = trained_like(
        Named(nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), QuantAct(), nn.Flatten(), nn.Linear(128, 3))
    )
    _, _, agree = check_pack(model, torch.randn(8, 3, 6, 6), tmp_path / "net.duo")
    assert agree.mean() >= 0.75


def test_a_weight_that_is_computed_is_refused_by_name(tmp_path):
    with pytest.warns(FutureWarning):
        model = nn.Sequential(nn.utils.weight_norm(nn.Conv2d(3, 8, 3)), nn.BatchNorm2d(8), QuantAct()).eval()
    with pytest.raises(GraphError, match="weight_norm"):
        bd.pack(model, torch.randn(1, 3, 6, 6), tmp_path / "net.duo")


def shuffled(x, groups=2):
    n, c, h, w = x.size()
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)


def in_another_order(net, y):
    return net.mix(shuffled(net.act(net.c(shuffled(net.act(y), 4)))))


def test_a_channel_shuffle(tmp_path):
    torch.manual_seed(0)
    model = trained_like(Small(in_another_order, c=BinaryConv2d(8, 8, 3, padding=1, groups=2)))
    _, _, agree = check_pack(model, torch.randn(8, 3, 6, 6), tmp_path / "net.duo")
    assert agree.mean() >= 0.75


@pytest.mark.parametrize(
    "front",
    [
        lambda net, y: y.view(-1, 8, 6, 6).transpose(2, 3).reshape(-1, 8, 6, 6),  # turns the image
        lambda net, y: y.view(y.size(0), 8, 4, 9).transpose(1, 2).reshape(y.size(0), 8, 6, 6),  # mixes pixels
    ],
)
def test_moves_of_pixels_are_refused(front, tmp_path):
    with pytest.raises(GraphError, match="cannot be packed"):
        bd.pack(trained_like(Small(front)), torch.randn(2, 3, 6, 6), tmp_path / "net.duo")


def test_a_slice_of_parts_is_refused(tmp_path):
    def front(net, y):
        return torch.cat(y.chunk(4, 1)[1:] + y.chunk(4, 1)[:1], 1)

    with pytest.raises(GraphError, match="cannot be packed"):
        bd.pack(trained_like(Small(front)), torch.randn(2, 3, 6, 6), tmp_path / "net.duo")


def shuffled_part(net, y):
    first, second = net.c(net.act(y)).chunk(
        2, 1
    )  # a grouped layer, its parts, and their order, all rewritten
    return net.mix(torch.cat([shuffled(second), first], 1))


def test_forms_behind_forms(tmp_path):
    torch.manual_seed(0)
    model = trained_like(Small(shuffled_part, c=BinaryConv2d(8, 8, 3, padding=1, groups=2)))
    _, _, agree = check_pack(model, torch.randn(8, 3, 6, 6), tmp_path / "net.duo")
    assert agree.mean() >= 0.75


def test_inputs_and_modules_may_have_the_names_of_methods(tmp_path):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.split, self.view, self.last = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8 * 16, 3)
            self.flatten, self.act = nn.Identity(), QuantAct()

        def forward(self, flatten):
            y = self.flatten(self.view(self.split(flatten)))
            return self.last(self.act(y[:, :8]).flatten(1))

    torch.manual_seed(0)
    _, _, agree = check_pack(trained_like(Named()), torch.randn(8, 3, 6, 6), tmp_path / "net.duo")
    assert agree.mean() >= 0.75
