"""Which tensors of a decoupled network carry copies, and which of them carry the shift.

The choice is made backwards from the activations, so that as few modules as possible must be inserted. It need
not be perfect: whoever carries it out converts wherever a tensor is not as its consumer needs it.
"""

from typing import Literal

from torch import fx, nn

from binaryduo.graph.analysis import Analysis
from binaryduo.graph.operations import Kind
from binaryduo.transform.shifts import NONE, Shift

Topology = Literal["duo", "quad"]
TOPOLOGIES = ("duo", "quad")


def copies_of(module: nn.Module) -> int:
    """How many binary activations an activation becomes; 1 where it is binary or full precision already."""
    levels = getattr(module, "levels", None)
    return 1 if levels is None else levels - 1


def shift_of(analysis: Analysis, node: fx.Node) -> Shift:
    """The shift that the copies of an activation's input need."""
    module = analysis.module(node)
    learns = getattr(module, "interval", None) is not None
    return Shift(1, ((analysis.names[module], 1),) if learns else ())


class Carriers:
    """Which tensors carry how many copies and which shift: `carried[node] = (copies, shift)`."""

    def __init__(self, analysis: Analysis, topology: Topology) -> None:
        self.analysis, self.quad = analysis, topology == "quad"
        self.demands: dict[fx.Node, list[tuple[int, Shift | None]]] = {}
        self.carried: dict[fx.Node, tuple[int, Shift | None]] = {}
        self.channelwise = [
            analysis.names[module]
            for module in (analysis.module(n) for n in analysis.of_kind(Kind.QUANT))
            if getattr(module, "interval", None) == "channel"
        ]
        self.direct = self._direct()
        for node in reversed(analysis.graph.nodes):
            self._visit(node)

    def _direct(self) -> dict[fx.Node, Shift]:
        """Tensors that go straight into an activation, at most through pooling or reshaping, and its shift."""
        found: dict[fx.Node, Shift] = {}
        for node in reversed(self.analysis.graph.nodes):
            for user in node.users:
                kind = self.analysis.info[user].kind
                if kind is Kind.QUANT and copies_of(self.analysis.module(user)) > 1:
                    found.setdefault(node, shift_of(self.analysis, user))
                elif kind in (Kind.POOL, Kind.RESHAPE) and user in found:
                    found.setdefault(node, found[user])
        return found

    def _can_carry(self, node: fx.Node, shift: Shift | None) -> bool:
        info = self.analysis.info[node]
        if len(info.segments) != 1:
            return False
        if info.kind in (Kind.NORM, Kind.LAYER):
            return True
        sources = self.analysis.tensor_inputs(node)
        if info.kind in (Kind.POOL, Kind.RESHAPE):
            return self._survives(node, sources[0], shift) and self._can_carry(sources[0], shift)
        if info.kind is Kind.ADD:
            return any(self._can_carry(s, shift) for s in sources)
        if self.quad and info.kind is Kind.ELEMENTWISE:
            return shift in (NONE, None) and self._can_carry(sources[0], NONE)
        return False

    def _survives(self, node: fx.Node, source: fx.Node, shift: Shift | None) -> bool:
        """Whether each channel of a flattened tensor has a shift that the channels before it can have."""
        before, after = (sum(s.size for s in self.analysis.info[n].segments) for n in (source, node))
        return before == after or shift is None or not (set(self.channelwise) & {n for n, _ in shift.learned})

    def _demand(self, node: fx.Node, copies: int, shift: Shift | None) -> None:
        self.demands.setdefault(node, []).append((copies, shift))

    def _visit(self, node: fx.Node) -> None:
        info = self.analysis.info[node]
        sources = self.analysis.tensor_inputs(node)
        if info.kind is Kind.QUANT:
            copies = copies_of(self.analysis.module(node))
            if copies > 1:
                self._demand(sources[0], copies, shift_of(self.analysis, node))
            return
        if node in self.demands:
            copies, shift = max(self.demands[node], key=_rank)
            if self._can_carry(node, shift):
                self.carried[node] = (copies, shift)
        if self.quad and info.kind is Kind.LAYER:
            self._demand_input_of_layer(sources[0])
        if node in self.carried:
            self._pass_on(node, info.kind, sources, *self.carried[node])

    def _demand_input_of_layer(self, source: fx.Node) -> None:
        """In the baseline's architecture, every layer on quantized channels reads all copies of them."""
        segments = self.analysis.info[source].segments
        if len(segments) == 1 and segments[0].levels is None and segments[0].spread:
            acts = [self.analysis.module(n) for n in self.analysis.of_kind(Kind.QUANT)]
            self._demand(source, max(copies_of(m) for m in acts), None)

    def _pass_on(
        self, node: fx.Node, kind: Kind, sources: list[fx.Node], copies: int, shift: Shift | None
    ) -> None:
        if kind in (Kind.POOL, Kind.RESHAPE):
            self._demand(sources[0], copies, shift)
        elif kind is Kind.ELEMENTWISE or (kind is Kind.NORM and self.quad):
            if all(s.spread for s in self.analysis.info[node].segments):
                self._demand(sources[0], copies, NONE)
        elif kind is Kind.ADD:
            bearer = self.bearer(sources)
            total = NONE if shift is None else shift
            borne = self._borne(bearer)
            own = total if borne is None else borne
            for source in sources:
                rest = own if source is bearer else total - own
                if rest != NONE or self.quad or not self._is_projection(source):
                    self._demand(source, copies, rest)

    def _borne(self, node: fx.Node) -> Shift | None:
        """The shift that a tensor has already because it goes, at most through pooling or reshaping, into an
        activation too."""
        start = node
        while node not in self.direct and self.analysis.info[node].kind in (Kind.POOL, Kind.RESHAPE):
            node = self.analysis.tensor_inputs(node)[0]
        shift = self.direct.get(node)
        return shift if shift is not None and self._can_carry(start, shift) else None

    def bearer(self, sources: list[fx.Node]) -> fx.Node:
        """Which side of an addition carries the shift: a stream that does so already, else the branch whose
        layer reads activations (not the shortcut), else whichever can."""
        for source in sources:
            if self._borne(source) is not None:
                return source
        able = [s for s in sources if self._can_carry(s, Shift(1))]
        branches = [s for s in able if self._layer_behind(s) is not None and not self._is_projection(s)]
        return [*branches, *able, *sources][0]

    def _layer_behind(self, node: fx.Node) -> fx.Node | None:
        """The layer that made a tensor, at most through BN and pooling."""
        while self.analysis.info[node].kind in (Kind.NORM, Kind.POOL):
            node = self.analysis.tensor_inputs(node)[0]
        return node if self.analysis.info[node].kind is Kind.LAYER else None

    def _is_projection(self, node: fx.Node) -> bool:
        """Whether a layer on the stream itself made the tensor, as in a shortcut with a 1×1 convolution: it
        is computed once on the average of the copies and replicated behind its BN."""
        layer = self._layer_behind(node)
        if layer is None:
            return False
        source = self.analysis.info[self.analysis.tensor_inputs(layer)[0]]
        return all(s.levels is None for s in source.segments)


def _rank(demand: tuple[int, Shift | None]) -> tuple[bool, bool, int]:
    """A definite demand for the shift wins over one without, and any over "as it comes"."""
    times = None if demand[1] is None else demand[1].times
    return times is not None, times == 1, times or 0
