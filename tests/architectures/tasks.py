"""Other tasks than one label: segmentation, detection, reconstruction; and tokens."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd
from tests.architectures.registry import image, published

Act, BConv, BLinear = bd.nn.QuantAct, bd.nn.BinaryConv2d, bd.nn.BinaryLinear


class DoubleConv(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        first = BConv if before > 3 else nn.Conv2d
        self.double_conv = nn.Sequential(
            first(before, after, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            Act(),
            BConv(after, after, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            Act(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.double_conv(x)


class Up(nn.Module):
    """Upsampled, padded to the size of what it is concatenated with, convolved."""

    def __init__(self, before: int, after: int, bilinear: bool) -> None:
        super().__init__()
        self.up: nn.Module = nn.ConvTranspose2d(before, before // 2, kernel_size=2, stride=2)
        if bilinear:
            self.up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(before, before // 2, 1))
        self.conv = DoubleConv(before, after)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        x1 = self.up(x1)
        dy = x2.size()[2] - x1.size()[2]
        dx = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        x = torch.cat([x2, x1], dim=1)
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, classes: int = 3, bilinear: bool = False) -> None:
        super().__init__()
        self.inc = DoubleConv(3, 12)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(12, 24))
        self.up1, self.outc = Up(24, 12, bilinear), nn.Conv2d(12, classes, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        return self.outc(self.up1(self.down1(x1), x1))


@published("U-Net", "Ronneberger et al., MICCAI 2015; milesial's code", "transposed convolutions, skips")
def unet() -> tuple[nn.Module, Tensor]:
    return UNet(), image(12)


@published("U-Net, upsampled", "Ronneberger et al.; Odena et al., 2016", "nearest upsampling in their place")
def unet_upsampled() -> tuple[nn.Module, Tensor]:
    return UNet(bilinear=True), image(12)


class SSD(nn.Module):
    """Two scales; each has a layer for classes and one for boxes, whose pixels become a list of anchors."""

    def __init__(self, classes: int = 4, anchors: int = 2) -> None:
        super().__init__()
        self.classes = classes
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), Act())
        self.one = nn.Sequential(BConv(16, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), Act())
        self.two = nn.Sequential(BConv(24, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), Act())
        self.loc = nn.ModuleList([nn.Conv2d(c, anchors * 4, 3, padding=1) for c in (24, 32)])
        self.conf = nn.ModuleList([nn.Conv2d(c, anchors * classes, 3, padding=1) for c in (24, 32)])

    def forward(self, x: Tensor) -> Any:
        sources = [self.one(self.stem(x))]
        sources.append(self.two(sources[0]))
        loc, conf = [], []
        for x, l, c in zip(sources, self.loc, self.conf):  # noqa: B905, E741 (as the authors write it)
            loc.append(l(x).permute(0, 2, 3, 1).contiguous())
            conf.append(c(x).permute(0, 2, 3, 1).contiguous())
        loc = torch.cat([o.view(o.size(0), -1) for o in loc], 1)
        conf = torch.cat([o.view(o.size(0), -1) for o in conf], 1)
        return loc.view(loc.size(0), -1, 4), conf.view(conf.size(0), -1, self.classes)


@published("SSD", "Liu et al., ECCV 2016; de Groot's code", "two scales, two outputs, anchors as a list")
def ssd() -> tuple[nn.Module, Tensor]:
    return SSD(), image(16)


class CenterNet(nn.Module):
    """A heat map and a map of boxes, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            Act(),
            BConv(16, 24, 3, 2, 1, bias=False),
            nn.BatchNorm2d(24),
            Act(),
            nn.ConvTranspose2d(24, 16, 4, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            Act(),
        )
        self.heads = nn.ModuleDict(
            {
                name: nn.Sequential(
                    nn.Conv2d(16, 12, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(12, n, 1)
                )
                for name, n in (("hm", 3), ("wh", 2))
            }
        )

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.body(x)
        return {name: head(x) for name, head in self.heads.items()}


@published("CenterNet", "Zhou et al., 2019", "a dictionary of maps, transposed convolution")
def centernet() -> tuple[nn.Module, Tensor]:
    return CenterNet(), image(16)


class FPN(nn.Module):
    """Three scales, each added to the coarser one upsampled."""

    def __init__(self) -> None:
        super().__init__()

        def unit(before: int, after: int) -> nn.Sequential:
            return nn.Sequential(BConv(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), Act())

        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), Act())
        self.c2, self.c3 = unit(16, 24), unit(24, 32)
        self.lateral = nn.ModuleList([nn.Conv2d(n, 16, 1) for n in (16, 24, 32)])
        self.smooth = nn.ModuleList([nn.Conv2d(16, 8, 3, padding=1) for _ in range(3)])

    def _upsample_add(self, x: Tensor, y: Tensor) -> Tensor:
        _, _, height, width = y.size()
        return F.interpolate(x, size=(height, width), mode="bilinear", align_corners=False) + y

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        c1 = self.stem(x)
        c2 = self.c2(c1)
        p3 = self.lateral[2](self.c3(c2))
        p2 = self._upsample_add(p3, self.lateral[1](c2))
        p1 = self._upsample_add(p2, self.lateral[0](c1))
        return self.smooth[0](p1), self.smooth[1](p2), self.smooth[2](p3)


@published("FPN", "Lin et al., CVPR 2017; Yang's code", "three outputs, bilinear upsampling, additions")
def fpn() -> tuple[nn.Module, Tensor]:
    return FPN(), image(16)


@published(
    "Convolutional autoencoder", "Masci et al., ICANN 2011", "transposed convolutions, tanh at the end"
)
def autoencoder() -> tuple[nn.Module, Tensor]:
    encoder = [nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), Act()]
    encoder += [BConv(16, 24, 3, 2, 1), nn.BatchNorm2d(24), Act()]
    decoder = [nn.ConvTranspose2d(24, 16, 3, 2, 1, output_padding=1), nn.BatchNorm2d(16), Act()]
    decoder += [nn.ConvTranspose2d(16, 1, 3, 2, 1, output_padding=1), nn.Tanh()]
    return nn.Sequential(*encoder, *decoder), image(12, channels=1)


class SuperResolution(nn.Module):
    """ESPCN: layers at the low resolution, then channels become pixels."""

    def __init__(self, factor: int = 2) -> None:
        super().__init__()
        self.conv1, self.bn1, self.act1 = nn.Conv2d(1, 24, 5, padding=2), nn.BatchNorm2d(24), Act()
        self.conv2, self.bn2, self.act2 = BConv(24, 24, 3, padding=1), nn.BatchNorm2d(24), Act()
        self.conv3, self.shuffle = nn.Conv2d(24, factor**2, 3, padding=1), nn.PixelShuffle(factor)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act2(self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x))))))
        return torch.sigmoid(self.shuffle(self.conv3(x)))


@published("ESPCN", "Shi et al., CVPR 2016", "pixel shuffle")
def espcn() -> tuple[nn.Module, Tensor]:
    return SuperResolution(), image(8, channels=1)


class Encoder(nn.Module):
    """A transformer's block with float attention and a binary MLP."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.self_attention = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.fc1, self.ln_3, self.act, self.fc2 = (
            nn.Linear(dim, hidden),
            nn.LayerNorm(hidden),
            Act(),
            BLinear(hidden, dim),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = x + y
        return x + self.fc2(self.act(self.ln_3(self.fc1(self.ln_2(x)))))


class ViT(nn.Module):
    def __init__(self, dim: int = 16, patches: int = 9) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, dim, 4, 4)
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embedding = nn.Parameter(torch.randn(1, patches + 1, dim) * 0.02)
        self.layers, self.ln = nn.Sequential(Encoder(dim, 48)), nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 10)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        x = self.conv_proj(x).reshape(n, -1, 9).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(n, -1, -1), x], dim=1)
        x = self.ln(self.layers(x + self.pos_embedding))
        return self.head(x[:, 0])


@published("ViT with binary MLPs", "Dosovitskiy et al., ICLR 2021; torchvision's code", "attention in float")
def vit() -> tuple[nn.Module, Tensor]:
    return ViT(), image(12)


class MixerBlock(nn.Module):
    """MLP-Mixer: a layer over the tokens, then one over the channels."""

    def __init__(self, dim: int, tokens: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.token1, self.token2 = (
            nn.LayerNorm(dim),
            nn.Linear(tokens, hidden),
            nn.Linear(hidden, tokens),
        )
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(dim), nn.Linear(dim, hidden), BLinear(hidden, dim)
        self.act1, self.act2 = Act(), Act()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x).transpose(1, 2)
        x = x + self.token2(self.act1(self.token1(y))).transpose(1, 2)
        return x + self.fc2(self.act2(self.fc1(self.norm2(x))))


class Mixer(nn.Module):
    def __init__(self, dim: int = 16) -> None:
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, dim, 4, 4), MixerBlock(dim, 9, 32)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.block(x)).mean(dim=1))


@published("MLP-Mixer", "Tolstikhin et al., NeurIPS 2021", "dense layers over tokens and channels")
def mixer() -> tuple[nn.Module, Tensor]:
    return Mixer(), image(12)
