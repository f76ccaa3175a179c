"""Networks for small devices: depthwise and grouped convolutions, shuffles, squeeze-and-excitation."""

import torch
from torch import Tensor, nn

import binaryduo as bd
from tests.architectures.registry import classifier, image, published

Act, BConv = bd.nn.QuantAct, bd.nn.BinaryConv2d


def unit(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    layer = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(after)]


class Separable(nn.Sequential):
    """MobileNet's block: a real depthwise layer, a one-bit 1×1 layer."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__(
            *unit(before, before, 3, stride, groups=before),
            Act(),
            BConv(before, after, 1, bias=False),
            nn.BatchNorm2d(after),
            Act(),
        )


@published("MobileNet", "Howard et al., 2017", "depthwise layers with float weights, one-bit 1×1 layers")
def mobilenet() -> tuple[nn.Module, Tensor]:
    body = [Separable(16, 24), Separable(24, 32, 2)]
    return nn.Sequential(*unit(3, 16, 3, 2), Act(), *body, *classifier(32)), image(16)


class MoBiBlock(nn.Module):
    """MoBiNet: all layers one bit, depthwise too, with a shortcut around the block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.act1 = Act()
        self.depthwise = BConv(width, width, 3, padding=1, groups=width, bias=False)
        self.bn1, self.act2 = nn.BatchNorm2d(width), Act()
        self.pointwise, self.bn2 = BConv(width, width, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn1(self.depthwise(self.act1(x)))
        return x + self.bn2(self.pointwise(self.act2(out)))


@published("MoBiNet", "Phan et al., WACV 2020", "one-bit depthwise layers")
def mobinet() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(*unit(3, 24, 3, 2), MoBiBlock(24), *classifier(24)), image(16)


class InvertedResidual(nn.Module):
    """MobileNetV2: wide inside, linear at the end, a shortcut where the shapes allow."""

    def __init__(self, before: int, after: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = before * expand
        self.use_res_connect = stride == 1 and before == after
        self.conv = nn.Sequential(
            *unit(before, hidden, 1),
            Act(),
            *unit(hidden, hidden, 3, stride, groups=hidden),
            Act(),
            BConv(hidden, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.use_res_connect:
            return x + self.conv(x)
        return self.conv(x)


@published("MobileNetV2", "Sandler et al., CVPR 2018", "inverted residuals")
def mobilenet_v2() -> tuple[nn.Module, Tensor]:
    body = [InvertedResidual(12, 16, 2, 2), InvertedResidual(16, 16, 1, 2)]
    return nn.Sequential(*unit(3, 12, 3), nn.ReLU6(), *body, *classifier(16)), image(12)


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    batchsize, num_channels, height, width = x.size()
    channels_per_group = num_channels // groups
    x = x.view(batchsize, groups, channels_per_group, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batchsize, num_channels, height, width)


class ShuffleUnit(nn.Module):
    """ShuffleNet: grouped 1×1, shuffle, depthwise, grouped 1×1, added."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        middle = width // 2
        self.groups = groups
        self.act1, self.conv1 = Act(), BConv(width, middle, 1, groups=groups, bias=False)
        self.bn1, self.act2 = nn.BatchNorm2d(middle), Act()
        self.conv2 = nn.Conv2d(middle, middle, 3, padding=1, groups=middle, bias=False)
        self.bn2, self.act3 = nn.BatchNorm2d(middle), Act()
        self.conv3, self.bn3 = BConv(middle, width, 1, groups=groups, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        out = self.act2(self.bn1(self.conv1(self.act1(x))))
        out = channel_shuffle(out, self.groups)
        out = self.act3(self.bn2(self.conv2(out)))
        return x + self.bn3(self.conv3(out))


@published("ShuffleNet", "Zhang et al., CVPR 2018", "grouped 1×1 layers and a channel shuffle")
def shufflenet() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(*unit(3, 24, 3, 2), ShuffleUnit(24, 3), *classifier(24)), image(12)


class ShuffleV2Unit(nn.Module):
    """ShuffleNetV2: half of the channels pass, half are worked on, then both are shuffled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.branch2 = nn.Sequential(
            BConv(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            Act(),
            *unit(half, half, 3, groups=half),
            BConv(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            Act(),
        )

    def forward(self, x: Tensor) -> Tensor:
        x1, x2 = x.chunk(2, dim=1)
        return channel_shuffle(torch.cat((x1, self.branch2(x2)), dim=1), 2)


@published("ShuffleNetV2", "Ma et al., ECCV 2018; torchvision's code", "chunk, concatenation, shuffle")
def shufflenet_v2() -> tuple[nn.Module, Tensor]:
    body = [ShuffleV2Unit(24), *unit(24, 48, 1), Act()]
    return nn.Sequential(*unit(3, 24, 3, 2), Act(), *body, *classifier(48)), image(12)


class SqueezeExcitation(nn.Module):
    """As in the reference code of SENet."""

    def __init__(self, channels: int, reduction: int) -> None:
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(
            nn.Linear(channels, channels // reduction, bias=False),
            nn.ReLU(inplace=True),
            nn.Linear(channels // reduction, channels, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.size()
        y = self.avg_pool(x).view(b, c)
        y = self.fc(y).view(b, c, 1, 1)
        return x * y.expand_as(x)


class MBConv(nn.Module):
    """EfficientNet: expand, depthwise, squeeze and excite, project, added."""

    def __init__(self, before: int, after: int, expand: int) -> None:
        super().__init__()
        hidden = before * expand
        self.expand = nn.Sequential(
            Act(), BConv(before, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()
        )
        self.depthwise = nn.Sequential(*unit(hidden, hidden, 3, groups=hidden), nn.SiLU())
        self.se = SqueezeExcitation(hidden, 4)
        self.project = nn.Sequential(Act(), BConv(hidden, after, 1, bias=False), nn.BatchNorm2d(after))
        self.skip = before == after

    def forward(self, x: Tensor) -> Tensor:
        out = self.project(self.se(self.depthwise(self.expand(x))))
        return out + x if self.skip else out


@published("EfficientNet", "Tan and Le, ICML 2019", "MBConv with squeeze-and-excitation and SiLU")
def efficientnet() -> tuple[nn.Module, Tensor]:
    body = [MBConv(16, 16, 2), nn.SiLU()]
    return nn.Sequential(*unit(3, 16, 3, 2), nn.SiLU(), *body, *classifier(16)), image(12)


class SEBasicBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1, self.relu1 = BConv(width, width, 3, padding=1), nn.BatchNorm2d(width), Act()
        self.conv2, self.bn2, self.relu2 = BConv(width, width, 3, padding=1), nn.BatchNorm2d(width), Act()
        self.se = SqueezeExcitation(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.se(self.bn2(self.conv2(out)))
        return self.relu2(out + x)


@published("SE-ResNet", "Hu et al., CVPR 2018", "a gate on the branch, activation after the addition")
def se_resnet() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(*unit(3, 24, 3, 2), Act(), SEBasicBlock(24), *classifier(24)), image(12)


class HardMix(nn.Module):
    """MobileNetV3's block with hard-swish and hard-sigmoid."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            Act(), BConv(width, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.Hardswish()
        )
        self.deep = nn.Sequential(*unit(hidden, hidden, 5, groups=hidden), nn.Hardswish())
        self.fc1, self.fc2, self.pool = (
            nn.Conv2d(hidden, 8, 1),
            nn.Conv2d(8, hidden, 1),
            nn.AdaptiveAvgPool2d(1),
        )
        self.gate, self.act = nn.Hardsigmoid(), Act()
        self.out = nn.Sequential(BConv(hidden, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.deep(self.block(x))
        y = self.gate(self.fc2(torch.relu(self.fc1(self.pool(y))))) * y
        return self.out(self.act(y)) + x


@published("MobileNetV3", "Howard et al., ICCV 2019; torchvision's code", "hard-swish, gates of 1×1 layers")
def mobilenet_v3() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(*unit(3, 16, 3, 2), nn.Hardswish(), HardMix(16, 32), *classifier(16)), image(12)
