"""Zero channels: how a shortcut without parameters is widened."""

from torch import Tensor, nn
from torch.nn import functional as F


class PadChannels(nn.Module):
    """Appends zero channels until there are `channels` of them: a parameter-free widening shortcut.

    >>> PadChannels(4)(torch.ones(1, 3, 1, 1)).flatten().tolist()
    [1.0, 1.0, 1.0, 0.0]
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, [0, 0] * (x.dim() - 2) + [0, self.channels - x.shape[1]])

    def extra_repr(self) -> str:
        return f"channels={self.channels}"
