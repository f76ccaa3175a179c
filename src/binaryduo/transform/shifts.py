"""What the copies of a tensor have more than its value: the shift, as a sum of known parts, and its numbers.

Copy i goes into a binary activation with the threshold 1/2, and stands for the threshold t_i = τ_i + δ_i of the coupled
one: it needs 1/2 - t_i = s_i - δ_i more than the value. s_i is the same everywhere; the learned offsets δ_i belong to
one activation, and each of its channels may have its own. A stream that feeds several activations carries the shift of
one of them, and a branch that is added to it the difference to the next. So shifts are added and subtracted as symbols,
exactly, and become numbers only where a bias takes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from binaryduo.nn.copies import shift_vector


@dataclass(frozen=True)
class Shift:
    """`times` s_i, minus multiples of the offsets of activations with learned thresholds, by their names.

    >>> Shift(1, (("act2", 1),)) - Shift(1, (("act1", 1),))
    Shift(times=0, learned=(('act1', -1), ('act2', 1)))
    """

    times: int = 0
    learned: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: "Shift") -> "Shift":
        total = dict(self.learned)
        for name, count in other.learned:
            total[name] = total.get(name, 0) + count
        kept = tuple(sorted((name, count) for name, count in total.items() if count))
        return Shift(self.times + other.times, kept)

    def __neg__(self) -> "Shift":
        return Shift(-self.times, tuple((name, -count) for name, count in self.learned))

    def __sub__(self, other: "Shift") -> "Shift":
        return self + -other


NONE = Shift()


class ShiftValues:
    """The numbers of shifts: `offsets` are the learned ones of each activation, (copies, channels) or (copies, 1)."""

    def __init__(self, offsets: Mapping[str, Tensor], like: Tensor) -> None:
        self.offsets, self.like = offsets, like

    def vector(self, shift: Shift, size: int, copies: int) -> Tensor:
        """What is added to each of copies × size channels, blocked. Shape (copies * size,).

        >>> values = ShiftValues({"act": torch.tensor([[0.0], [0.1]])}, torch.empty(0))
        >>> values.vector(Shift(1, (("act", 1),)), size=1, copies=2).tolist()
        [0.25, -0.3499999940395355]
        """
        total = shift_vector(size, copies, shift.times, self.like)
        for name, count in shift.learned:
            total = total - count * self._expanded(name, size).to(total).reshape(-1)
        return total

    def mean(self, shift: Shift, size: int) -> Tensor | None:
        """The mean over the copies of each channel, (size,); None where it is 0, as it is without learned offsets."""
        if not shift.learned:
            return None
        total = torch.zeros(size, dtype=self.like.dtype, device=self.like.device)
        for name, count in shift.learned:
            total = total - count * self._expanded(name, size).mean(0).to(total)
        return total

    def uniform(self, shift: Shift) -> bool:
        """Whether all channels have the same shift, so that it survives a flattening."""
        return all(self.offsets[name].shape[1] == 1 for name, _ in shift.learned)

    def _expanded(self, name: str, size: int) -> Tensor:
        own = self.offsets[name]
        return own.expand(own.shape[0], size)
