"""Carries a choice of carriers out: widens layers, replaces BNs, and converts tensors where their readers need another
state. The function is right whatever was chosen; a better choice only means fewer inserted modules.
"""

import torch
from torch import Tensor, fx, nn

from binaryduo import nn as bnn
from binaryduo.graph.analysis import Analysis
from binaryduo.graph.canonical import add_module
from binaryduo.graph.channel_moves import selected_channels
from binaryduo.graph.operations import Kind
from binaryduo.graph.rewriting import (
    channel_size,
    in_sequence,
    replace_everywhere,
    set_channel_size,
    to_module,
)
from binaryduo.graph.size_reads import consumers, origins, size_readers
from binaryduo.nn.copies import ReplicateCopies, SelectChannels, copied_batch_norm
from binaryduo.nn.padding import PadChannels
from binaryduo.transform.carrying import Carriers, Topology, copies_of, shift_of
from binaryduo.transform.layout import State, convert, plain, select
from binaryduo.transform.shifts import NONE, Shift, ShiftValues
from binaryduo.transform.widening import Layer, widen_input, widen_norm, widen_output


class Rewriter:
    """Carries the choice of carriers out on the analysis' own copy of the model."""

    def __init__(self, analysis: Analysis, carriers: Carriers, topology: Topology, rewrite: bool) -> None:
        self.analysis, self.carriers, self.quad, self.rewrite = (
            analysis,
            carriers,
            topology == "quad",
            rewrite,
        )
        self.model = analysis.model
        self.states: dict[fx.Node, State] = {}
        self.inserts: dict[tuple[fx.Node, fx.Node], list[nn.Module]] = {}  # (producer, consumer) -> modules
        self.sizes: list[tuple[fx.Node, int, int]] = []  # (reshape, dimension, channels)
        self.selections: list[tuple[fx.Node, Tensor]] = []  # (selection, decoupled channels)
        self.scalars = set(analysis.of_kind(Kind.SCALAR))
        self.owners = {name: _owner(self.model, name) for name, _ in self.model.named_parameters()}
        self.replaced: dict[nn.Module, nn.Module] = {}
        self.like = next(self.model.parameters(), torch.empty(0))
        learned = {
            analysis.names[module]: module.offsets.detach().view(module.levels - 1, -1)
            for module in (analysis.module(node) for node in analysis.of_kind(Kind.QUANT))
            if isinstance(module, bnn.QuantAct)
            and module.interval
            and module.offsets is not None
            and module.levels
        }
        self.values = ShiftValues(learned, self.like)

    def run(self) -> tuple[nn.Module, dict[str, str]]:
        for node in self.analysis.graph.nodes:
            if self.analysis.info[node].kind is not Kind.SCALAR:
                self.states[node] = self._visit(node)
                self._size_reads(node)
        for module in self.model.modules():  # now, so that a module used twice is read unchanged
            if isinstance(module, bnn.QuantAct) and module.levels is not None and module.levels > 2:
                module.set_levels(2)
        result = self._assemble()
        return result, self._names(result)

    # -- states and what each node needs of its inputs

    def _need(self, node: fx.Node, source: fx.Node, target: State) -> State:
        """Ask for a source in a certain state; notes the modules that bring it there."""
        info = self.analysis.info[source]
        modules = convert(self.states[source], target, info.dim, self.values)
        if modules:
            self.inserts[source, node] = modules
        return target

    def _visit(self, node: fx.Node) -> State:
        info, sources = self.analysis.info[node], self.analysis.tensor_inputs(node)
        size = sum(s.size for s in info.segments)
        kind = info.kind
        if kind is Kind.LAYER:
            return self._layer(node, sources[0], size)
        if kind is Kind.NORM and node in self.carriers.carried:
            return self._norm(node, sources[0], size)
        if kind is Kind.QUANT:
            copies = copies_of(self.analysis.module(node))
            total = sum(s.size for s in self.analysis.info[sources[0]].segments)
            if copies == 1:
                self._need(node, sources[0], plain(total))
                return plain(size)
            target = State(((total, copies),), shift_of(self.analysis, node))
            return State(self._need(node, sources[0], target).parts, None)
        if kind in (Kind.POOL, Kind.WEIGHTED, Kind.RESHAPE):
            return self._pass(node, kind, sources[0], size)
        if kind is Kind.CAT:
            return self._cat(node)
        if kind in (Kind.SELECT, Kind.PAD) and self.states[sources[0]].shift is None:
            return self._choose(node, kind, sources[0])
        if node in self.carriers.carried and kind in (Kind.ADD, Kind.ELEMENTWISE):
            return self._carry(node, kind, sources, size)
        for source in sources:
            self._need(node, source, plain(self._coupled_size(source)))
        return plain(size)

    def _coupled_size(self, node: fx.Node) -> int:
        return sum(s.size for s in self.analysis.info[node].segments)

    def _pass(self, node: fx.Node, kind: Kind, source: fx.Node, size: int) -> State:
        """Pooling and reshaping keep the copies; where the shift would not survive, the value is averaged."""
        state = self.states[source]
        if state.shift is None:
            # The largest of averaged bits is not the average of the largest.
            exact = all(s.exact for s in self.analysis.info[source].segments)
            keeps = exact or not self.analysis.info[node].call.operation.extreme
        else:
            flat = size != self._coupled_size(source) and not self.values.uniform(state.shift)
            keeps = kind is not Kind.WEIGHTED and not flat
        wanted = state.shift is None or node in self.carriers.carried
        if not (keeps and wanted):
            state = self._need(node, source, plain(self._coupled_size(source)))
        before = self._coupled_size(source)
        factor = size // before
        parts = tuple((n * factor, c) for n, c in state.parts)
        if kind is Kind.RESHAPE and not state.plain:
            self._resize(node, source, sum(n * c for n, c in parts))
        return State(parts, state.shift)

    def _resize(self, node: fx.Node, source: fx.Node, channels: int) -> None:
        """A number of channels that is written out, or read from another tensor, must be the new one."""
        dim = self.analysis.info[node].dim
        size = channel_size(self.analysis.info[node].call, dim)
        own = isinstance(size, fx.Node) and origins(size, self.scalars) == {source}
        if size is not None and size != -1 and (not own or self._counted(source)):
            self.sizes.append((node, dim, channels))

    def _counted(self, node: fx.Node) -> list[fx.Node]:
        """Who reads a tensor's number of channels for anything but a reshape of that same tensor."""
        info = self.analysis.info[node]

        def elsewhere(end: fx.Node) -> bool:
            return self.analysis.info[end].kind is not Kind.RESHAPE or self.analysis.tensor_inputs(end) != [
                node
            ]

        return [
            reader
            for reader in size_readers(node, self.scalars, info.dim, len(info.shape))
            if any(elsewhere(end) for end in consumers(reader, self.scalars))
        ]

    def _size_reads(self, node: fx.Node) -> None:
        """Whoever computes with a tensor's number of channels is given the coupled network's."""
        if not self.states[node].plain:
            for reader in self._counted(node):
                while node not in reader.all_input_nodes:
                    reader = reader.all_input_nodes[0]  # x.shape of x.shape[1]
                self._need(reader, node, plain(self._coupled_size(node)))

    def _carry(self, node: fx.Node, kind: Kind, sources: list[fx.Node], size: int) -> State:
        copies, shift = self.carriers.carried[node]
        parts = ((size, copies),)
        if kind is Kind.ELEMENTWISE or len(sources) == 1:  # x + x
            return self._need(node, sources[0], State(parts))
        total = NONE if shift is None else shift
        # What a side carries already is kept; the last one makes up the rest.
        shifts = [
            s.shift if (s := self.states[n]).parts == parts and s.shift is not None else NONE for n in sources
        ]
        bearer = self.carriers.bearer(sources)
        at = next(i for i, n in enumerate(sources) if n is bearer)
        rest = next((i for i in range(len(sources)) if i != at), at)
        if sum(shifts, NONE) != total:
            shifts[rest] = total - shifts[at]
        for source, own in zip(sources, shifts, strict=True):
            self._need(node, source, State(parts, own))
        return State(parts, total)

    def _cat(self, node: fx.Node) -> State:
        parts: tuple[tuple[int, int], ...] = ()
        bits = False
        for source in self.analysis.info[node].call.sources:
            state = self.states[source]
            if state.shift is not None:
                state = self._need(node, source, plain(self._coupled_size(source)))
            bits = bits or state.shift is None
            parts += state.parts
        return State(parts, None if bits else NONE)

    def _choose(self, node: fx.Node, kind: Kind, source: fx.Node) -> State:
        """Bits stay bits where channels are picked or zero channels are put beside them."""
        state, call = self.states[source], self.analysis.info[node].call
        if kind is Kind.SELECT:
            index, parts = state.picked(selected_channels(call))
            self.selections.append((node, index))
            return State(parts, None)
        extra = call.shape[1] - call.shapes[0][1]
        if isinstance(call.module, PadChannels):
            call.module.channels = state.channels + extra
            return State((*state.parts, (extra, 1)), None)
        at = 2 * (len(call.shape) - 2)
        front, back = call["pad"][at : at + 2] if call.literal("pad") else (0, -1)
        if front < 0 or back < 0 or front + back != extra:
            return self._need(node, source, plain(self._coupled_size(source)))
        zeros = [((n, 1),) if n else () for n in (front, back)]
        return State((*zeros[0], *state.parts, *zeros[1]), None)

    # -- modules that change

    def _norm(self, node: fx.Node, source: fx.Node, size: int) -> State:
        copies, wanted = self.carriers.carried[node]
        shift = NONE if wanted is None else wanted
        norm = self.analysis.module(node)
        assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
        state = self.states[source]
        parts = ((size, copies),)
        if self.quad and state.parts == parts and state.shift is not None:
            incoming = self.values.vector(state.shift, size, copies)
            widen_norm(norm, copies, self.values.vector(shift, size, copies), incoming)
        else:
            self._need(node, source, plain(size))
            self._replace(node, copied_batch_norm(norm, copies, self.values.vector(shift, size, copies)))
        return State(parts, shift)

    def _layer(self, node: fx.Node, source: fx.Node, size: int) -> State:
        layer = self.analysis.module(node)
        assert isinstance(layer, Layer)
        state, dim = self.states[source], self.analysis.info[source].dim
        groups = 1 if isinstance(layer, nn.Linear) else layer.groups
        if not state.plain:
            spread = self.quad and all(s.spread for s in self.analysis.info[source].segments)
            if (state.shift is not None and not spread) or not self.analysis.reads_channels(node):
                state = self._need(node, source, plain(self._coupled_size(source)))
            else:
                if state.shift is not None and state.shift.learned:  # learned shifts do not add up to zero
                    state = self._need(node, source, State(state.parts, Shift(state.shift.times)))
                if groups > 1 or (bnn.is_binary_weight(layer) and not state.copies):
                    modules, state = select(state, groups, dim, self.like.device)
                    self.inserts[source, node] = [*self.inserts.get((source, node), []), *modules]
        if not state.plain:
            widen_input(layer, state, groups)
        if node not in self.carriers.carried:
            return plain(size)
        copies, wanted = self.carriers.carried[node]
        shift = NONE if wanted is None else wanted
        bias = self.values.vector(shift, size, copies)
        if self.quad and groups == 1 and self.analysis.info[node].segments[0].spread:
            widen_output(layer, copies, None if shift == NONE else bias)
        else:
            # The weighted sum is computed once; its bias, one for each copy, takes the shift.
            learn = layer.weight.requires_grad
            if layer.bias is not None:
                bias, learn = bias + layer.bias.detach().repeat(copies), layer.bias.requires_grad
                layer.bias = None
            replicate = ReplicateCopies(bias, copies, self.analysis.info[node].dim).requires_grad_(learn)
            self._replace(node, in_sequence(layer, replicate, like=layer))
        return State(((size, copies),), shift)

    def _replace(self, node: fx.Node, new: nn.Module) -> None:
        old = self.analysis.module(node)
        replace_everywhere(self.model, old, new)
        self.replaced[old] = new

    # -- putting the result together

    def _assemble(self) -> nn.Module:
        """Swap modules where that is enough; rewrite the graph only where the user's code must change."""
        edges = dict(self.inserts)
        for (source, consumer), modules in list(edges.items()):
            if self._swappable(consumer):
                old = self.analysis.module(consumer)
                replace_everywhere(self.model, old, in_sequence(*modules, old, like=old))
                del edges[source, consumer]
            elif self._swappable(source) and len(source.users) == 1:
                old = self.analysis.module(source)
                replace_everywhere(self.model, old, in_sequence(old, *modules, like=old))
                del edges[source, consumer]
        if not edges and not self.sizes and not self.selections and not self.rewrite:
            return self.analysis.with_own_forward()
        graph = self.analysis.graph
        for node, dim, channels in self.sizes:
            set_channel_size(self.analysis.info[node].call, dim, channels)
        for (source, consumer), modules in edges.items():
            name = add_module(self.model, "copies", in_sequence(*modules, like=self.model))
            with graph.inserting_after(source):
                inserted = graph.call_module(name, (source,))
            consumer.replace_input_with(source, inserted)
        for node, index in self.selections:
            name = add_module(self.model, "selection", SelectChannels(index.to(self.like.device)))
            with graph.inserting_after(node):
                chosen = graph.call_module(name, (node.all_input_nodes[0],))
            node.replace_all_uses_with(chosen)
            graph.erase_node(node)
        return to_module(self.model, graph)

    def _swappable(self, node: fx.Node) -> bool:
        """Whether a module that is called once, on one tensor, may become a sequence of modules."""
        once = node.op == "call_module" and self.analysis.uses[str(node.target)] == 1
        once = once and node.target not in self.analysis.added  # the user's forward() does not call it
        return once and len(node.args) == 1 and not node.kwargs

    def _names(self, result: nn.Module) -> dict[str, str]:
        """Old parameter name -> new parameter name."""
        paths = {module: path for path, module in result.named_modules()}
        names = {}
        for old, (module, attribute) in self.owners.items():
            new = self.replaced.get(module, module)
            if isinstance(new, nn.Sequential) and module is not new:
                new = new[1] if attribute == "bias" else module
            if new in paths and attribute in new._parameters and new._parameters[attribute] is not None:
                names[old] = f"{paths[new]}.{attribute}" if paths[new] else attribute
        return names


def _owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, attribute = name.rpartition(".")
    return model.get_submodule(path), attribute
