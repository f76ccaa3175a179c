"""The parts that all networks share: a choice of weights, and how activations are made."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from binaryduo.nn import BinaryConv2d, BinaryLinear, QuantAct
from binaryduo.nn.intervals import Interval
from binaryduo.ste import STE


@dataclass(frozen=True)
class Quantization:
    """How a network's hidden layers are quantized: activation levels, STE, bits of a weight (1 or 32), and
    whether thresholds are learned.

    >>> Quantization(levels=3).act()
    QuantAct(levels=3, ste='relu1')
    """

    levels: int | None = 2
    ste: "str | STE" = "relu1"
    weight_bits: int = 32
    interval: Interval | None = None

    def act(self) -> QuantAct:
        return QuantAct(self.levels, self.ste, interval=self.interval)

    @property
    def conv(self) -> type[nn.Conv2d]:
        return BinaryConv2d if self.weight_bits == 1 else nn.Conv2d

    @property
    def linear(self) -> type[nn.Linear]:
        return BinaryLinear if self.weight_bits == 1 else nn.Linear


BINARY = Quantization()

# (widths, quantization, num_classes, in_channels, image_size) -> the network
Maker = Callable[[tuple[int, ...], Quantization, int, int, int], nn.Module]
