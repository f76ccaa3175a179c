"""How channels flow through a graph: groups of channels that must stay as many as each other, and their levels."""

import math
from dataclasses import dataclass, field, replace
from itertools import groupby

import torch
from torch import fx, nn

from binaryduo import nn as bnn
from binaryduo.graph.channel_moves import selected_channels
from binaryduo.graph.operations import Call, Kind
from binaryduo.graph.reshapes import channel_dim_after_pool, channels_after_reshape
from binaryduo.graph.size_reads import consumers, size_readers


@dataclass(eq=False)
class Group:
    """Channels that are as many as each other everywhere. `quantized`: an activation acts on them."""

    size: int
    name: str  # the qualified name of the layer that makes them
    fixed: str | None = None  # why their number cannot change
    quantized: bool = False
    divisor: int = 1  # their number must stay a multiple of this (grouped convolutions)
    parts: tuple["Group", ...] = ()  # the groups it turned out to be: one it was united with, or a sequence

    def leaves(self) -> list["Group"]:
        """The groups that these channels are made of, in order; itself unless it was united or divided."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]

    def become(self, *others: "Group") -> None:
        """Be the same channels as a sequence of other groups from now on."""
        self.parts = others
        for leaf in self.leaves():
            leaf.quantized = leaf.quantized or self.quantized
            leaf.fixed = leaf.fixed if leaf.fixed is not None else self.fixed
            leaf.divisor = math.lcm(leaf.divisor, self.divisor)


@dataclass(frozen=True)
class Segment:
    """A run of channels in a tensor: `scale` values for each channel of a group (more than 1 when flattened).

    `levels` is how many values the channels can take if they come unchanged from an activation.
    """

    group: Group = field(repr=False)
    scale: int = 1
    levels: int | None = None
    exact: bool = True  # every value is one of the levels (an average pool makes values in between)
    mixed: int | None = None  # where levels is None: those of some of the channels, which can be split still

    @property
    def size(self) -> int:
        return self.group.size * self.scale

    @property
    def quantized(self) -> bool:
        """Whether an activation acts on any of these channels, here or elsewhere."""
        return any(leaf.quantized for leaf in self.group.leaves())

    @property
    def spread(self) -> bool:
        """Whether the channels themselves are copied with topology "quad": those that `couple` can narrow."""
        return self.quantized and all(leaf.fixed is None for leaf in self.group.leaves())


@dataclass
class Info:
    """What is known of one node of the graph. `kind` is the call's, or weaker where its tensors do not fit it."""

    kind: Kind
    call: Call
    shape: tuple[int, ...] = ()
    dim: int = 1  # which dimension the channels are in
    segments: tuple[Segment, ...] = ()


class Flow:
    """Follows channel groups forward through the graph, joining those that must stay equal."""

    def __init__(self, calls: dict[fx.Node, Call]) -> None:
        self.calls = calls
        self.info: dict[fx.Node, Info] = {}

    def visit(self, node: fx.Node) -> None:
        call = self.calls[node]
        kind = call.kind
        if kind is Kind.SCALAR:
            self.info[node] = Info(kind, call)
            return
        sources = [self.info[n] for n in node.all_input_nodes if self.info[n].kind is not Kind.SCALAR]
        if kind is Kind.OUTPUT:
            for source in sources:
                self.fix(source, "they are the model's output")
            self.info[node] = Info(kind, call, (), 1, sources[0].segments if len(sources) == 1 else ())
            return
        self.info[node] = Info(kind, call, call.shape)
        if kind is Kind.LAYER:
            segments, dim = self.layer(call, sources[0])
        elif kind in (Kind.NORM, Kind.QUANT, Kind.ELEMENTWISE, Kind.SCALED):
            segments, dim = self.keep(call, kind, sources[0])
        elif kind in (Kind.POOL, Kind.WEIGHTED):
            segments, dim = self.pool(call, sources[0])
        elif kind is Kind.RESHAPE:
            segments, dim = self.reshape(call, sources[0])
        elif kind in (Kind.ADD, Kind.JOIN):
            segments, dim = self.join(call, sources)
        elif kind is Kind.CAT:
            segments, dim = self.cat(call, sources)
        elif kind in (Kind.PAD, Kind.SELECT) and sources[0].dim == 1:
            segments, dim = self.choose(call, kind, sources[0])
        elif kind is Kind.PARAMETER:
            dim = call.shape.index(max(call.shape))
            segments = (Segment(Group(call.shape[dim], str(call.node.target))),)
        elif kind is Kind.INPUT:
            segments, dim = self.fresh(call, "they are the model's input")
        else:
            segments, dim = self.other(
                call, sources, f"{call.written} is not an operation that binaryduo can follow"
            )
        self.info[node].segments, self.info[node].dim = segments, dim

    def fix(self, source: Info, why: str) -> None:
        for leaf in _leaves(source.segments):
            leaf.fixed = leaf.fixed if leaf.fixed is not None else why

    def fix_counted(self) -> None:
        """Channels whose number an unknown operation computes with, as torch.zeros(n, x.shape[1]) does."""
        scalars = {node for node, info in self.info.items() if info.kind is Kind.SCALAR}
        for node, info in self.info.items():
            if node in scalars or len(info.shape) < 2:
                continue
            for reader in size_readers(node, scalars, info.dim, len(info.shape)):
                ends = consumers(reader, scalars)
                if any(self.info[end].kind is Kind.OTHER or end.target is torch._assert for end in ends):
                    self.fix(info, f"forward() computes with their number, {reader.name!r}")

    def other(self, call: Call, sources: list[Info], why: str) -> tuple[tuple[Segment, ...], int]:
        """An operation that is not followed: what goes in keeps its width, and so does what comes out."""
        self.info[call.node].kind = Kind.OTHER
        for source in sources:
            self.fix(source, why)
        if call.node.op == "get_attr":
            (one,), dim = self.fresh(
                call, f"{call.node.target!r}, which is no parameter, has a number for each"
            )
            if call.shape and max(call.shape) == math.prod(call.shape):  # (C, 1, 1)
                one.group.size, dim = max(call.shape), call.shape.index(max(call.shape))
            return (one,), dim
        return self.fresh(call, f"they come out of {call.written}")

    @staticmethod
    def fresh(call: Call, why: str) -> tuple[tuple[Segment, ...], int]:
        """New channels of a fixed number: in dimension 1, or 0 of a tensor that has no other."""
        shape = call.shape
        dim = min(1, max(0, len(shape) - 1))
        return (Segment(Group(shape[dim] if shape else 1, call.node.name, fixed=why)),), dim

    def layer(self, call: Call, source: Info) -> tuple[tuple[Segment, ...], int]:
        module, name = call.module, str(call.node.target)
        assert module is not None
        dim = layer_dim(module, call.shape)
        if source.dim != dim:
            self.fix(source, f"layer {name!r} works on another dimension")
        groups = getattr(module, "groups", 1)
        group = Group(call.shape[dim], name, divisor=groups)
        if groups > 1:
            leaves = _leaves(source.segments)
            if len(leaves) != 1 or source.segments[0].scale != 1 or source.dim != dim:
                self.fix(source, f"the grouped convolution {name!r} needs them as they are")
                group.fixed = f"{name!r} is a grouped convolution"
            elif groups == module.in_channels == module.out_channels:
                group = leaves[0]  # depthwise: as many out as in
            else:
                leaves[0].divisor = math.lcm(leaves[0].divisor, groups)
        return (Segment(group),), dim

    def keep(self, call: Call, kind: Kind, source: Info) -> tuple[tuple[Segment, ...], int]:
        """The same channels with other values."""
        if kind is Kind.QUANT:
            assert isinstance(call.module, bnn.QuantAct)
            for leaf in _leaves(source.segments):
                leaf.quantized = True
            return tuple(Segment(s.group, s.scale, call.module.levels) for s in source.segments), source.dim
        if kind is Kind.NORM and source.dim != 1:
            return self.other(call, [source], f"{call.node.target!r} normalises another dimension")
        if kind is Kind.SCALED and (why := self.scaled(call, source)) is not None:
            return self.other(call, [source], why)
        return tuple(Segment(s.group, s.scale) for s in source.segments), source.dim

    def scaled(self, call: Call, source: Info) -> str | None:
        """Why the numbers that a module has for each channel could not follow another width; None where they can."""
        module, name = call.module, call.node.target
        if isinstance(module, nn.LayerNorm):
            return None
        if source.dim != 1:
            return f"{name!r} works on another dimension"
        if isinstance(module, nn.GroupNorm) and module.num_groups > 1:
            leaves = _leaves(source.segments)
            if len(leaves) != 1 or source.segments[0].scale != 1:
                return f"the groups of {name!r} need them as they are"
            leaves[0].divisor = math.lcm(leaves[0].divisor, module.num_groups)
        return None

    def pool(self, call: Call, source: Info) -> tuple[tuple[Segment, ...], int]:
        """The same channels, of fewer or other pixels; an average makes values between the levels."""
        dim = channel_dim_after_pool(call, source.dim)
        if dim is None:
            return self.other(call, [source], f"{call.written} mixes or moves channels")
        blur = call.averages
        segments = (replace(s, exact=s.exact and not blur) for s in source.segments)
        return tuple(segments), dim

    def choose(self, call: Call, kind: Kind, source: Info) -> tuple[tuple[Segment, ...], int]:
        """Some channels, or zero channels beside them: levels stay, since zero is a level too."""
        if kind is Kind.SELECT and (part := self.slice(call, source)) is not None:
            return part, 1
        if kind is Kind.SELECT:
            self.fix(source, f"{call.written} picks channels one by one")
            return self.picked(call, source), 1
        found = {s.levels if s.exact else None for s in source.segments}
        levels = found.pop() if len(found) == 1 else None
        mixed = max((s.levels or s.mixed or 0 for s in source.segments), default=0)
        return (Segment(Group(call.shape[1], call.node.name), 1, levels, True, mixed or None),), 1

    @staticmethod
    def picked(call: Call, source: Info) -> tuple[Segment, ...]:
        """Channels that were picked one by one: each run of those that carry the same levels."""
        known = [(s.levels, s.exact, s.mixed) for s in source.segments for _ in range(s.size)]
        why, segments = f"{call.written} picks them one by one", []
        for (levels, exact, mixed), run in groupby(known[channel] for channel in selected_channels(call)):
            group = Group(len(list(run)), call.node.name, fixed=why)
            segments.append(Segment(group, 1, levels, exact, mixed))
        return tuple(segments)

    @staticmethod
    def slice(call: Call, source: Info) -> tuple[Segment, ...] | None:
        """Neighbouring channels are groups of their own, so that each part can have a width of its own; None where
        others are picked, or where a group cannot be divided."""
        channels = selected_channels(call)
        first, last = channels[0], channels[-1] + 1
        if call.operation.name != "slice" or channels != list(range(first, last)):
            return None
        for edge in (first, last):
            at = 0
            for leaf, scale in [(leaf, s.scale) for s in source.segments for leaf in s.group.leaves()]:
                if at < edge < at + leaf.size * scale:
                    if scale != 1 or leaf.divisor != 1 or leaf.size < 2:
                        return None
                    leaf.become(*(Group(n, leaf.name) for n in (edge - at, at + leaf.size - edge)))
                    break
                at += leaf.size * scale
        at, chosen = 0, []
        for segment in source.segments:
            for leaf in segment.group.leaves():
                if first <= at < last:
                    chosen.append(replace(segment, group=leaf))
                at += leaf.size * segment.scale
        return tuple(chosen)

    def reshape(self, call: Call, source: Info) -> tuple[tuple[Segment, ...], int]:
        moved = channels_after_reshape(call, source.dim)
        if moved is None:
            return self.other(call, [source], f"{call.written} moves channels to another dimension")
        dim, scale = moved
        return tuple(replace(s, scale=s.scale * scale) for s in source.segments), dim

    def join(self, call: Call, sources: list[Info]) -> tuple[tuple[Segment, ...], int]:
        shape, name = call.shape, call.node.name
        sources = [s for s in sources if math.prod(s.shape) != 1] or sources  # a single number fits any
        first = next((s for s in sources if len(s.shape) == len(shape)), sources[0])
        for source in sources:
            # Shapes meet at their ends: (C, 1, 1) fits (N, C, H, W).
            alike = source.dim + len(shape) - len(source.shape) == first.dim
            if not alike:
                self.info[call.node].kind = Kind.JOIN
            if not alike or not _unite(first.segments, source.segments):
                for each in sources:
                    self.fix(each, f"{call.written} joins tensors whose channels are laid out differently")
                size = shape[first.dim] if len(shape) > first.dim else 1
                return (Segment(Group(size, name, fixed=f"they come out of {call.written}")),), first.dim
        return tuple(Segment(s.group, s.scale) for s in first.segments), first.dim

    def cat(self, call: Call, sources: list[Info]) -> tuple[tuple[Segment, ...], int]:
        axis, parts = call["dim"], [self.info[n] for n in call.sources]
        ndim = len(parts[0].shape)
        if isinstance(axis, int) and all(p.dim == axis % ndim for p in parts):
            return tuple(s for p in parts for s in p.segments), axis % ndim
        self.info[call.node].kind = Kind.JOIN
        return self.join(call, sources)


def layer_dim(layer: nn.Module, shape: tuple[int, ...]) -> int:
    """The dimension of a tensor of that shape that a layer sums over or puts its outputs in."""
    return len(shape) - 1 if isinstance(layer, nn.Linear) else 1


def _leaves(segments: tuple[Segment, ...]) -> list[Group]:
    return [leaf for s in segments for leaf in s.group.leaves()]


def _unite(a: tuple[Segment, ...], b: tuple[Segment, ...]) -> bool:
    """Make two runs of channels as wide as each other from now on; False where that cannot be said simply.

    Group by group where they are divided alike; where one is a single group and the other a concatenation,
    the single one becomes that sequence.
    """
    left = [(leaf, s.scale) for s in a for leaf in s.group.leaves()]
    right = [(leaf, s.scale) for s in b for leaf in s.group.leaves()]
    if [(g.size, scale) for g, scale in left] == [(g.size, scale) for g, scale in right]:
        for (x, _), (y, _) in zip(left, right, strict=True):
            if x.leaves() != y.leaves():
                y.become(x)
        return True
    for one, many in ((left, right), (right, left)):
        groups = [g for g, _ in many]
        if len(one) == 1 and {scale for _, scale in [*one, *many]} == {1} and one[0][0].divisor == 1:
            if any(g is one[0][0] for g in groups) or one[0][0].size != sum(g.size for g in groups):
                return False
            one[0][0].become(*groups)
            return True
    return False
