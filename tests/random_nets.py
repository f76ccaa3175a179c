"""Random networks of the kind users write: plain and residual, pools before and after BN, concatenations."""

import random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd


def randomise(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """Give BNs the look of trained ones: any mean and variance, weights of both signs."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            size = module.num_features
            if module.running_mean is not None:
                module.running_mean.copy_(torch.randn(size, generator=generator) * 0.3)
                module.running_var.copy_(torch.rand(size, generator=generator) + 0.5)
            if module.affine:
                module.weight.data.copy_(torch.randn(size, generator=generator))
                module.bias.data.copy_(torch.rand(size, generator=generator))
    return model


class Unit(nn.Module):
    """A convolution with a random neighbourhood: pooled before or after BN or the activation, or no BN."""

    def __init__(self, rng: random.Random, before: int, after: int, levels: int, pool: bool) -> None:
        super().__init__()
        conv = rng.choice([nn.Conv2d, bd.nn.BinaryConv2d])
        kernel = rng.choice([1, 3])
        self.has_bn = rng.random() < 0.85
        bias = rng.random() < 0.4 or not self.has_bn
        self.conv = conv(before, after, kernel, padding=kernel // 2, bias=bias)
        affine = rng.random() < 0.9
        self.bn = nn.BatchNorm2d(after, affine=affine) if self.has_bn else nn.Identity()
        self.act = bd.nn.QuantAct(levels)
        pools = [
            nn.MaxPool2d(2),
            nn.AvgPool2d(2),
            nn.MaxPool2d(3, 2, padding=1),
            nn.AvgPool2d(3, 2, padding=1),
        ]
        self.pool = rng.choice(pools) if pool else nn.Identity()
        self.where = rng.choice(["before", "between", "after"])

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        if self.where == "before":
            x = self.pool(x)
        x = self.bn(x)
        if self.where == "between":
            x = self.pool(x)
        x = self.act(x)
        return self.pool(x) if self.where == "after" else x


class PreResidual(nn.Module):
    """A real-valued stream: activation, convolution, BN, added; or halved and projected, or zero-padded."""

    def __init__(self, rng: random.Random, before: int, after: int, levels: int) -> None:
        super().__init__()
        conv = rng.choice([nn.Conv2d, bd.nn.BinaryConv2d])
        self.style = "identity" if before == after else rng.choice(["project", "average", "pad"])
        self.style = "pad" if self.style == "pad" and after > before else self.style
        if before > after and self.style == "pad":
            self.style = "project"
        stride = 1 if self.style == "identity" else 2
        self.act = bd.nn.QuantAct(levels)
        self.conv = conv(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(after)
        self.extra = after - before
        if self.style == "project":
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=2, bias=False), nn.BatchNorm2d(after)
            )
        elif self.style == "average":
            self.shortcut = nn.Sequential(
                nn.AvgPool2d(2), nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn(self.conv(self.act(x)))
        if self.style == "identity":
            return x + y
        if self.style == "pad":
            return y + F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.extra))
        return y + self.shortcut(x)


class PostResidual(nn.Module):
    """As in the original ResNet: the activation is behind the addition, so the stream is quantized."""

    def __init__(self, rng: random.Random, width: int, levels: int) -> None:
        super().__init__()
        conv = rng.choice([nn.Conv2d, bd.nn.BinaryConv2d])
        self.conv1, self.bn1 = conv(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.act = bd.nn.QuantAct(levels)  # one module, used twice

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.act(y)


class Fork(nn.Module):
    """Two branches, concatenated; one of them may stay in full precision."""

    def __init__(self, rng: random.Random, before: int, after: int, levels: int) -> None:
        super().__init__()
        self.left = Unit(rng, before, after, levels, pool=False)
        self.right = Unit(rng, before, after, levels, pool=False)
        self.float_right = rng.random() < 0.3
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        right = self.right.bn(self.right.conv(x)).relu() if self.float_right else self.right(x)
        return self.dropout(torch.cat([self.left(x), right], dim=1))


class RandomNet(nn.Module):
    """A first layer, a few random parts, a head with a flatten of some kind."""

    def __init__(self, seed: int, levels: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        width = rng.randint(3, 9)
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width))
        self.stem_act = bd.nn.QuantAct(levels) if rng.random() < 0.5 else nn.Identity()
        parts: list[nn.Module] = []
        for _ in range(rng.randint(1, 3)):
            kind = rng.choice(["unit", "pre", "pre", "post", "fork"])
            after = rng.randint(3, 9)
            if kind == "unit":
                parts.append(Unit(rng, width, after, levels, rng.random() < 0.5))
                width = after
            elif kind == "pre":
                after = width if rng.random() < 0.5 else after
                parts.append(PreResidual(rng, width, after, levels))
                width = after
            elif kind == "post":
                parts.append(PostResidual(rng, width, levels))
            else:
                parts.append(Fork(rng, width, after, levels))
                width = 2 * after
        self.parts = nn.Sequential(*parts)
        self.last = Unit(rng, width, 6, levels, pool=False)
        self.pool = nn.AdaptiveAvgPool2d(2) if rng.random() < 0.5 else nn.AdaptiveMaxPool2d(2)
        self.flat = rng.choice(["flatten", "view", "literal", "size"])
        hidden = rng.randint(3, 12)
        self.fc1 = nn.Linear(24, hidden)
        self.bn1 = nn.BatchNorm1d(hidden)
        self.act1 = bd.nn.QuantAct(levels) if rng.random() < 0.6 else nn.ReLU()
        self.fc2 = nn.Linear(hidden, 5)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        randomise(self, generator)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem_act(self.stem(x))
        x = self.parts(x)
        x = self.pool(self.last(x))
        if self.flat == "flatten":
            x = torch.flatten(x, 1)
        elif self.flat == "view":
            x = x.view(x.size(0), -1)
        elif self.flat == "literal":
            x = x.reshape(-1, 24)
        else:
            x = x.view(x.shape[0], x.shape[1] * x.shape[2] * x.shape[3])
        return self.fc2(self.act1(self.bn1(self.fc1(F.dropout(x, 0.1, self.training)))))
