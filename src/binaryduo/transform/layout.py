"""Where each channel of a decoupled tensor comes from, and the modules that turn one layout into another.

A tensor of the coupled network is a run of segments. In the decoupled network each segment holds its channels
`copies` times, blocked. A `State` says what the copies are: the plain value, bits whose mean is the value, or
the value plus a multiple of the shifts.
"""

import itertools
from dataclasses import dataclass
from math import lcm

import torch
from torch import Tensor, nn

from binaryduo.nn.copies import AverageCopies, ReplicateCopies, SelectChannels
from binaryduo.transform.shifts import NONE, Shift, ShiftValues


@dataclass(frozen=True)
class State:
    """How a coupled tensor appears in the decoupled network.

    `parts` is one (channels, copies) for each segment. `shift` is None where the mean of the copies is the
    coupled value but no single copy is known (bits); else copy i is the value plus that shift's i-th part.

    >>> State(((3, 2),), Shift(1)).channels
    6
    """

    parts: tuple[tuple[int, int], ...]
    shift: Shift | None = NONE

    @property
    def channels(self) -> int:
        return sum(size * copies for size, copies in self.parts)

    @property
    def plain(self) -> bool:
        return all(copies == 1 for _, copies in self.parts)

    @property
    def copies(self) -> int:
        """How often each channel is there; 0 where that differs between segments."""
        counts = {copies for _, copies in self.parts}
        return counts.pop() if len(counts) == 1 else 0

    def sources(self) -> Tensor:
        """For each decoupled channel, the coupled channel it is a copy of. Shape (channels,).

        >>> State(((2, 2), (1, 1))).sources().tolist()
        [0, 1, 0, 1, 2]
        """
        runs, start = [], 0
        for size, copies in self.parts:
            runs.append(torch.arange(start, start + size).repeat(copies))
            start += size
        return torch.cat(runs)

    def counts(self) -> Tensor:
        """For each coupled channel, how many copies it has.

        >>> State(((2, 2), (1, 1))).counts().tolist()
        [2, 2, 1]
        """
        return torch.cat([torch.full((size,), copies) for size, copies in self.parts])

    @property
    def evenly(self) -> int:
        """The fewest rows in which every copy of every channel can appear equally often.

        >>> State(((2, 2), (1, 3))).evenly
        6
        """
        return lcm(*(copies for _, copies in self.parts))

    def blocked(self) -> Tensor:
        """The index that picks, in `evenly` rows, a copy of every channel; each copy is picked equally often.

        >>> State(((2, 2), (1, 1))).blocked().tolist()
        [0, 1, 4, 2, 3, 4]
        """
        rows = []
        for row in range(self.evenly):
            at = 0
            for size, have in self.parts:
                rows.append(torch.arange(size) + at + size * (row % have))
                at += size * have
        return torch.cat(rows)

    def picked(self, channels: list[int]) -> tuple[Tensor, tuple[tuple[int, int], ...]]:
        """The decoupled channels that stand for some of the coupled ones, and the parts that they make.

        >>> index, parts = State(((3, 2),), shift=None).picked([2, 0])
        >>> index.tolist(), parts
        ([2, 0, 5, 3], ((2, 2),))
        """
        places: list[
            tuple[int, int, int]
        ] = []  # of each coupled channel: its first copy, their distance, how many
        at = 0
        for size, copies in self.parts:
            places += [(at + c, size, copies) for c in range(size)]
            at += size * copies
        index, parts = [], []
        for copies, run in itertools.groupby(channels, key=lambda c: places[c][2]):
            chosen = [places[c] for c in run]
            index += [first + copy * step for copy in range(copies) for first, step, _ in chosen]
            parts.append((len(chosen), copies))
        return torch.tensor(index), tuple(parts)


def plain(size: int) -> State:
    """The state of a tensor that is the same in both networks."""
    return State(((size, 1),))


def convert(source: State, target: State, dim: int, values: ShiftValues) -> list[nn.Module]:
    """The modules that bring a tensor from one state to another; none if it is there already.

    >>> convert(State(((4, 2),), None), plain(4), 1, ShiftValues({}, torch.empty(0)))
    [AverageCopies(copies=2)]
    """
    if source == target:
        return []
    if source.plain and target.plain:
        return []
    if target.plain:
        index = None if len(source.parts) == 1 else source.blocked().to(values.like.device)
        average = AverageCopies(source.evenly, index, dim)
        size = sum(n for n, _ in source.parts)
        excess = None if source.shift is None else values.mean(source.shift, size)
        return [average] if excess is None else [average, ReplicateCopies(-excess, 1, dim)]
    if target.shift is None:
        raise AssertionError("bits cannot be made from anything but an activation")
    size, copies = target.parts[0]
    if source.parts == target.parts and source.shift is not None:
        return [ReplicateCopies(values.vector(target.shift - source.shift, size, copies), 1, dim)]
    first = [] if source.plain else convert(source, plain(size), dim, values)
    bias = None if target.shift == NONE else values.vector(target.shift, size, copies)
    return [*first, ReplicateCopies(bias, copies, dim)]


def select(source: State, groups: int, dim: int, device: torch.device) -> tuple[list[nn.Module], State]:
    """Make every channel appear equally often, and each of `groups` groups of channels stand together.

    A layer with binary weights has one scale, so it cannot halve only some of its weights; a grouped
    convolution reads each group from one run of channels.
    """
    size = sum(n for n, _ in source.parts)
    if source.plain:
        return [], source
    if groups == 1 and source.copies:
        return [], source
    copies = source.evenly
    index = source.blocked().view(copies, groups, size // groups).transpose(0, 1).reshape(-1)
    target = State(((size // groups, copies),) * groups, source.shift)
    return [SelectChannels(index.to(device), dim)], target
