"""The widths of a coupled network: the paper's rule, what it leaves, or what the user asks for.

Every channel group on which a quantized activation acts is narrowed to ⌊N / √(levels - 1)⌋, so that
decoupling, which multiplies the weights behind an activation by levels - 1, gives about the baseline's
number of weights again. A layer that reads narrowed channels but whose own output is not narrowed (a boundary
layer) comes out √(levels - 1) times larger than the baseline's; its input is narrowed further until the
decoupled network has no more weights than the baseline.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import fx, nn

from binaryduo import nn as bnn
from binaryduo.errors import ArgumentError, GraphError
from binaryduo.graph.analysis import Analysis
from binaryduo.graph.channel_moves import selected_channels
from binaryduo.graph.flow import Group, Segment
from binaryduo.graph.operations import Kind
from binaryduo.ste import check_levels
from binaryduo.transform.carrying import Topology
from binaryduo.transform.resizing import is_depthwise


def coupled_width(n: int, levels: int = 3) -> int:
    """⌊n / √(levels - 1)⌋, and at least 1: how wide a coupled layer is (Section 5.2).

    >>> [coupled_width(n) for n in (64, 128, 512)]
    [45, 90, 362]
    """
    check_levels(levels)
    return max(1, math.isqrt(n * n // (levels - 1)))


@dataclass
class Coupling:
    """What `couple` did and why: kept on the result as `model.coupling`; print it to be told.

    `widths` maps each layer that changed to its number of outputs before and after. `decoupled_weights` is
    exact for "duo" and an upper bound for "quad".
    """

    levels: int
    topology: str
    widths: dict[str, tuple[int, int]]
    baseline_weights: int
    decoupled_weights: int
    reasons: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)  # layer with an activation -> why it was not narrowed

    def __str__(self) -> str:
        lines = [f"coupled ({self.topology}, {self.levels} levels)"]
        lines += [f"  {name}: {before} -> {after}" for name, (before, after) in self.widths.items()]
        lines += [f"  {name}: keeps its width because {why}" for name, why in self.kept.items()]
        lines += [f"  {reason}" for reason in self.reasons]
        lines.append(
            f"  decoupled it will have {self.decoupled_weights:,} weights, "
            f"the baseline has {self.baseline_weights:,}"
        )
        return "\n".join(lines)


class Widths:
    """Chooses the new width of every channel group."""

    def __init__(self, analysis: Analysis, levels: int, topology: Topology) -> None:
        self.analysis, self.copies, self.quad = analysis, levels - 1, topology == "quad"
        self.levels, self.topology = levels, topology
        self.layers = list(analysis.of_kind(Kind.LAYER))
        self.narrowed = [g for g in analysis.groups() if g.quantized and g.fixed is None]
        self.new = {id(g): g.size for g in analysis.groups()}
        for group in self.narrowed:
            width = group.size // self.copies if self.quad else coupled_width(group.size, levels)
            self.new[id(group)] = self._divisible(group, width)

    @staticmethod
    def _divisible(group: Group, width: int) -> int:
        return max(group.divisor, width // group.divisor * group.divisor)

    def width(self, node: fx.Node) -> int:
        """How many channels a tensor has in the coupled network."""
        return sum(self._new_size(s) for s in self.analysis.info[node].segments)

    def inputs(self, layer: fx.Node) -> int:
        """How many inputs a layer has in the coupled network."""
        if self.analysis.reads_channels(layer):
            return self.width(self.analysis.tensor_inputs(layer)[0])
        module = self.analysis.module(layer)
        return int(module.in_features if isinstance(module, nn.Linear) else module.in_channels)  # type: ignore

    def _new_size(self, segment: Segment) -> int:
        return sum(self.new[id(leaf)] for leaf in segment.group.leaves()) * segment.scale

    def bounds(self, node: fx.Node) -> tuple[int, int]:
        """Where a slice of channels begins and ends in the coupled network."""
        call = self.analysis.info[node].call
        source, first = self.analysis.info[call.sources[0]], selected_channels(call)[0]
        old = new = 0
        for segment in source.segments:
            for leaf in segment.group.leaves():
                if old < first:
                    new += self.new[id(leaf)] * segment.scale
                old += leaf.size * segment.scale
        return new, new + self.width(node)

    def weights(self, node: fx.Node, decoupled: bool) -> int:
        """How many weights a layer has: in the baseline, or in the decoupled network that is to come."""
        layer = self.analysis.module(node)
        weight = layer.get_parameter("weight")
        if not decoupled:
            return weight.numel()
        kernel = math.prod(weight.shape[2:])
        source = self.analysis.info[self.analysis.tensor_inputs(node)[0]]
        groups = getattr(layer, "groups", 1)
        counts = []
        for s in source.segments:
            split = s.levels is not None or s.mixed is not None or (self.quad and s.spread)
            counts.append((self._new_size(s), self.copies if split else 1))
        if (
            bnn.is_binary_weight(layer) or groups > 1
        ):  # one scale, or one run: plain channels are replicated too
            most = max(c for _, c in counts)
            counts = [(n, most) for n, _ in counts]
        fan_in = sum(n * c for n, c in counts) if self.analysis.reads_channels(node) else self.inputs(node)
        out = self.analysis.info[node].segments[0]
        fan_out = self._new_size(out) * (self.copies if self.quad and out.spread and groups == 1 else 1)
        if is_depthwise(layer):
            groups = self.inputs(node)  # depthwise stays depthwise
        return fan_in // groups * fan_out * kernel

    def total(self, decoupled: bool) -> int:
        return sum(self.weights(node, decoupled) for node in self.layers)

    def boundary_cost(self, group: Group) -> int:
        """The decoupled weights of the layers that read this group's activations and are not narrowed."""
        cost = 0
        for node in self.layers:
            source = self.analysis.info[self.analysis.tensor_inputs(node)[0]]
            reads = any(s.levels is not None and group in s.group.leaves() for s in source.segments)
            out = self.analysis.info[node].segments[0].group.leaves()
            if reads and not any(g in self.narrowed for g in out):
                cost += self.weights(node, decoupled=True)
        return cost

    def by(self, widths: "Mapping[str, int] | str | None") -> Coupling:
        """By the paper's rule (None), filled up ("fill"), or as the caller wants them."""
        if widths is None:
            return self.choose()
        if isinstance(widths, Mapping):
            return self.take(widths)
        if widths != "fill":
            raise ArgumentError(
                f"widths must be None, 'fill' or a mapping of layers to channels, not {widths!r}"
            )
        return self.fill()

    def choose(self) -> Coupling:
        budget = self.total(decoupled=False)
        reasons: list[str] = []
        if not self.narrowed:
            reasons.append("no width can be changed: " + "; ".join(self._pinned()))
        # Boundary layers first, the costliest before the others; each at most until it is as small as in
        # the baseline. Where that is not enough, all narrowed groups, the one that lost least first.
        boundary = sorted(
            (g for g in self.narrowed if self.boundary_cost(g)), key=self.boundary_cost, reverse=True
        )
        for group in boundary:
            self._shrink(group, budget, group.size // self.copies, reasons, self.boundary_cost(group))
        before = dict(self.new)
        while self.total(decoupled=True) > budget:
            able = [g for g in self.narrowed if self.new[id(g)] > g.divisor]
            if not able:
                break
            widest = max(able, key=lambda g: self.new[id(g)] / g.size)
            self.new[id(widest)] -= widest.divisor
        for group in self.narrowed:
            if self.new[id(group)] != before[id(group)]:
                reasons.append(
                    f"{group.name}: narrowed further, {before[id(group)]} -> {self.new[id(group)]}, because "
                    f"the boundary layers alone could not save enough"
                )
        total = self.total(decoupled=True)
        if total > budget:
            raise GraphError(
                f"the decoupled network would have {total:,} weights, more than the baseline's {budget:,}, "
                f"and nothing is left to narrow: {'; '.join(self._pinned() or self._why_not())}"
            )
        return self._result(budget, total, reasons)

    def fill(self) -> Coupling:
        """The paper's rule, then what it leaves of the budget: the group that has lost the most grows by one step (a
        channel, or one for each group of a grouped layer), as long as the decoupled network has no more weights
        than the baseline. None becomes wider than it was. In the end no group can grow by a step alone."""
        result, before = self.choose(), dict(self.new)
        most = {id(g): g.size // self.copies if self.quad else g.size for g in self.narrowed}
        able = list(self.narrowed)
        while able:
            group = min(able, key=lambda g: self.new[id(g)] / g.size)
            self.new[id(group)] += group.divisor
            total = self.total(decoupled=True)
            if (
                self.new[id(group)] > most[id(group)]
                or total > self.total(decoupled=False)
                or not self.pads_fit()
            ):
                self.new[id(group)] -= group.divisor  # and it never will: the others only grow
                able.remove(group)
        reasons = [
            f"{g.name}: widened, {before[id(g)]} -> {self.new[id(g)]}, with weights that the rule leaves"
            for g in self.narrowed
            if self.new[id(g)] != before[id(g)]
        ]
        return self._result(self.total(decoupled=False), self.total(decoupled=True), result.reasons + reasons)

    def pads_fit(self) -> bool:
        """Whether zero channels can still be put beside those that there are."""
        pads = self.analysis.of_kind(Kind.PAD)
        return all(self.width(node) >= self.width(self.analysis.tensor_inputs(node)[0]) for node in pads)

    def take(self, widths: Mapping[str, int]) -> Coupling:
        """The widths that the caller wants, and the rule's for the others."""
        makers = {
            str(node.target): self.analysis.info[node].segments[0].group.leaves() for node in self.layers
        }
        asked: dict[int, str] = {}
        for name, width in widths.items():
            if name not in makers:
                raise ArgumentError(
                    f"widths names {name!r}, which is no layer: there are {', '.join(makers)}"
                )
            group = makers[name][0]
            if len(makers[name]) > 1 or group not in self.narrowed:
                why = group.fixed or "no activation acts on them, or they are divided later"
                raise ArgumentError(f"the width of {name!r} cannot be chosen: its channels are fixed, {why}")
            if not isinstance(width, int) or not width > 0 or width % group.divisor:
                raise ArgumentError(f"{width!r} is no width for {name!r}: take a multiple of {group.divisor}")
            other = asked.setdefault(id(group), name)
            if self.new[id(group)] != width and other != name:
                raise ArgumentError(
                    f"{other!r} and {name!r} have the same channels, so that they cannot be {widths[other]} and "
                    f"{width} wide"
                )
            self.new[id(group)] = width
        reasons = [f"{name}: {width} channels, as asked" for name, width in widths.items()]
        return self._result(self.total(decoupled=False), self.total(decoupled=True), reasons)

    def _result(self, budget: int, total: int, reasons: list[str]) -> Coupling:
        changed = {
            node.target: (self.analysis.info[node].shape[self.analysis.info[node].dim], self.width(node))
            for node in self.layers
        }
        widths = {str(name): pair for name, pair in changed.items() if pair[0] != pair[1]}
        kept = {}
        for node in self.layers:
            fixed = [
                g.fixed
                for g in self.analysis.info[node].segments[0].group.leaves()
                if g.quantized and g.fixed
            ]
            if fixed:
                kept[str(node.target)] = fixed[0]
        rest = sum(p.numel() for p in self._other_weights())
        return Coupling(self.levels, self.topology, widths, budget + rest, total + rest, reasons, kept)

    def _other_weights(self) -> list[nn.Parameter]:
        """Weights of layers that are left as they are: recurrent ones, attention, those that are not called."""
        known = {id(self.analysis.module(node).get_parameter("weight")) for node in self.layers}
        shifts = self.analysis.of_kind(Kind.PARAMETER)  # a number for each channel, (1, C, 1, 1)
        known |= {id(self.analysis.model.get_parameter(str(node.target))) for node in shifts}
        model, kinds = self.analysis.model, nn.Linear | nn.modules.conv._ConvNd
        own = (m.named_parameters(recurse=False) for m in model.modules() if isinstance(m, kinds))
        layers = {
            id(p) for named in own for name, p in named if name == "weight"
        }  # parametrized ones have none
        rest = [p for p in model.parameters() if p.dim() > 1 and (p.numel() > 1 or id(p) in layers)]
        return [p for p in rest if id(p) not in known]

    def _pinned(self) -> list[str]:
        layers = {str(node.target) for node in self.layers}
        return [
            f"{g.name!r} keeps its width because {g.fixed}"
            for g in self.analysis.groups()
            if g.quantized and g.fixed and g.name in layers
        ]

    def _why_not(self) -> list[str]:
        """Why nothing can become narrower, where no layer's own channels are fixed."""
        if self.narrowed:
            return ["all widths are as small as they can be"]
        fixed = [g.fixed for g in self.analysis.groups() if g.quantized and g.fixed]
        return [f"activations keep their channels because {why}" for why in dict.fromkeys(fixed)]

    def _shrink(self, group: Group, budget: int, least: int, reasons: list[str], cost: int) -> None:
        """Narrow one group to the largest width that fits the budget, or to `least`."""
        before = self.new[id(group)]
        while self.total(decoupled=True) > budget and self.new[id(group)] - group.divisor >= max(least, 1):
            self.new[id(group)] -= group.divisor
        after = self.new[id(group)]
        if after != before:
            reasons.append(
                f"{group.name}: narrowed further, {before} -> {after}, because the layer behind it is not "
                f"narrowed and would cost {cost:,} weights"
            )
