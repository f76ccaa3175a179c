"""VGG-7, the network of the paper's CIFAR-10 experiments (Appendix A)."""

from torch import Tensor, nn

from binaryduo.errors import ArgumentError
from binaryduo.models.layers import BINARY, Quantization

BASELINE = (64, 64, 128, 128, 512, 512)


class VGG7(nn.Module):
    """Four 3×3 convolutions and three dense layers; no biases; the last hidden activation is a plain ReLU.

    Images are halved three times, so (N, 3, 32, 32) becomes (N, 128, 4, 4) before the first dense layer.
    """

    def __init__(
        self,
        widths: tuple[int, ...] = BASELINE,
        quantization: Quantization = BINARY,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
    ) -> None:
        super().__init__()
        if image_size < 8:
            raise ArgumentError(
                f"vgg7 halves its images three times: image_size must be 8 or more, not {image_size}"
            )
        c1, c2, c3, c4, d1, d2 = widths
        conv, linear, act = quantization.conv, quantization.linear, quantization.act
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, c1, 3, padding=1, bias=False),
            nn.BatchNorm2d(c1),
            act(),
            conv(c1, c2, 3, padding=1, bias=False),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(c2),
            act(),
            conv(c2, c3, 3, padding=1, bias=False),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(c3),
            act(),
            conv(c3, c4, 3, padding=1, bias=False),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(c4),
            act(),
        )
        self.dense = nn.Sequential(
            linear(c4 * (image_size // 8) ** 2, d1, bias=False),
            nn.BatchNorm1d(d1),
            act(),
            linear(d1, d2, bias=False),
            nn.BatchNorm1d(d2),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(d2, num_classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)  # (N, c4, H/8, W/8)
        x = self.dense(x.flatten(1))  # (N, d2)
        return self.classifier(x)  # type: ignore[no-any-return]
