"""cost: Table 2, against counts that are written out by hand."""

import pytest
import torch
from torch import nn

import binaryduo as bd
from binaryduo.graph.analysis import analyse
from binaryduo.transform.decoupling import _transform

# One layer: (inputs, outputs, kernel's side, places of its output, binary)
Layer = tuple[int, int, int, int, bool]


def count(layers: list[Layer], others: int) -> tuple[int, int, int]:
    """Bits of parameters (`others` of them beside the weights, 32 bits each), all MACs, binary MACs."""
    bits = sum(i * o * k * k * (1 if one_bit else 32) for i, o, k, _, one_bit in layers) + 32 * others
    macs = sum(i * o * k * k * places for i, o, k, places, _ in layers)
    return bits, macs, sum(i * o * k * k * places for i, o, k, places, one_bit in layers if one_bit)


def alexnet(widths: tuple[int, ...], copies: int) -> tuple[list[Layer], int]:
    a, b, c, d, e, f, g = widths
    layers = [
        (3, a, 11, 55 * 55, False),
        (copies * a, b, 5, 27 * 27, True),
        (copies * b, c, 3, 13 * 13, True),
        (copies * c, d, 3, 13 * 13, True),
        (copies * d, e, 3, 13 * 13, True),
        (copies * e * 6 * 6, f, 1, 1, True),
        (copies * f, g, 1, 1, True),
        (g, 1000, 1, 1, False),
    ]
    return layers, 2 * (copies * (a + b + c + d + e + f) + g)


def resnet18(stages: tuple[int, ...], last: int, copies: int) -> tuple[list[Layer], int]:
    """The stream is copied, each shortcut's convolution and BN are computed once, and the last BN is single."""
    layers: list[Layer] = [(3, 64, 7, 112 * 112, False)]
    norms, before = 64 + copies * 64, 64
    for stage, width in enumerate(stages):
        places = (56 // 2**stage) ** 2
        final = stage == 3
        layers += [(copies * before, width, 3, places, True), (copies * width, width, 3, places, True)]
        layers += [(copies * width, width, 3, places, True)]
        layers += [(copies * width, last if final else width, 3, places, True)]
        norms += copies * 3 * width + (last if final else copies * width)
        if stage > 0:
            layers.append((before, width, 1, places, False))
            norms += width
        before = width
    return [*layers, (last, 1000, 1, 1, False)], 2 * norms + 1000


HAND = {
    ("alexnet", "baseline"): (*alexnet((96, 256, 384, 384, 256, 4096, 4096), 1), 191, 126),
    ("alexnet", "decoupled"): (*alexnet((88, 192, 256, 256, 192, 2400, 4096), 2), 189, 119),
    ("resnet18", "baseline"): (*resnet18((64, 128, 256, 512), 512, 1), 33.5, 164),
    ("resnet18", "decoupled"): (*resnet18((64, 90, 180, 360), 512, 2), 31.9, 164),
}


@pytest.mark.parametrize(("name", "variant"), HAND)
def test_table_2(name: str, variant: str) -> None:
    layers, others, mbit, ops = HAND[name, variant]
    x = bd.models.example_input(name).to("meta")  # shapes alone: AlexNet has 60 million weights
    with torch.device("meta"):
        model = bd.models.build(name, "baseline" if variant == "baseline" else "coupled")
        if variant == "decoupled":
            model, _ = _transform(analyse(model, x), "duo", rewrite=False)
    cost = bd.cost(model, x)
    bits, macs, binary = count(layers, others)
    assert (cost.macs, cost.binary_macs) == (macs, binary)
    assert cost.param_bits == bits
    digits = 0 if mbit > 100 else 1
    assert round(cost.param_bits / 1e6, digits) == mbit
    assert round(cost.ops / 1e6) == ops
    assert cost.params == sum(p.numel() for p in model.parameters())


def test_one_image_whatever_the_batch() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.Flatten(2), nn.Linear(16, 2), nn.Flatten(0, 1), nn.Linear(2, 3)
    )
    one, many = (bd.cost(net, torch.zeros(n, 3, 4, 4)) for n in (1, 7))
    assert one == many
    assert one.macs == 3 * 4 * 9 * 16 + 4 * 16 * 2 + 4 * 2 * 3


def test_grouped_transposed_and_one_dimensional_layers() -> None:
    net = nn.Sequential(nn.Conv2d(4, 8, 3, groups=4), nn.ConvTranspose2d(8, 2, 2, stride=2))
    cost = bd.cost(net, torch.zeros(1, 4, 6, 6))
    assert [layer.macs for layer in cost.layers] == [8 * 1 * 9 * 16, 8 * 2 * 4 * 16]
    line = bd.cost(nn.Conv1d(2, 3, 5), torch.zeros(1, 2, 10))
    assert line.macs == 2 * 3 * 5 * 6


def test_a_mac_is_binary_where_weight_and_activation_are() -> None:
    def binary_macs(*modules: nn.Module) -> int:
        return bd.cost(nn.Sequential(*modules), torch.zeros(1, 4, 4, 4)).binary_macs

    act, layer = bd.nn.QuantAct(), bd.nn.BinaryConv2d(4, 2, 1)
    assert binary_macs(act, layer) == 4 * 2 * 16
    assert binary_macs(layer) == 0
    assert binary_macs(act, nn.Conv2d(4, 2, 1)) == 0
    assert binary_macs(bd.nn.QuantAct(3), layer) == 0
    assert binary_macs(act, nn.MaxPool2d(2), layer) == 4 * 2 * 4
    assert binary_macs(act, nn.AvgPool2d(2), layer) == 0
    assert binary_macs(act, nn.ReLU(), layer) == 0
    assert binary_macs(act, nn.Flatten(), bd.nn.BinaryLinear(64, 3)) == 64 * 3


def test_conventions_and_table() -> None:
    with torch.device("meta"):
        cost = bd.cost(bd.models.build("alexnet"), bd.models.example_input("alexnet").to("meta"))
    named = cost.conventions()
    floats = cost.macs - cost.binary_macs
    assert named["MACs, binary or not"] == cost.macs
    assert named["FLOPs + BOPs/64, MAC as one (Bi-Real-Net, Table 2)"] == floats + cost.binary_macs / 64
    assert (
        named["OPs = FLOPs + BOPs/64, MAC as two (ReActNet)"]
        == 2 * named["FLOPs + BOPs/64, MAC as one (Bi-Real-Net, Table 2)"]
    )
    table = str(cost)
    assert "191.0 Mbit" in table
    assert "classifier" in table
    assert len(table.splitlines()) == len(cost.layers) + 5
