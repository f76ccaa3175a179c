"""A plain multi-layer perceptron: the smallest network on which everything can be tried."""

from torch import Tensor, nn

from binaryduo.models.layers import BINARY, Quantization

BASELINE = (512, 512, 512)


class MLP(nn.Module):
    """Dense layers, each with BN and activation, and a classifier; no biases. Images are flattened."""

    def __init__(
        self,
        widths: tuple[int, ...] = BASELINE,
        quantization: Quantization = BINARY,
        num_classes: int = 10,
        in_channels: int = 1,
        image_size: int = 28,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = in_channels * image_size * image_size
        for i, width in enumerate(widths):
            linear = nn.Linear if i == 0 else quantization.linear
            layers += [linear(before, width, bias=False), nn.BatchNorm1d(width), quantization.act()]
            before = width
        self.hidden = nn.Sequential(*layers)
        self.classifier = nn.Linear(before, num_classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.hidden(x.flatten(1)))  # type: ignore[no-any-return]
