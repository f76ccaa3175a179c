"""Binary networks with shortcuts: the stream stays real, or is quantized behind the addition."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from tests.architectures.registry import classifier, image, published

Act, BConv = bd.nn.QuantAct, bd.nn.BinaryConv2d


def conv3(before: int, after: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride, padding=1, bias=False)


def bconv3(before: int, after: int, stride: int = 1, groups: int = 1) -> BConv:
    return BConv(before, after, 3, stride, padding=1, groups=groups, bias=False)


class BiRealBlock(nn.Module):
    """One convolution, one shortcut; at a stride the shortcut is an average pool and a real 1×1 convolution."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.binary_activation = Act()
        self.binary_conv = bconv3(before, after, stride)
        self.bn1 = nn.BatchNorm2d(after)
        self.downsample: nn.Module | None = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.AvgPool2d(kernel_size=2, stride=stride),
                nn.Conv2d(before, after, 1, bias=False),
                nn.BatchNorm2d(after),
            )

    def forward(self, x: Tensor) -> Tensor:
        residual = x
        out = self.bn1(self.binary_conv(self.binary_activation(x)))
        if self.downsample is not None:
            residual = self.downsample(x)
        out += residual
        return out


class BiReal(nn.Module):
    def __init__(self, blocks: list[int], width: int, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        stages, before = [], width
        for number, count in enumerate(blocks):
            after = width * 2**number
            stages += [BiRealBlock(before, after, 1 if number == 0 else 2)]
            stages += [BiRealBlock(after, after) for _ in range(count - 1)]
            before = after
        self.layers = nn.Sequential(*stages)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)))
        x = self.avgpool(self.layers(x))
        x = x.view(x.size(0), -1)
        return self.fc(x)


@published("Bi-Real Net 18", "Liu et al., ECCV 2018", "one block for each convolution")
def bi_real_18() -> tuple[nn.Module, Tensor]:
    return BiReal([1, 2], 16), image(32)


@published("Bi-Real Net 34, narrow", "Liu et al., ECCV 2018", "narrow stages, deeper")
def bi_real_34() -> tuple[nn.Module, Tensor]:
    return BiReal([2, 3], 8), image(32)


class GatedBlock(nn.Module):
    """Real-to-Binary: the convolution's output is scaled by a gate that is computed from its real input."""

    def __init__(self, width: int, reduction: int = 8) -> None:
        super().__init__()
        self.act, self.conv, self.bn, self.prelu = (
            Act(),
            bconv3(width, width),
            nn.BatchNorm2d(width),
            nn.PReLU(width),
        )
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(width, width // reduction),
            nn.ReLU(inplace=True),
            nn.Linear(width // reduction, width),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        scale = self.gate(x)[:, :, None, None]
        return x + self.prelu(self.bn(self.conv(self.act(x))) * scale)


@published("Real-to-Binary Net", "Martinez et al., ICLR 2020", "data-driven gates, PReLU")
def real_to_binary() -> tuple[nn.Module, Tensor]:
    stem = [nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24)]
    return nn.Sequential(*stem, GatedBlock(24), *classifier(24)), image(16)


class LearnableBias(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1), requires_grad=True)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias.expand_as(x)


class RPReLU(nn.Sequential):
    def __init__(self, channels: int) -> None:
        super().__init__(LearnableBias(channels), nn.PReLU(channels), LearnableBias(channels))


class ReActBlock(nn.Module):
    """3×3 with a shortcut, then 1×1: twice side by side and concatenated where the width doubles."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.before, self.after, self.stride = before, after, stride
        self.move11, self.sign1 = LearnableBias(before), Act()
        self.conv3x3, self.bn1 = bconv3(before, before, stride), nn.BatchNorm2d(before)
        self.relu1, self.pooling = RPReLU(before), nn.AvgPool2d(2, 2)
        self.move21, self.sign2 = LearnableBias(before), Act()
        self.pw1, self.bn21 = BConv(before, before, 1, bias=False), nn.BatchNorm2d(before)
        if before != after:
            self.pw2, self.bn22 = BConv(before, before, 1, bias=False), nn.BatchNorm2d(before)
        self.relu2 = RPReLU(after)

    def forward(self, x: Tensor) -> Tensor:
        out1 = self.bn1(self.conv3x3(self.sign1(self.move11(x))))
        if self.stride == 2:
            x = self.pooling(x)
        out1 = self.relu1(x + out1)
        out2 = self.sign2(self.move21(out1))
        if self.before == self.after:
            out2 = self.bn21(self.pw1(out2))
            out2 += out1
        else:
            assert self.before * 2 == self.after
            one = self.bn21(self.pw1(out2))
            two = self.bn22(self.pw2(out2))
            one += out1
            two += out1
            out2 = torch.cat([one, two], dim=1)
        return self.relu2(out2)


@published("ReActNet-A", "Liu et al., ECCV 2020", "RSign, RPReLU, duplicated 1×1 layers")
def reactnet() -> tuple[nn.Module, Tensor]:
    stem = [nn.Conv2d(3, 12, 3, 2, 1, bias=False), nn.BatchNorm2d(12)]
    blocks = [ReActBlock(12, 24, 2), ReActBlock(24, 24, 1)]
    return nn.Sequential(*stem, *blocks, *classifier(24)), image(16)


class DenseBlock(nn.Module):
    """BinaryDenseNet: every layer adds channels by concatenation, without bottlenecks."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm2d(width), Act(), bconv3(width, growth))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


class Transition(nn.Sequential):
    """A real 1×1 convolution after a max pool."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(
            nn.BatchNorm2d(before), nn.MaxPool2d(2, 2), nn.ReLU(), nn.Conv2d(before, after, 1, bias=False)
        )


@published("BinaryDenseNet", "Bethge et al., ICCVW 2019", "growth by concatenation, real transitions")
def binary_dense_net() -> tuple[nn.Module, Tensor]:
    body = [nn.Conv2d(3, 16, 3, padding=1, bias=False), DenseBlock(16, 8), DenseBlock(24, 8)]
    body += [Transition(32, 20), DenseBlock(20, 8), nn.BatchNorm2d(28), nn.ReLU()]
    return nn.Sequential(*body, *classifier(28)), image(12)


class ImprovementBlock(nn.Module):
    """MeliusNet: improves the channels that its dense block has added last, and leaves the others."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.width, self.growth = width, growth
        self.body = nn.Sequential(nn.BatchNorm2d(width), Act(), bconv3(width, growth))

    def forward(self, x: Tensor) -> Tensor:
        kept, last = x[:, : -self.growth], x[:, -self.growth :]
        return torch.cat([kept, last + self.body(x)], dim=1)


@published("MeliusNet", "Bethge et al., WACV 2021", "dense and improvement blocks, grouped stem")
def meliusnet() -> tuple[nn.Module, Tensor]:
    stem = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    stem += [nn.Conv2d(16, 16, 3, 1, 1, groups=4, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    body = [DenseBlock(16, 16), ImprovementBlock(32, 16)]
    return nn.Sequential(*stem, *body, nn.BatchNorm2d(32), nn.ReLU(), *classifier(32)), image(16)


class QuickBlock(nn.Module):
    """QuickNet: convolution, ReLU, BN, and a shortcut around each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.quant, self.conv, self.norm = Act(), bconv3(width, width), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(F.relu(self.conv(self.quant(x))))


def quick_transition(before: int, after: int) -> list[nn.Module]:
    """ReLU, a blurred pool (max, then a fixed depthwise filter), a real 1×1 convolution, BN."""
    blur = nn.Conv2d(before, before, 3, 2, 1, groups=before, bias=False)
    pools = [nn.MaxPool2d(3, stride=1, padding=1), blur]
    return [nn.ReLU(), *pools, nn.Conv2d(before, after, 1), nn.ReLU(), nn.BatchNorm2d(after)]


@published("QuickNet", "Bannink et al., MLSys 2021", "blurred pools, ReLU before BN")
def quicknet() -> tuple[nn.Module, Tensor]:
    stem = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.ReLU(), nn.BatchNorm2d(8)]
    stem += [nn.Conv2d(8, 16, 3, 1, 1, groups=4, bias=False), nn.BatchNorm2d(16)]
    body = [QuickBlock(16), *quick_transition(16, 24), QuickBlock(24)]
    return nn.Sequential(*stem, *body, nn.ReLU(), *classifier(24)), image(16)


class CifarBlock(nn.Module):
    """ResNet-20 with the parameter-free shortcut: every second pixel, zero channels on both sides."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = bconv3(before, after, stride), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = bconv3(after, after), nn.BatchNorm2d(after)
        self.act1, self.act2 = Act(), Act()
        self.stride, self.extra = stride, (after - before) // 2

    def shortcut(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            return x
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.extra, self.extra), "constant", 0)

    def forward(self, x: Tensor) -> Tensor:
        out = self.act1(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return self.act2(out)


@published("ResNet-20 for CIFAR", "He et al., CVPR 2016; Idelbayev's code", "zero-padded shortcuts")
def resnet_20() -> tuple[nn.Module, Tensor]:
    stem = [conv3(3, 16), nn.BatchNorm2d(16), Act()]
    blocks = [CifarBlock(16, 16), CifarBlock(16, 32, 2)]
    return nn.Sequential(*stem, *blocks, *classifier(32)), image(12)


class WideBlock(nn.Module):
    """Pre-activation with dropout; where the width changes, the shortcut starts behind the first activation."""

    def __init__(self, before: int, after: int, stride: int, drop: float = 0.3) -> None:
        super().__init__()
        self.bn1, self.relu1, self.conv1 = nn.BatchNorm2d(before), Act(), conv3(before, after, stride)
        self.bn2, self.relu2, self.conv2 = nn.BatchNorm2d(after), Act(), conv3(after, after)
        self.droprate, self.equal = drop, before == after
        self.short = None if self.equal else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.equal:
            x = self.relu1(self.bn1(x))
            out = x
        else:
            out = self.relu1(self.bn1(x))
        out = self.relu2(self.bn2(self.conv1(out)))
        out = F.dropout(out, p=self.droprate, training=self.training)
        return torch.add(x if self.short is None else self.short(x), self.conv2(out))


@published("WideResNet", "Zagoruyko and Komodakis, BMVC 2016", "pre-activation, dropout, float weights")
def wide_resnet() -> tuple[nn.Module, Tensor]:
    body = [conv3(3, 16), WideBlock(16, 16, 1), WideBlock(16, 32, 2)]
    return nn.Sequential(*body, nn.BatchNorm2d(32), Act(), *classifier(32)), image(12)
