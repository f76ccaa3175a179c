"""The quantized activation of a network (Equation 1), with fixed or learned thresholds (Appendix G)."""

from typing import Any

import torch
from torch import Tensor, nn

from binaryduo import ste as stes
from binaryduo.errors import ArgumentError, unknown_name
from binaryduo.nn.intervals import INTERVALS, Interval, quantize_learned, thresholds_of
from binaryduo.nn.staircase import quantize
from binaryduo.ste import STE

# torch.fx records these as calls wherever this file names them.
torch.fx.wrap("quantize")
torch.fx.wrap("quantize_learned")


class QuantAct(nn.Module):
    """An activation with evenly spaced levels in [0, 1]: 2 is binary, 3 ternary, None a plain ReLU.

    `slope` belongs to the STE (its own default where None) and may be raised while training. With
    `soft=True` the forward pass in training is the STE itself, as in continuous binarization, so that
    there is no gradient mismatch to begin with; in evaluation the staircase is always used.

    With `interval` the thresholds are learned, one set for the layer or one for each channel (dimension 1); the levels
    stay where they are. Their distances from the fixed thresholds are the parameter `offsets`, zero at first, blocked
    as copies are: all channels of the first threshold, then all of the second. The number of `channels` is found in
    the first forward pass unless it is given. In training, thresholds are kept in order and apart.

    >>> act = QuantAct(levels=3)
    >>> act(torch.tensor([0.1, 0.5, 0.9])).tolist()
    [0.0, 0.5, 1.0]
    >>> act = QuantAct(levels=3, interval="channel")
    >>> act(torch.rand(2, 5)).shape, act.thresholds.shape
    (torch.Size([2, 5]), torch.Size([2, 5]))
    """

    interval: Interval | None = None  # for models saved before there were learned thresholds
    offsets: nn.Parameter | None

    def __init__(
        self,
        levels: int | None = 2,
        ste: "str | STE" = "relu1",
        slope: float | None = None,
        soft: bool = False,
        interval: Interval | None = None,
        channels: int | None = None,
    ) -> None:
        super().__init__()
        if slope is not None and not slope > 0:
            raise ArgumentError(f"slope must be positive, not {slope!r}")
        stes.get(ste)  # an unknown name is refused here, not in the first backward pass
        self.ste, self.slope, self.soft = ste, slope, soft
        self.set_levels(levels, interval, channels)

    def set_levels(
        self,
        levels: int | None,
        interval: Interval | None = None,
        channels: int | None = None,
        like: Tensor | None = None,
    ) -> None:
        """Start again with that many levels, and with thresholds that are fixed or to be learned.

        >>> act = QuantAct()
        >>> act.set_levels(4, "layer")
        >>> act
        QuantAct(levels=4, ste='relu1', interval='layer')
        """
        if levels is not None:
            stes.check_levels(levels)
        check_interval(interval, levels)
        self.levels, self.interval = levels, interval
        offsets = None
        if levels is not None and interval is not None:
            count = (levels - 1) * (channels if interval == "channel" and channels is not None else 1)
            offsets = nn.Parameter(torch.zeros(count) if like is None else like.new_zeros(count))
        self.register_parameter("offsets", offsets)

    def reset_parameters(self) -> None:
        """Put learned thresholds back to where they start."""
        if self.interval is not None and self.offsets is not None:
            nn.init.zeros_(self.offsets)

    @property
    def thresholds(self) -> Tensor:
        """Where the activation goes up: (levels - 1, 1), or (levels - 1, C) where each channel learns its own.

        >>> QuantAct(levels=3).thresholds.tolist()
        [[0.25], [0.75]]
        """
        if self.levels is None:
            raise ArgumentError("a full-precision activation (levels=None) has no thresholds")
        starts = torch.tensor(stes.thresholds(self.levels)).unsqueeze(1)
        if self.interval is None or self.offsets is None:
            return starts
        return starts.to(self.offsets) + self.offsets.detach().view(self.levels - 1, -1)

    def steps(self, dims: int) -> "list[Tensor] | list[float]":
        """Each threshold as a number, or as a tensor that broadcasts against one with `dims` dimensions."""
        assert self.levels is not None
        if self.interval is None or self.offsets is None:
            return stes.thresholds(self.levels)
        return thresholds_of(self.offsets.detach(), self.levels, dims)

    def forward(self, x: Tensor) -> Tensor:
        if self.levels is None:
            return torch.relu(x)
        soft = self.soft and self.training
        if self.interval is not None:
            assert self.offsets is not None
            each = self.interval == "channel"
            return quantize_learned(
                x, self.offsets, self.levels, self.ste, self.slope, each, self.training, soft
            )
        if soft:
            return stes.function(self.ste, x, self.levels, self.slope)
        return quantize(x, self.levels, self.ste, self.slope)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(f"{prefix}offsets")
        if self.interval == "channel" and self.levels is not None and self.offsets is not None:
            whole = isinstance(saved, Tensor) and saved.dim() == 1 and saved.numel() % (self.levels - 1) == 0
            if whole and saved is not None and self.offsets.numel() == self.levels - 1:
                self.offsets.data = self.offsets.data.new_zeros(saved.numel())
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        name = self.ste if isinstance(self.ste, str) else self.ste.name
        parts = [f"levels={self.levels}", f"ste={name!r}"]
        if self.slope is not None:
            parts.append(f"slope={self.slope}")
        if self.soft:
            parts.append("soft=True")
        if self.interval is not None:
            parts.append(f"interval={self.interval!r}")
        return ", ".join(parts)


def check_interval(interval: str | None, levels: "int | str | None" = 2) -> None:
    """Refuse an interval that is not known, and one for an activation without levels.

    >>> check_interval("pixel")
    Traceback (most recent call last):
    binaryduo.errors.UnknownNameError: unknown interval 'pixel': choose one of layer, channel
    """
    if interval is not None and interval not in INTERVALS:
        raise unknown_name("interval", interval, list(INTERVALS))
    if interval is not None and levels is None:
        raise ArgumentError("a full-precision activation (levels=None) has no thresholds: leave interval out")
