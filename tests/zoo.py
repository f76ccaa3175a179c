"""Networks as users write them, small: each entry makes a model and an example input for some levels."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd

Entry = Callable[[int], tuple[nn.Module, Any]]
ZOO: dict[str, Entry] = {}


def entry(make: Entry) -> Entry:
    ZOO[make.__name__] = make
    return make


def image(channels: int = 3, size: int = 8, batch: int = 4) -> Tensor:
    return torch.randn(batch, channels, size, size)


class Forward(nn.Module):
    """A model whose modules and forward function are given: forward(self, *inputs)."""

    def __init__(self, run: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)
        self.run = run

    def forward(self, x: Tensor) -> Any:
        return self.run(self, x)


def conv(a: int, b: int, k: int = 3, s: int = 1, **more: Any) -> nn.Conv2d:
    return nn.Conv2d(a, b, k, stride=s, padding=k // 2, bias=False, **more)


class BasicBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int, levels: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(before, after, 3, stride), nn.BatchNorm2d(after)
        self.act = bd.nn.QuantAct(levels)
        self.conv2, self.bn2 = conv(after, after), nn.BatchNorm2d(after)
        self.downsample: nn.Module | None = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(conv(before, after, 1, stride), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.act(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.act(out)


class Bottleneck(nn.Module):
    def __init__(self, before: int, middle: int, levels: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(before, middle, 1), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = conv(middle, middle), nn.BatchNorm2d(middle)
        self.conv3, self.bn3 = conv(middle, 4 * middle, 1), nn.BatchNorm2d(4 * middle)
        self.relu = bd.nn.QuantAct(levels)
        self.downsample = nn.Sequential(conv(before, 4 * middle, 1), nn.BatchNorm2d(4 * middle))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return self.relu(out)


def head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5)]


def stem(channels: int, levels: int) -> list[nn.Module]:
    return [conv(3, channels), nn.BatchNorm2d(channels), bd.nn.QuantAct(levels)]


@entry
def resnet_basic(levels: int) -> tuple[nn.Module, Any]:
    blocks = [BasicBlock(6, 6, 1, levels), BasicBlock(6, 10, 2, levels), BasicBlock(10, 10, 1, levels)]
    return nn.Sequential(*stem(6, levels), *blocks, *head(10)), image()


@entry
def resnet_bottleneck(levels: int) -> tuple[nn.Module, Any]:
    return nn.Sequential(
        *stem(6, levels), Bottleneck(6, 3, levels), Bottleneck(12, 3, levels), *head(12)
    ), image()


class PreAct(nn.Module):
    def __init__(self, before: int, after: int, stride: int, levels: int) -> None:
        super().__init__()
        self.bn1, self.act1, self.conv1 = (
            nn.BatchNorm2d(before),
            bd.nn.QuantAct(levels),
            conv(before, after, 3, stride),
        )
        self.bn2, self.act2, self.conv2 = nn.BatchNorm2d(after), bd.nn.QuantAct(levels), conv(after, after)
        self.shortcut = conv(before, after, 1, stride) if stride != 1 or before != after else None

    def forward(self, x: Tensor) -> Tensor:
        out = self.act1(self.bn1(x))
        shortcut = self.shortcut(out) if self.shortcut is not None else x
        out = self.conv1(out)
        return self.conv2(self.act2(self.bn2(out))) + shortcut


@entry
def resnet_preact(levels: int) -> tuple[nn.Module, Any]:
    body = [PreAct(6, 6, 1, levels), PreAct(6, 9, 2, levels), PreAct(9, 9, 1, levels)]
    return nn.Sequential(conv(3, 6), *body, nn.BatchNorm2d(9), bd.nn.QuantAct(levels), *head(9)), image()


class OptionA(nn.Module):
    def __init__(self, before: int, after: int, split: bool, levels: int) -> None:
        super().__init__()
        self.conv1, self.bn1, self.act = (
            conv(before, after, 3, 2),
            nn.BatchNorm2d(after),
            bd.nn.QuantAct(levels),
        )
        self.conv2, self.bn2 = conv(after, after), nn.BatchNorm2d(after)
        self.extra, self.split = after - before, split

    def forward(self, x: Tensor) -> Tensor:
        front = self.extra // 2 if self.split else 0
        y = self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))
        y += F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, front, self.extra - front), "constant", 0)
        return self.act(y)


@entry
def option_a_one_sided(levels: int) -> tuple[nn.Module, Any]:
    return nn.Sequential(*stem(6, levels), OptionA(6, 12, False, levels), *head(12)), image()


@entry
def option_a_split(levels: int) -> tuple[nn.Module, Any]:
    return nn.Sequential(*stem(6, levels), OptionA(6, 13, True, levels), *head(13)), image()


class Dense(nn.Module):
    def __init__(self, levels: int) -> None:
        super().__init__()
        self.stem = conv(3, 6)
        self.norms = nn.ModuleList([nn.BatchNorm2d(6 + 4 * i) for i in range(3)])
        self.convs = nn.ModuleList([conv(6 + 4 * i, 4) for i in range(3)])
        self.acts = nn.ModuleList([bd.nn.QuantAct(levels) for i in range(3)])
        self.bn = nn.BatchNorm2d(18)
        self.act = bd.nn.QuantAct(levels)
        self.transition = conv(18, 9, 1)
        self.last = nn.BatchNorm2d(9)
        self.fc = nn.Linear(9, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.stem(x)]
        for norm, act, layer in zip(self.norms, self.acts, self.convs, strict=True):
            features.append(layer(act(norm(torch.cat(features, 1)))))
        x = F.avg_pool2d(self.transition(self.act(self.bn(torch.cat(features, 1)))), 2)
        return self.fc(F.relu(self.last(x), inplace=True).mean([2, 3]))


@entry
def densenet(levels: int) -> tuple[nn.Module, Any]:
    return Dense(levels), image()


class Inception(nn.Module):
    def __init__(self, before: int, levels: int) -> None:
        super().__init__()

        def unit(a: int, b: int, k: int) -> nn.Sequential:
            return nn.Sequential(conv(a, b, k), nn.BatchNorm2d(b), bd.nn.QuantAct(levels))

        self.branch1 = unit(before, 4, 1)
        self.branch3 = nn.Sequential(unit(before, 3, 1), unit(3, 6, 3))
        self.branch5 = nn.Sequential(unit(before, 2, 1), unit(2, 3, 5))
        self.branch_pool = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), unit(before, 3, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch3(x), self.branch5(x), self.branch_pool(x)], dim=1)


@entry
def inception(levels: int) -> tuple[nn.Module, Any]:
    return nn.Sequential(*stem(6, levels), Inception(6, levels), Inception(16, levels), *head(16)), image()


class Fire(nn.Module):
    def __init__(self, before: int, squeeze: int, expand: int, levels: int) -> None:
        super().__init__()
        self.squeeze, self.act = nn.Conv2d(before, squeeze, 1), bd.nn.QuantAct(levels)
        self.e1, self.e3 = nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.squeeze(x))
        return torch.cat([self.act(self.e1(x)), self.act(self.e3(x))], 1)


@entry
def squeezenet(levels: int) -> tuple[nn.Module, Any]:
    body = [Fire(6, 3, 4, levels), nn.MaxPool2d(2), Fire(8, 4, 5, levels), nn.Dropout(0.5)]
    act = bd.nn.QuantAct(levels)
    tail = [nn.Conv2d(10, 5, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), act, *body, *tail), image()


class UNet(nn.Module):
    def __init__(self, levels: int, up: str) -> None:
        super().__init__()

        def unit(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(conv(a, b), nn.BatchNorm2d(b), bd.nn.QuantAct(levels))

        self.d1, self.d2, self.u1 = unit(3, 5), unit(5, 8), unit(13 if up != "transpose" else 10, 6)
        self.pool, self.out = nn.MaxPool2d(2), nn.Conv2d(6, 2, 1)
        self.kind = up
        if up == "transpose":
            self.up: nn.Module = nn.ConvTranspose2d(8, 5, 2, stride=2)
        elif up == "module":
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)

    def forward(self, x: Tensor) -> Tensor:
        a = self.d1(x)
        b = self.d2(self.pool(a))
        b = F.interpolate(b, size=a.shape[2:]) if self.kind == "functional" else self.up(b)
        return self.out(self.u1(torch.cat([b, a], dim=1)))


@entry
def unet_bilinear(levels: int) -> tuple[nn.Module, Any]:
    return UNet(levels, "module"), image()


@entry
def unet_interpolate(levels: int) -> tuple[nn.Module, Any]:
    return UNet(levels, "functional"), image()


@entry
def unet_transpose(levels: int) -> tuple[nn.Module, Any]:
    return UNet(levels, "transpose"), image()


class Separable(nn.Sequential):
    def __init__(self, before: int, after: int, levels: int) -> None:
        super().__init__(
            conv(before, before, 3, groups=before),
            nn.BatchNorm2d(before),
            bd.nn.QuantAct(levels),
            conv(before, after, 1),
            nn.BatchNorm2d(after),
            bd.nn.QuantAct(levels),
        )


@entry
def mobilenet(levels: int) -> tuple[nn.Module, Any]:
    return nn.Sequential(
        *stem(6, levels), Separable(6, 10, levels), Separable(10, 8, levels), *head(8)
    ), image()


@entry
def grouped(levels: int) -> tuple[nn.Module, Any]:
    middle = [conv(8, 12, 3, groups=4), nn.BatchNorm2d(12), bd.nn.QuantAct(levels)]
    last = [conv(12, 6, 3, groups=2), nn.BatchNorm2d(6), bd.nn.QuantAct(levels)]
    return nn.Sequential(*stem(8, levels), *middle, *last, *head(6)), image()


@entry
def binary_grouped(levels: int) -> tuple[nn.Module, Any]:
    middle = [bd.nn.BinaryConv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), bd.nn.QuantAct(levels)]
    last = [bd.nn.BinaryConv2d(8, 6, 1, groups=2, bias=False), nn.BatchNorm2d(6), bd.nn.QuantAct(levels)]
    return nn.Sequential(*stem(8, levels), *middle, *last, *head(6)), image()


@entry
def audio(levels: int) -> tuple[nn.Module, Any]:
    def unit(a: int, b: int) -> list[nn.Module]:
        return [nn.Conv1d(a, b, 5, padding=2), nn.BatchNorm1d(b), bd.nn.QuantAct(levels), nn.MaxPool1d(2)]

    tail = [nn.AdaptiveAvgPool1d(2), nn.Flatten(), nn.Linear(16, 5)]
    return nn.Sequential(*unit(2, 6), *unit(6, 8), *tail), torch.randn(4, 2, 32)


class Mixer(nn.Module):
    def __init__(self, levels: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, stride=4)
        self.tokens1, self.tokens2 = nn.Linear(4, 6), nn.Linear(6, 4)
        self.channels1, self.channels2 = nn.Linear(8, 10), nn.Linear(10, 8)
        self.act1, self.act2 = bd.nn.QuantAct(levels), bd.nn.QuantAct(levels)
        self.norm, self.fc = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)  # (N, T, C)
        x = x + self.tokens2(self.act1(self.tokens1(x.permute(0, 2, 1)))).permute(0, 2, 1)
        x = x + self.channels2(self.act2(self.channels1(self.norm(x))))
        return self.fc(x.mean(1))


@entry
def mixer(levels: int) -> tuple[nn.Module, Any]:
    return Mixer(levels), image()


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(
            nn.Linear(channels, channels // 2, bias=False),
            nn.ReLU(inplace=True),
            nn.Linear(channels // 2, channels, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.size()
        y = self.fc(self.pool(x).view(b, c)).view(b, c, 1, 1)
        return x * y.expand_as(x)


@entry
def squeeze_excite(levels: int) -> tuple[nn.Module, Any]:
    more = [conv(8, 8), nn.BatchNorm2d(8), bd.nn.QuantAct(levels), SqueezeExcite(8), nn.BatchNorm2d(8)]
    return nn.Sequential(*stem(8, levels), SqueezeExcite(8), *more, bd.nn.QuantAct(levels), *head(8)), image()
