"""Binary networks without a residual stream: plain stacks, branches that are concatenated, mixers."""

import torch
from torch import Tensor, nn

import binaryduo as bd
from tests.architectures.registry import classifier, image, published

Act, BConv, BLinear = bd.nn.QuantAct, bd.nn.BinaryConv2d, bd.nn.BinaryLinear


class XnorConv(nn.Module):
    """XNOR-Net's order: BN, activation, convolution, ReLU, pool."""

    def __init__(self, before: int, after: int, kernel: int, dropout: float = 0) -> None:
        super().__init__()
        self.bn, self.act = nn.BatchNorm2d(before, eps=1e-4, momentum=0.1), Act()
        self.dropout_ratio, self.dropout = dropout, nn.Dropout(dropout)
        self.conv = BConv(before, after, kernel, padding=kernel // 2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.bn(x))
        if self.dropout_ratio != 0:
            x = self.dropout(x)
        return self.relu(self.conv(x))


class XnorAlexNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, kernel_size=7, stride=2),
            nn.BatchNorm2d(16, eps=1e-4, momentum=0.1, affine=True),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            XnorConv(16, 32, 5),
            nn.MaxPool2d(kernel_size=2, stride=2),
            XnorConv(32, 32, 3),
        )
        self.norm, self.act = nn.BatchNorm2d(32), Act()
        self.dense = nn.Sequential(
            BLinear(32 * 3 * 3, 48), nn.BatchNorm1d(48), Act(), nn.Dropout(0.5), nn.Linear(48, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.features(x)))
        x = x.view(x.size(0), 32 * 3 * 3)
        return self.dense(x)


@published("XNOR-Net AlexNet", "Rastegari et al., ECCV 2016", "BN, activation, convolution, ReLU, pool")
def xnor_alexnet() -> tuple[nn.Module, Tensor]:
    return XnorAlexNet(), image(35)


@published(
    "Network in Network, XNOR", "Lin et al., ICLR 2014; Rastegari et al.", "1×1 layers, no dense layer"
)
def network_in_network() -> tuple[nn.Module, Tensor]:
    body = [nn.Conv2d(3, 24, 5, padding=2), nn.BatchNorm2d(24), nn.ReLU(inplace=True)]
    body += [XnorConv(24, 20, 1), XnorConv(20, 16, 1), nn.MaxPool2d(3, 2, 1)]
    body += [XnorConv(16, 24, 5, 0.5), XnorConv(24, 24, 1), nn.AvgPool2d(3, 2, 1)]
    body += [nn.BatchNorm2d(24), nn.Conv2d(24, 10, 1), nn.ReLU(), nn.AvgPool2d(3), nn.Flatten()]
    return nn.Sequential(*body), image(12)


class DoReFaAlexNet(nn.Module):
    """DoReFa's order: the activation clips what the convolution gives, without BN in the middle layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0, self.conv1 = nn.Conv2d(3, 16, 5, padding=2), BConv(16, 24, 5, padding=2, groups=2)
        self.bn1, self.pool = nn.BatchNorm2d(24), nn.MaxPool2d(3, 2, padding=1)
        self.conv2, self.bn2 = BConv(24, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.nonlin0, self.nonlin1, self.nonlin2 = Act(), Act(), Act()
        self.fc0, self.bnfc0, self.nonlin3 = BLinear(32 * 3 * 3, 40), nn.BatchNorm1d(40), Act()
        self.fct = nn.Linear(40, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.nonlin0(self.conv0(x).clamp(0, 1))
        x = self.nonlin1(self.pool(self.bn1(self.conv1(x))))
        x = self.nonlin2(self.pool(self.bn2(self.conv2(x))))
        x = self.nonlin3(self.bnfc0(self.fc0(torch.flatten(x, start_dim=1))))
        return self.fct(x)


@published("DoReFa-Net AlexNet", "Zhou et al., 2016", "clipped sums, grouped one-bit convolution")
def dorefa_alexnet() -> tuple[nn.Module, Tensor]:
    return DoReFaAlexNet(), image(12)


@published("VGG-Small", "Courbariaux et al., 2016; Cai et al., CVPR 2017", "one-bit dense layers at the end")
def vgg_small() -> tuple[nn.Module, Tensor]:
    def unit(before: int, after: int, pool: bool) -> list[nn.Module]:
        layer = [BConv(before, after, 3, padding=1, bias=False)] + [nn.MaxPool2d(2)] * pool
        return [*layer, nn.BatchNorm2d(after), Act()]

    body = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), Act()]
    body += [*unit(16, 16, True), *unit(16, 32, False), *unit(32, 32, True), nn.Flatten()]
    body += [BLinear(32 * 9, 64, bias=False), nn.BatchNorm1d(64), Act()]
    body += [BLinear(64, 10, bias=False), nn.BatchNorm1d(10)]
    return nn.Sequential(*body), image(12)


class Fire(nn.Module):
    """SqueezeNet: a narrow 1×1 layer, then 1×1 and 3×3 side by side."""

    def __init__(self, before: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze, self.squeeze_activation = BConv(before, squeeze, 1), Act()
        self.expand1x1, self.expand1x1_activation = BConv(squeeze, expand, 1), Act()
        self.expand3x3, self.expand3x3_activation = BConv(squeeze, expand, 3, padding=1), Act()

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        parts = [
            self.expand1x1_activation(self.expand1x1(x)),
            self.expand3x3_activation(self.expand3x3(x)),
        ]
        return torch.cat(parts, 1)


class SqueezeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2), Act(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(16, 12, 16)
        )
        self.classifier = nn.Sequential(
            nn.Dropout(0.5), nn.Conv2d(32, 10, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.classifier(self.features(x)), 1)


@published("SqueezeNet", "Iandola et al., 2016", "fire modules, no BN, pools with ceil_mode")
def squeezenet() -> tuple[nn.Module, Tensor]:
    return SqueezeNet(), image(18)


class Inception(nn.Module):
    """Four branches, the last one a pool; their outputs side by side."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.branch1 = self.unit(before, width, 1)
        self.branch2 = nn.Sequential(self.unit(before, width // 2, 1), self.unit(width // 2, width, 3))
        self.branch3 = nn.Sequential(self.unit(before, width // 2, 1), self.unit(width // 2, width, 5))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), self.unit(before, width // 2, 1))

    @staticmethod
    def unit(before: int, after: int, kernel: int) -> nn.Sequential:
        layer = BConv(before, after, kernel, padding=kernel // 2, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(after, eps=0.001), Act())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


@published("GoogLeNet", "Szegedy et al., CVPR 2015; torchvision's code", "four branches, concatenated")
def googlenet() -> tuple[nn.Module, Tensor]:
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), Act()]
    body = [nn.MaxPool2d(2), Inception(16, 12)]
    return nn.Sequential(*stem, *body, nn.Dropout(0.2), *classifier(42)), image(12)


class Residual(nn.Module):
    def __init__(self, fn: nn.Module) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: Tensor) -> Tensor:
        return self.fn(x) + x


@published("ConvMixer", "Trockman and Kolter, 2022", "patches, depthwise layers with a shortcut")
def convmixer() -> tuple[nn.Module, Tensor]:
    dim, depth = 24, 1
    mixers = [
        nn.Sequential(
            Residual(
                nn.Sequential(
                    nn.Conv2d(dim, dim, 5, groups=dim, padding="same"), nn.GELU(), nn.BatchNorm2d(dim)
                )
            ),
            Act(),
            BConv(dim, dim, kernel_size=1),
            nn.BatchNorm2d(dim),
        )
        for _ in range(depth)
    ]
    stem = [nn.Conv2d(3, dim, kernel_size=2, stride=2), nn.GELU(), nn.BatchNorm2d(dim)]
    return nn.Sequential(*stem, *mixers, *classifier(dim)), image(12)


class Maxout(nn.Module):
    """BinaryConnect's multi-layer perceptron on flattened images."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.bn1, self.drop = BLinear(144, 96), nn.BatchNorm1d(96), nn.Dropout(0.2)
        self.fc2, self.bn2 = BLinear(96, 64), nn.BatchNorm1d(64)
        self.act1, self.act2, self.fc3 = Act(), Act(), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 144)
        x = self.drop(self.act1(self.bn1(self.fc1(x))))
        return self.fc3(self.act2(self.bn2(self.fc2(x))))


@published("BinaryNet MLP", "Hubara et al., NeurIPS 2016", "dense layers on flattened images")
def binarynet_mlp() -> tuple[nn.Module, Tensor]:
    return Maxout(), image(12, channels=1)
