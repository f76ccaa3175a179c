"""Random networks of which every sum is exact in float32: weights, inputs and statistics are small multiples of powers
of two. So there is no rounding to hide behind: PyTorch, the packed file on every instruction set and, for three or five
levels, the decoupled network give the same numbers, bit by bit, and values lie on thresholds all the time.
"""

import random
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import binaryduo as bd
from binaryduo.nn import BinaryConv1d, BinaryConv2d, BinaryLinear, QuantAct

CONV = {1: nn.Conv1d, 2: nn.Conv2d}
ONE_BIT = {1: BinaryConv1d, 2: BinaryConv2d}
NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d}
LARGEST, AVERAGE = {1: nn.MaxPool1d, 2: nn.MaxPool2d}, {1: nn.AvgPool1d, 2: nn.AvgPool2d}
WIDTHS = [1, 2, 3, 5, 7, 8, 9, 17, 33, 45]
LAYERS = (nn.Conv1d, nn.Conv2d, nn.Linear, nn.ConvTranspose1d, nn.ConvTranspose2d)

Pair = namedtuple("Pair", "label place")


@dataclass
class Found:
    label: Tensor
    place: Tensor


def multiples(shape: Any, step: float, low: int, high: int, g: torch.Generator) -> Tensor:
    return torch.randint(low, high + 1, tuple(shape), generator=g) * step


@torch.no_grad()
def make_exact(model: nn.Module, seed: int) -> nn.Module:
    """Draw all that a network computes with anew, so that float32 loses nothing."""
    g = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, LAYERS):
            signs = 2 * torch.randint(0, 2, module.weight.shape, generator=g) - 1
            drawn = multiples(module.weight.shape, 1 / 8, -4, 4, g)
            module.weight.copy_(signs / 4 if bd.nn.is_binary_weight(module) else drawn)
            if module.bias is not None:
                module.bias.copy_(multiples(module.bias.shape, 1 / 8, -8, 8, g))
        elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.eps, shape = 0.0, module.running_mean.shape
            module.running_mean.copy_(multiples(shape, 1 / 8, -8, 8, g))
            module.running_var.copy_(4.0 ** torch.randint(-1, 3, shape, generator=g))
            if module.affine:  # of both signs, and zero
                sizes = 2.0 ** torch.randint(-2, 2, shape, generator=g)
                module.weight.copy_(sizes * torch.randint(-1, 3, shape, generator=g).clamp(-1, 1))
                module.bias.copy_(multiples(shape, 1 / 8, -4, 8, g))
        elif isinstance(module, nn.PReLU):
            module.weight.copy_(multiples(module.weight.shape, 1 / 4, 0, 3, g))
        elif isinstance(module, QuantAct) and module.offsets is not None:
            module.offsets.copy_(multiples(module.offsets.shape, 1 / 16, -2, 2, g))
        elif isinstance(module, Shifted):
            module.shift.copy_(multiples(module.shift.shape, 1 / 4, -4, 4, g))
    return model


class Make:
    """Random modules for sequences (dims=1) or images (dims=2)."""

    def __init__(self, rng: random.Random, dims: int) -> None:
        self.rng, self.dims = rng, dims

    def width(self) -> int:
        return self.rng.choice(WIDTHS)

    def layer(self, before: int, after: int, kernel: int = 3, **more: Any) -> nn.Module:
        kind = (ONE_BIT if self.rng.random() < 0.6 and "dilation" not in more else CONV)[self.dims]
        if kernel > 1 and "padding" not in more:
            plain = more.get("stride", 1) == 1 and kernel % 2 == 1
            more["padding"] = "same" if plain and self.rng.random() < 0.3 else kernel // 2
            if self.rng.random() < 0.15 and kernel == 3:
                more["padding_mode"] = self.rng.choice(["replicate", "circular"])
        return kind(before, after, kernel, bias=self.rng.random() < 0.5, **more)

    def norm(self, width: int) -> nn.Module:
        affine = self.rng.random() < 0.85
        return NORM[self.dims](width, affine=affine) if self.rng.random() < 0.65 else nn.Identity()

    def curve(self, width: int) -> nn.Module:
        curves = [nn.ReLU(inplace=True), nn.ReLU6(), nn.PReLU(width), nn.PReLU(), nn.LeakyReLU(0.25)]
        return self.rng.choice([*curves, nn.Hardtanh(-2, 0.5), nn.Identity()])

    def pool(self) -> nn.Module:
        largest, average, ceil = LARGEST[self.dims], AVERAGE[self.dims], self.rng.random() < 0.5
        return self.rng.choice([largest(2, ceil_mode=ceil), largest(3, 2, 1), largest(2, 3), average(2, 1)])


class Chain(nn.Module):
    """Layer, BN, curve, pool and activation in many orders, kept in a list or a dictionary."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        rng, self.out = make.rng, make.width()
        parts = [make.layer(width, self.out, rng.choice([1, 2, 3])), make.norm(self.out)]
        parts.insert(rng.randint(1, 2), make.curve(self.out))
        parts.insert(rng.randint(1, 3), make.pool())
        parts.append(QuantAct())
        named = {f"part{number}": part for number, part in enumerate(parts)}
        self.parts = nn.ModuleDict(named) if rng.random() < 0.5 else nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts.values() if isinstance(self.parts, nn.ModuleDict) else self.parts:
            x = part(x)
        return x


class Grown(nn.Module):
    """A dense block: each layer reads all before it."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        more, self.first = make.rng.choice([1, 3, 8]), make.rng.random() < 0.5
        self.steps = nn.ModuleList()
        self.out = width
        for _ in range(make.rng.randint(1, 3)):
            norm = make.norm(self.out if self.first else more)
            self.steps.append(nn.ModuleList([norm, QuantAct(), make.layer(self.out, more)]))
            self.out += more

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for norm, act, layer in self.steps:
            y = torch.cat(found, 1)
            found.append(layer(act(norm(y))) if self.first else norm(layer(act(y))))
        return torch.cat(found, dim=1)


class Residual(nn.Module):
    """A stream that is added to, subtracted from, compared with or cut out of a concatenation."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        self.style = make.rng.choice(["add", "in place", "subtract", "largest", "half", "cut", "narrow"])
        self.out, between, self.part = width, make.width(), make.rng.randint(1, width)
        self.act1, self.layer1, self.norm1 = QuantAct(), make.layer(width, between, 1), make.norm(between)
        self.act2, self.layer2, self.norm2 = QuantAct(), make.layer(between, width), make.norm(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.layer2(self.act2(self.norm1(self.layer1(self.act1(x))))))
        if self.style == "in place":
            y += x
            return y
        if self.style in ("cut", "narrow"):
            both = torch.cat([x[:, : self.part], y], 1)
            return both[:, : x.shape[1]] if self.style == "cut" else both.narrow(1, 0, x.size(1))
        if self.style == "largest":
            return torch.maximum(x, y)
        if self.style == "subtract":
            return y - x
        return x + y if self.style == "add" else x + 0.5 * y


class Grouped(nn.Module):
    """Groups, a shuffle of channels, groups again; a gate on all of it."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        sizes = [n for n in range(1, width + 1) if width % n == 0]
        self.out, self.groups = width, make.rng.choice(sizes)
        self.act1, self.layer1 = QuantAct(), make.layer(width, width, groups=self.groups)
        self.norm, self.act2 = make.norm(width), QuantAct()
        self.layer2 = make.layer(width, width, 1, groups=make.rng.choice(sizes))
        self.gate, self.gated = CONV[make.dims](width, width, 1), make.rng.random() < 0.4

    def forward(self, x: Tensor) -> Tensor:
        x = self.act2(self.norm(self.layer1(self.act1(x))))
        n, c, *pixels = x.shape
        x = x.view(n, self.groups, c // self.groups, *pixels).transpose(1, 2).reshape(n, c, *pixels)
        y = self.layer2(x)
        if not self.gated:
            return y
        return y * self.gate(y.amax(tuple(range(2, y.dim())), keepdim=True)).clamp(0, 1)


class Down(nn.Module):
    """Down and up again, cut to the size of what it is put beside, in strides and with holes."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        rng, between, self.out = make.rng, make.width(), make.width()
        holes = {"dilation": 2, "padding": 2} if rng.random() < 0.3 else {}
        self.down = nn.Sequential(
            LARGEST[make.dims](2), make.layer(width, between), make.norm(between), QuantAct()
        )
        up = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d}[make.dims]
        self.up = up(between, between, 2, 2) if rng.random() < 0.4 else nn.Upsample(scale_factor=2)
        self.act, self.norm = QuantAct() if rng.random() < 0.5 else nn.Identity(), make.norm(self.out)
        self.mix = make.layer(width + between, self.out, stride=rng.choice([1, 2]), **holes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(x)
        y = self.up(self.down(x))
        x = x[:, :, : y.size(2)][..., : y.shape[-1]]  # an odd number of rows and columns came back one short
        return self.norm(self.mix(torch.cat([x, y], 1)))


class Shifted(nn.Module):
    """A learned number for each channel before the activation; two branches with one activation behind it."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(width, *[1] * make.dims))
        self.turned, self.act, self.again = make.rng.random() < 0.3, QuantAct(), QuantAct()
        left, right = make.width(), make.width()
        self.left, self.right = make.layer(width, left), make.layer(width, right, 1)
        self.out = left + right

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.shift - x if self.turned else x + self.shift)
        return torch.cat([self.again(self.left(x)), self.again(self.right(x))], 1)


class ExactNet(nn.Module):
    """A stem, some of the parts above, and a head with one output or two, in any container."""

    PARTS = (Chain, Chain, Grown, Residual, Residual, Grouped, Down, Shifted)

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.dims = rng.choice([1, 2, 2])
        make, width = Make(rng, self.dims), rng.choice(WIDTHS)
        self.shape = (rng.choice([1, 3, 5]), *[rng.choice([16, 17, 20])] * self.dims)
        self.stem = nn.Sequential(CONV[self.dims](self.shape[0], width, 3, padding=1), make.norm(width))
        parts: list[nn.Module] = []
        for _ in range(rng.randint(1, 3)):
            parts.append(rng.choice(self.PARTS)(make, width))
            width = parts[-1].out
        self.parts = nn.Sequential(*parts)
        self.last, self.pixels = rng.choice([nn.Identity(), QuantAct()]), tuple(range(2, 2 + self.dims))
        self.end = rng.choice(["flat", "largest", "reshaped"])
        self.result = rng.choice([None, None, tuple, dict, Pair, Found])
        with torch.no_grad():
            values = self.eval().features(torch.zeros(1, *self.shape)).shape[1]
        hidden = rng.choice([1, 4, 9])
        dense = nn.Sequential(
            BinaryLinear(values, hidden), nn.BatchNorm1d(hidden), QuantAct(), nn.Linear(hidden, 5)
        )
        self.label, self.place = rng.choice([dense, BinaryLinear(values, 5)]), nn.Linear(values, 4)
        make_exact(self, seed)

    def features(self, x: Tensor) -> Tensor:
        x = self.last(self.parts(self.stem(x)))
        if self.end == "largest":
            return x.amax(self.pixels)
        return x.flatten(1) if self.end == "flat" else x.reshape(x.shape[0], -1)

    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        label = self.label(x)
        if self.result is None:
            return label
        place = self.place(x)
        if self.result is tuple:
            return label, place
        return self.result(label=label, place=place)

    def inputs(self, count: int, seed: int = 0) -> Tensor:
        return multiples((count, *self.shape), 1 / 4, -8, 8, torch.Generator().manual_seed(seed))
