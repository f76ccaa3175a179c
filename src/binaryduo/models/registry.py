"""Networks by name, and the variants that are derived from them.

The baseline is a width table. The coupled variant is found by `couple`, except for AlexNet and the ResNets at
three levels, whose widths the authors chose by hand. The decoupled variant always comes from `decouple`.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from binaryduo.errors import ArgumentError, unknown_name
from binaryduo.models import alexnet, mlp, resnet, vgg7
from binaryduo.models.layers import Maker, Quantization
from binaryduo.nn import QuantAct, draw_weights, initialise
from binaryduo.nn.activation import check_interval
from binaryduo.nn.copies import shifts
from binaryduo.nn.intervals import Interval
from binaryduo.ste import STE, check_levels
from binaryduo.transform.carrying import Topology
from binaryduo.transform.coupling import couple
from binaryduo.transform.decoupling import decouple

Variant = Literal["baseline", "coupled", "decoupled"]
Start = Literal["fresh", "derived", "shifted"]
VARIANTS: tuple[Variant, ...] = ("baseline", "coupled", "decoupled")


@dataclass(frozen=True)
class Network:
    """What is known of a network: how to make it, its widths, and the data it was made for."""

    make: Maker
    baseline: tuple[int, ...]
    coupled: tuple[int, ...] | None  # for three levels; None: by `couple`
    weight_bits: int
    num_classes: int
    in_channels: int
    image_size: int


NETWORKS = {
    "vgg7": Network(vgg7.VGG7, vgg7.BASELINE, None, 32, 10, 3, 32),
    "alexnet": Network(alexnet.AlexNet, alexnet.BASELINE, alexnet.COUPLED, 1, 1000, 3, 224),
    "resnet18": Network(resnet.ResNet18, resnet.BASELINE, resnet.COUPLED, 1, 1000, 3, 224),
    "resnet18-sc": Network(
        partial(resnet.ResNet18, extra=True), resnet.BASELINE, resnet.COUPLED, 1, 1000, 3, 224
    ),
    "resnet18-sc-small": Network(
        partial(resnet.ResNet18, extra=True, small=True), resnet.BASELINE, resnet.COUPLED, 1, 10, 3, 32
    ),
    "mlp": Network(mlp.MLP, mlp.BASELINE, None, 32, 10, 1, 28),
}


def names() -> list[str]:
    """The networks that `build` knows.

    >>> names()
    ['vgg7', 'alexnet', 'resnet18', 'resnet18-sc', 'resnet18-sc-small', 'mlp']
    """
    return list(NETWORKS)


def _network(name: str) -> Network:
    if name not in NETWORKS:
        raise unknown_name("network", name, names())
    return NETWORKS[name]


def example_input(
    name: str, in_channels: int | None = None, image_size: int | None = None, batch: int = 1
) -> Tensor:
    """A batch of random images of the size that the network is made for. Shape (batch, C, H, W).

    >>> example_input("vgg7").shape
    torch.Size([1, 3, 32, 32])
    """
    network = _network(name)
    channels = network.in_channels if in_channels is None else in_channels
    size = network.image_size if image_size is None else image_size
    return torch.rand(batch, channels, size, size, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def shift_biases(model: nn.Module) -> nn.Module:
    """Add ±1/4 in turn to the biases of every BN that stands right before an activation, in place.

    >>> net = shift_biases(build("mlp", width=0.01))
    >>> net.hidden[1].bias[:3].tolist()
    [0.25, -0.25, 0.25]
    """
    found = list(model.modules())
    for norm, behind in pairwise(found):
        if isinstance(norm, nn.modules.batchnorm._BatchNorm) and isinstance(behind, QuantAct):
            norm.bias[0::2] += shifts(2)[0]
            norm.bias[1::2] += shifts(2)[1]
    return model


def build(
    name: str,
    variant: Variant = "baseline",
    num_classes: int | None = None,
    levels: int | Literal["default"] | None = "default",
    ste: "str | STE" = "relu1",
    weight_bits: Literal[1, 32] | None = None,
    width: float = 1.0,
    in_channels: int | None = None,
    image_size: int | None = None,
    topology: Topology = "duo",
    start: Start = "fresh",
    interval: Interval | None = None,
) -> nn.Module:
    """A network by name, freshly initialised.

    `levels` is 2 for the baseline and 3 for the coupled network unless given; for the decoupled variant it is
    the coupled network's, and None is full precision everywhere. `weight_bits` is 32 for vgg7 and mlp, 1 for
    the others (first, last and shortcut layers stay float). `width` multiplies every hidden width.
    `topology="quad"` couples and decouples as BinaryDuo-Q does.

    The decoupled variant starts `fresh`: its topology with every weight drawn anew by He's rule, the biases of BN
    keeping their shifts (±1/4). With `start="derived"` it is the decoupling of a fresh coupled network instead, in
    which both halves of every weight are identical and 1/√2 of He's deviation. A baseline with `start="shifted"` has
    biases of BN that alternate ±1/4 in front of its activations, as a decoupled network's copies do.

    `interval` ("layer" or "channel") lets the activations learn their thresholds, from where fixed ones are. In a
    decoupled network they are part of BN's biases, so there it only says what the coupled network was like.

    >>> net = build("vgg7", variant="coupled")
    >>> [m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)]
    [45, 45, 90, 90]
    """
    network = _network(name)
    if variant not in VARIANTS:
        raise unknown_name("variant", variant, list(VARIANTS))
    allowed = {"baseline": ["fresh", "shifted"], "coupled": ["fresh"], "decoupled": ["fresh", "derived"]}
    if start not in allowed[variant]:
        raise unknown_name(f"start of a {variant} network", start, allowed[variant])
    if levels == "default":
        levels = 2 if variant == "baseline" else 3
    if levels is not None:
        check_levels(levels)
        if levels == 2 and variant != "baseline":
            raise ArgumentError(f"a {variant} network has levels of 3 or more, not 2: 2 is the baseline")
    elif variant == "decoupled":
        raise ArgumentError("a full-precision network (levels=None) has no activations to decouple")
    check_interval(interval, levels)
    weight_bits = network.weight_bits if weight_bits is None else weight_bits  # type: ignore[assignment]
    if weight_bits not in (1, 32):
        raise ArgumentError(f"weight_bits must be 1 or 32, not {weight_bits!r}")
    if not 0 < width < float("inf"):
        raise ArgumentError(f"width must be a positive number, not {width!r}")
    classes = network.num_classes if num_classes is None else num_classes
    channels = network.in_channels if in_channels is None else in_channels
    size = network.image_size if image_size is None else image_size
    for what, number in (("num_classes", classes), ("in_channels", channels), ("image_size", size)):
        if number < 1:
            raise ArgumentError(f"{what} must be 1 or more, not {number!r}")
    example = example_input(name, channels, size)

    def make(widths: tuple[int, ...], count: int | None) -> nn.Module:
        scaled = tuple(max(1, round(w * width)) for w in widths)
        quantization = Quantization(count, ste, weight_bits, interval if count is not None else None)
        made = initialise(network.make(scaled, quantization, classes, channels, size))
        if interval == "channel":
            with torch.no_grad():
                made.eval()(example)  # which tells the activations how many channels there are
        return made.train()

    if variant == "baseline":
        baseline = make(network.baseline, levels)
        return shift_biases(baseline) if start == "shifted" else baseline
    if network.coupled is not None and levels in (3, None) and topology == "duo":
        coupled = make(network.coupled, levels)
    elif levels is None:  # the coupled widths at full precision
        coupled = couple(make(network.baseline, 2), example, 3, topology, init="he")
        for module in coupled.modules():
            if isinstance(module, QuantAct):
                module.set_levels(None)
    else:
        coupled = couple(make(network.baseline, 2), example, levels, topology, init="he")
    if variant == "coupled":
        return coupled
    decoupled = decouple(coupled, example, topology)
    return decoupled if start == "derived" else draw_weights(decoupled)
