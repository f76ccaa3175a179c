"""More random networks: on images and sequences, gated, depthwise, resampled, with other norms, several outputs."""

import random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from tests.random_nets import randomise

CONV = {1: nn.Conv1d, 2: nn.Conv2d}
ONE_BIT = {1: bd.nn.BinaryConv1d, 2: bd.nn.BinaryConv2d}
BATCH_NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d}
UP = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d}
MAX_POOL = {1: nn.MaxPool1d, 2: nn.MaxPool2d}


class Make:
    """Random modules for sequences (dims=1) or images (dims=2)."""

    def __init__(self, rng: random.Random, dims: int, levels: int) -> None:
        self.rng, self.dims, self.levels = rng, dims, levels

    def layer(self, before: int, after: int, kernel: int = 3, **more: Any) -> nn.Module:
        kind = self.rng.choice([CONV, ONE_BIT])[self.dims]
        return kind(before, after, kernel, padding=kernel // 2, bias=self.rng.random() < 0.4, **more)

    def norm(self, width: int) -> nn.Module:
        draw = self.rng.random()
        if draw < 0.7:
            return BATCH_NORM[self.dims](width, affine=self.rng.random() < 0.9)
        return nn.GroupNorm(self.rng.choice([g for g in (1, 2, 3, width) if width % g == 0]), width)

    def act(self) -> nn.Module:
        return bd.nn.QuantAct(self.levels)

    def curve(self, width: int) -> nn.Module:
        curves = [
            nn.ReLU(),
            nn.PReLU(width),
            nn.PReLU(),
            nn.Hardswish(),
            nn.SiLU(),
            nn.LeakyReLU(0.2),
            nn.ReLU6(),
        ]
        return self.rng.choice([*curves, nn.Identity()])

    def pixels(self) -> tuple[int, ...]:
        return tuple(range(2, 2 + self.dims))


class Plain(nn.Module):
    def __init__(self, make: Make, before: int, after: int) -> None:
        super().__init__()
        parts = [make.layer(before, after, make.rng.choice([1, 3])), make.norm(after), make.act()]
        if make.rng.random() < 0.3:
            parts.insert(1, make.curve(after))
        if make.rng.random() < 0.3:
            parts.insert(make.rng.randint(1, len(parts)), MAX_POOL[make.dims](3, 1, 1))
        self.parts = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.parts(x)


class Depthwise(nn.Module):
    """Depthwise, then 1×1; the activation in the middle may be missing."""

    def __init__(self, make: Make, before: int, after: int) -> None:
        super().__init__()
        self.deep = make.layer(before, before, 3, groups=before)
        self.norm1, self.act1 = make.norm(before), make.act() if make.rng.random() < 0.6 else nn.Identity()
        self.point, self.norm2, self.act2 = make.layer(before, after, 1), make.norm(after), make.act()

    def forward(self, x: Tensor) -> Tensor:
        return self.act2(self.norm2(self.point(self.act1(self.norm1(self.deep(x))))))


class Gated(nn.Module):
    """Squeeze-and-excitation, in one of the ways in which it is written, and a shortcut or none."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        self.act, self.layer, self.norm = make.act(), make.layer(width, width), make.norm(width)
        hidden = max(2, width // 4)
        self.down, self.up = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.inner = make.act() if make.rng.random() < 0.3 else nn.ReLU()
        self.pixels = make.pixels()
        self.gate = make.rng.choice([nn.Sigmoid(), nn.Hardsigmoid(), nn.Tanh()])
        self.style, self.skip, self.dims = (
            make.rng.choice(["view", "index", "unsqueeze"]),
            make.rng.random() < 0.6,
            make.dims,
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.layer(self.act(x)))
        g = self.gate(self.up(self.inner(self.down(y.mean(self.pixels)))))
        if self.style == "view":
            g = g.view(g.size(0), g.size(1), *[1] * self.dims)
        elif self.style == "index":
            g = g[:, :, None, None] if self.dims == 2 else g[:, :, None]
        else:
            for _ in range(self.dims):
                g = g.unsqueeze(-1)
        return x + y * g if self.skip else y * g


class Resampled(nn.Module):
    """Down and up again, beside the way around; added, or concatenated and brought back."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        self.down = nn.Sequential(make.layer(width, width, stride=2), make.norm(width), make.act())
        up = make.rng.choice(["nearest", "transposed", "linear"])
        modes = {"nearest": "nearest", "linear": {1: "linear", 2: "bilinear"}[make.dims]}
        self.up = (
            UP[make.dims](width, width, 2, 2)
            if up == "transposed"
            else nn.Upsample(scale_factor=2, mode=modes[up])
        )
        self.joined = make.rng.choice(["add", "cat"])
        self.norm, self.act = make.norm(width), make.act()
        self.mix = make.layer(2 * width, width, 1) if self.joined == "cat" else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.down(x))
        y = torch.cat([x, y], 1) if self.joined == "cat" else x + y
        return self.act(self.norm(self.mix(y)))


class Moved(nn.Module):
    """Some channels pass, others are worked on; then a shuffle, a roll, a flip or nothing."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        self.half = width // 2
        self.layer, self.norm = make.layer(width - self.half, width - self.half), make.norm(width - self.half)
        self.act, self.move = make.act(), make.rng.choice(["shuffle", "roll", "flip", "none", "none"])
        self.early = make.act() if make.rng.random() < 0.5 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.early(x)
        a, b = x[:, : self.half], x[:, self.half :]
        x = torch.cat([a, self.act(self.norm(self.layer(b)))], 1)
        if self.move == "shuffle":
            shape = x.size()
            x = x.view(x.size(0), 2, x.size(1) // 2, -1).transpose(1, 2).reshape(shape)
        elif self.move == "roll":
            x = x.roll(1, 1)
        elif self.move == "flip":
            x = torch.flip(x, [1])
        return x


class Shifted(nn.Module):
    """ReActNet's learned shifts around an activation, and a curve behind the addition."""

    def __init__(self, make: Make, width: int) -> None:
        super().__init__()
        one = (1, width, *[1] * make.dims)
        self.before, self.after = nn.Parameter(torch.zeros(one)), nn.Parameter(torch.zeros(one))
        self.act, self.layer, self.norm = make.act(), make.layer(width, width), make.norm(width)
        self.curve = make.curve(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.layer(self.act(x + self.before)))
        return self.curve(x + y - self.after.expand_as(y))


class RandomOwn(nn.Module):
    """A stem, some of the parts above, and a head: a label, two outputs, or a map."""

    def __init__(self, seed: int, levels: int = 2) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.dims = rng.choice([1, 2])
        make = Make(rng, self.dims, levels)
        width = rng.choice([8, 12, 16])
        self.stem = nn.Sequential(CONV[self.dims](3, width, 3, padding=1), make.norm(width))
        self.stem_act = make.act() if rng.random() < 0.6 else make.curve(width)
        parts: list[nn.Module] = []
        for _ in range(rng.randint(1, 3)):
            kind = rng.choice([Plain, Depthwise, Gated, Resampled, Moved, Shifted])
            if kind in (Plain, Depthwise):
                after = rng.choice([8, 12, 18])
                parts.append(kind(make, width, after))
                width = after
            else:
                parts.append(kind(make, width))
        self.parts, self.last = nn.Sequential(*parts), Plain(make, width, 12)
        self.head = rng.choice(["label", "label", "tuple", "dictionary", "map"])
        self.pool = rng.choice(["mean", "max", "amax", "flat", "sum", "flat mean"])
        self.fc = nn.Linear(12 * (8**self.dims if self.pool == "flat" else 1), 5)
        self.map = CONV[self.dims](12, 4, 1)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        randomise(self, generator)

    def example(self, count: int = 4) -> Tensor:
        generator = torch.Generator().manual_seed(count)
        return torch.randn(count, 3, *[8] * self.dims, generator=generator)

    def forward(self, x: Tensor) -> Any:
        x = self.last(self.parts(self.stem_act(self.stem(x))))
        if self.head == "map":
            return self.map(x)
        pixels = tuple(range(2, 2 + self.dims))
        if self.pool == "mean":
            y = x.mean(pixels)
        elif self.pool == "sum":
            y = x.sum(pixels) / 8
        elif self.pool == "flat mean":
            y = x.flatten(2).mean(-1)
        elif self.pool == "amax":
            y = torch.amax(x, dim=pixels)
        elif self.pool == "max":
            y = torch.max(x.flatten(2), 2)[0] if self.dims == 1 else F.adaptive_max_pool2d(x, 1).flatten(1)
        else:
            y = x.flatten(1)
        if self.head == "label":
            return self.fc(y)
        return (
            (self.fc(y), self.map(x)) if self.head == "tuple" else {"label": self.fc(y), "map": self.map(x)}
        )
