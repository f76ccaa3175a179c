"""AlexNet for ImageNet with BN instead of local response normalisation (Appendix D)."""

from torch import Tensor, nn

from binaryduo.errors import ArgumentError
from binaryduo.models.layers import BINARY, Quantization

BASELINE = (96, 256, 384, 384, 256, 4096, 4096)
COUPLED = (88, 192, 256, 256, 192, 2400, 4096)  # the authors' own choice, not the rule's
DROPOUT = 0.1


class AlexNet(nn.Module):
    """Five convolutions and three dense layers; no biases; first and last layer in full precision.

    (N, 3, 224, 224) becomes (N, 256, 6, 6) before the first dense layer.
    """

    def __init__(
        self,
        widths: tuple[int, ...] = BASELINE,
        quantization: Quantization = BINARY,
        num_classes: int = 1000,
        in_channels: int = 3,
        image_size: int = 224,
    ) -> None:
        super().__init__()
        size = _spatial(image_size)
        if size < 1:
            raise ArgumentError(f"alexnet needs image_size 63 or more, not {image_size}")
        c1, c2, c3, c4, c5, d1, d2 = widths
        conv, linear, act = quantization.conv, quantization.linear, quantization.act
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, c1, 11, stride=4, padding=2, bias=False),
            nn.MaxPool2d(3, 2),
            nn.BatchNorm2d(c1),
            act(),
            conv(c1, c2, 5, padding=2, bias=False),
            nn.MaxPool2d(3, 2),
            nn.BatchNorm2d(c2),
            act(),
            conv(c2, c3, 3, padding=1, bias=False),
            nn.BatchNorm2d(c3),
            act(),
            conv(c3, c4, 3, padding=1, bias=False),
            nn.BatchNorm2d(c4),
            act(),
            conv(c4, c5, 3, padding=1, bias=False),
            nn.MaxPool2d(3, 2),
            nn.BatchNorm2d(c5),
            act(),
        )
        self.dense = nn.Sequential(
            linear(c5 * size * size, d1, bias=False),
            nn.BatchNorm1d(d1),
            act(),
            nn.Dropout(DROPOUT),
            linear(d1, d2, bias=False),
            nn.BatchNorm1d(d2),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
        )
        self.classifier = nn.Linear(d2, num_classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)  # (N, c5, 6, 6)
        x = self.dense(x.flatten(1))  # (N, d2)
        return self.classifier(x)  # type: ignore[no-any-return]


def _spatial(image_size: int) -> int:
    """What is left of an image's side behind the convolutions: 6 of 224."""
    size = (image_size + 4 - 11) // 4 + 1
    for _ in range(3):
        size = (size - 3) // 2 + 1
    return size
