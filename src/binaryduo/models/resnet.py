"""ResNet-18 with one shortcut per block or per convolution (Bi-Real-Net's "+sc"); Appendix D. For small images too."""

from torch import Tensor, nn

from binaryduo.models.layers import BINARY, Quantization
from binaryduo.nn.padding import PadChannels

# The four stages' widths, then the width of the very last convolution.
BASELINE = (64, 128, 256, 512, 512)
COUPLED = (64, 90, 180, 360, 512)  # the authors' own choice, not the rule's


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    """The stream's way around a branch: as it is, halved and projected, or widened with zeros."""
    if stride == 2:
        return nn.Sequential(
            nn.AvgPool2d(2),
            nn.Conv2d(before, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
    return nn.Identity() if before == after else PadChannels(after)


class Block(nn.Module):
    """act, conv, BN, act, conv, BN, added to the stream; with `extra` the stream goes around each conv."""

    def __init__(
        self, before: int, middle: int, after: int, stride: int, quantization: Quantization, extra: bool
    ) -> None:
        super().__init__()
        conv, act = quantization.conv, quantization.act
        self.extra = extra
        self.act1 = act()
        self.conv1 = conv(before, middle, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.act2 = act()
        self.conv2 = conv(middle, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        if extra:
            self.shortcut1 = _shortcut(before, middle, stride)
            self.shortcut2 = _shortcut(middle, after, 1)
        else:
            self.shortcut = _shortcut(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(self.act1(x)))
        if self.extra:
            y = y + self.shortcut1(x)
            return self.bn2(self.conv2(self.act2(y))) + self.shortcut2(y)  # type: ignore[no-any-return]
        return self.bn2(self.conv2(self.act2(y))) + self.shortcut(x)  # type: ignore[no-any-return]


class ResNet18(nn.Module):
    """A 7×7 convolution, four stages of two blocks, a classifier. (N, 3, 224, 224) in, (N, classes) out.

    With `small` the first convolution is 3×3, and neither it nor a pooling makes the image smaller: what people use
    for images of 32×32, which the other form would bring down to 8×8 before the first block.
    """

    def __init__(
        self,
        widths: tuple[int, ...] = BASELINE,
        quantization: Quantization = BINARY,
        num_classes: int = 1000,
        in_channels: int = 3,
        image_size: int = 224,
        extra: bool = False,
        small: bool = False,
    ) -> None:
        super().__init__()
        *stages, last = widths
        kernel, stride = (3, 1) if small else (7, 2)
        self.conv = nn.Conv2d(in_channels, stages[0], kernel, stride, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(stages[0])
        self.relu = nn.ReLU()
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, padding=1)
        self.bn_stream = nn.BatchNorm2d(stages[0])
        blocks, before = [], stages[0]
        for stage, width in enumerate(stages):
            after = last if stage == len(stages) - 1 else width
            blocks.append(Block(before, width, width, 1 if stage == 0 else 2, quantization, extra))
            blocks.append(Block(width, width, after, 1, quantization, extra))
            before = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn(self.conv(x)))  # (N, 64, 112, 112)
        x = self.bn_stream(self.pool(x))  # (N, 64, 56, 56)
        x = self.blocks(x)  # (N, 512, 7, 7)
        return self.classifier(self.head(x))  # type: ignore[no-any-return]
