"""Couple: the narrower network with more activation levels that is trained first (Section 5.2).

Every channel group on which a quantized activation acts is narrowed to ⌊N / √(levels - 1)⌋, so that
decoupling, which multiplies the weights behind an activation by levels - 1, gives about the baseline's
number of weights again. A layer that reads narrowed channels but whose own output is not narrowed (a boundary
layer) comes out √(levels - 1) times larger than the baseline's; its input is narrowed further until the
decoupled network has no more weights than the baseline.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import fx, nn

from binaryduo import nn as bnn
from binaryduo.errors import ArgumentError, GraphError
from binaryduo.graph.analysis import Analysis, analyse, refuse_shared
from binaryduo.graph.channel_moves import selected_channels
from binaryduo.graph.flow import Group, Segment
from binaryduo.graph.operations import Call, Kind
from binaryduo.graph.rewriting import channel_size, set_channel_size, to_module
from binaryduo.graph.tracing import as_inputs, check_training_path, unwrap
from binaryduo.nn.activation import check_interval
from binaryduo.nn.intervals import Interval
from binaryduo.nn.padding import PadChannels
from binaryduo.ste import check_levels
from binaryduo.transform.carrying import TOPOLOGIES, Topology
from binaryduo.transform.resizing import (
    is_depthwise,
    resize_layer,
    resize_norm,
    resize_parameter,
    resize_scaled,
)


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


def couple(
    model: nn.Module,
    example_input: Any,
    levels: int = 3,
    topology: Topology = "duo",
    init: "Literal['he'] | Callable[[nn.Module], None] | None" = None,
    widths: "Mapping[str, int] | None" = None,
    interval: Interval | None = None,
) -> nn.Module:
    """A new, narrower model with `levels` activation levels, freshly initialised; the argument is unchanged.

    Decoupled, it has no more weights than the model. `topology="quad"` (BinaryDuo-Q) divides the widths by
    levels - 1, so that decoupling gives the model's own architecture. The result has an attribute `coupling`
    that explains the widths.

    No weight is taken over. With `init=None` each is drawn anew as the model's own are (see `nn.redraw`), so that the
    coupled network starts as its user starts networks; "he" is He's rule, as in the paper; a function is given each
    module in turn. `widths` sets the channels of layers by their qualified names; the budget is then the caller's.
    `interval` lets the coupled activations learn their thresholds, for each layer or each channel; with None each
    learns what the model's own does. They start where fixed ones are.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), bnn.QuantAct(), nn.Linear(8, 2))
    >>> couple(net, torch.rand(1, 4))[0].out_features
    5
    """
    check_levels(levels)
    if levels < 3:
        raise ArgumentError("a coupled network needs 3 or more levels: 2 is the binary baseline itself")
    if topology not in TOPOLOGIES:
        raise ArgumentError(f"topology must be one of {', '.join(TOPOLOGIES)}, not {topology!r}")
    check_interval(interval)
    inputs = as_inputs(example_input)
    model = unwrap(model)
    if isinstance(getattr(model, "coupling", None), Coupling):
        raise GraphError(f"{type(model).__name__} is coupled already: couple the binary baseline instead")
    analysis = analyse(model, inputs)
    check_training_path(model, len(inputs))
    refuse_shared(analysis)
    if next(analysis.of_kind(Kind.QUANT), None) is None:
        raise GraphError(
            f"{type(model).__name__} has no quantized activation to couple: use bd.nn.QuantAct(levels=2)"
        )
    own = {name: value.detach().clone() for name, value in analysis.model.named_parameters()}
    kinds = {name: m.interval for name, m in analysis.model.named_modules() if isinstance(m, bnn.QuantAct)}
    chosen = _Widths(analysis, levels, topology)
    coupling = chosen.choose() if widths is None else chosen.take(widths)
    result = _narrow(analysis, chosen, levels)
    if init is None:
        bnn.redraw(result, own)
    elif init == "he":
        bnn.initialise(result)
    elif callable(init):
        result.apply(init)
    else:
        raise ArgumentError(f"init must be None, 'he' or a function of a module, not {init!r}")
    result.coupling = coupling  # type: ignore[assignment]
    _learn(analyse(result, inputs), result, {n: interval or kind for n, kind in kinds.items()})
    return result


def _learn(analysis: Analysis, model: nn.Module, kinds: Mapping[str, Interval | None]) -> None:
    """Let activations learn their thresholds, by their names; `analysis` is of a copy of the model."""
    found = {
        analysis.names[analysis.module(node)]: analysis.info[node] for node in analysis.of_kind(Kind.QUANT)
    }
    like = next(model.parameters())
    for name, kind in kinds.items():
        act = model.get_submodule(name)
        assert isinstance(act, bnn.QuantAct)
        if kind is None or act.levels is None:
            continue
        info = found.get(name)
        if kind == "channel" and info is not None and info.dim != 1:
            raise GraphError(
                f"activation {name!r} has its channels in dimension {info.dim}, and thresholds are learned along "
                "dimension 1: use interval='layer'"
            )
        act.set_levels(act.levels, kind, None if info is None else info.shape[1], like)


class _Widths:
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
            split = s.levels is not None or (self.quad and s.spread)
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
                f"and nothing is left to narrow: {'; '.join(self._pinned()) or 'all widths are 1'}"
            )
        return self._result(budget, total, reasons)

    def take(self, widths: Mapping[str, int]) -> Coupling:
        """The widths that the caller wants, and the rule's for the others."""
        makers = {
            str(node.target): self.analysis.info[node].segments[0].group.leaves() for node in self.layers
        }
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
        """Weights of layers that are left as they are: recurrent ones, attention, convolutions of other kinds."""
        known = {id(self.analysis.module(node).get_parameter("weight")) for node in self.layers}
        return [p for p in self.analysis.model.parameters() if p.dim() > 1 and id(p) not in known]

    def _pinned(self) -> list[str]:
        layers = {str(node.target) for node in self.layers}
        return [
            f"{g.name!r} keeps its width because {g.fixed}"
            for g in self.analysis.groups()
            if g.quantized and g.fixed and g.name in layers
        ]

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


def _narrow(analysis: Analysis, widths: _Widths, levels: int) -> nn.Module:
    """Give the analysis' copy of the model its new widths and levels."""
    for node in widths.layers:
        resize_layer(analysis.module(node), widths.inputs(node), widths.width(node))
    for node in analysis.of_kind(Kind.NORM):
        resize_norm(analysis.module(node), widths.width(node))
    for node in analysis.of_kind(Kind.SCALED):
        resize_scaled(analysis, node, widths.width(node))
    for node in analysis.of_kind(Kind.PARAMETER):
        resize_parameter(analysis, node, widths.width(node))
    for module in analysis.model.modules():  # those that run in training only, too
        if isinstance(module, bnn.QuantAct) and module.levels is not None:
            module.set_levels(levels)
    edits: list[tuple[fx.Node, int]] = []
    pads: list[tuple[fx.Node, list[Any]]] = []
    for node in analysis.of_kind(Kind.RESHAPE):
        before, after = sum(s.size for s in analysis.info[node].segments), widths.width(node)
        if before != after and channel_size(analysis.info[node].call, analysis.info[node].dim) == before:
            edits.append((node, after))
    slices = [
        (node, *widths.bounds(node))
        for node in analysis.of_kind(Kind.SELECT)
        if widths.width(analysis.tensor_inputs(node)[0]) != analysis.info[node].call.shapes[0][1]
    ]
    for node in analysis.of_kind(Kind.PAD):
        source = analysis.tensor_inputs(node)[0]
        extra = widths.width(node) - widths.width(source)
        if extra < 0:
            raise GraphError(f"the zero-padding {node.name!r} would have to remove {-extra} channels")
        if node.op == "call_module":
            module = analysis.module(node)
            assert isinstance(module, PadChannels)
            module.channels = widths.width(node)
        else:
            amounts = _new_padding(analysis.info[node].call, extra)
            if amounts is not None:
                pads.append((node, amounts))
    if not edits and not pads and not slices:
        return analysis.model
    for node, first, last in slices:
        node.args, node.kwargs = (node.args[0], (slice(None), slice(first, last))), {}
    for node, after in edits:
        set_channel_size(analysis.info[node].call, analysis.info[node].dim, after)
    for node, amounts in pads:
        node.args, node.kwargs = (analysis.info[node].call.sources[0], amounts), {}  # zeros, as PAD has them
    return to_module(analysis.model, analysis.graph)


def _new_padding(call: Call, extra: int) -> list[Any] | None:
    """F.pad's amounts with the channels' share made to add up to `extra`; None where they are not literal."""
    amounts = list(call["pad"]) if call.literal("pad") else []
    at = 2 * (
        len(call.shapes[0]) - 2
    )  # pairs are given from the last dimension backwards; channels are dimension 1
    if len(amounts) < at + 2:
        return None
    front, back = amounts[at], amounts[at + 1]
    if front + back == extra:
        return None
    first = extra * front // (front + back) if front + back else 0
    return [*amounts[:at], first, extra - first, *amounts[at + 2 :]]
