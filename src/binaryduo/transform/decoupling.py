"""Decouple: the same function with binary activations only (Section 5.1; Appendix F for "quad").

Every activation with L levels becomes L - 1 binary ones. Three steps:

1. `Carriers` walks the graph backwards from the activations and decides which tensors carry copies, and which
   of them carry the shift, so that as few modules as possible must be inserted. A residual stream carries its
   copies along; where a stream that carries the shift is added, the other side adds none.
2. `_Rewriter` widens layers, replaces BNs, and wherever a tensor is in another state than its consumer needs,
   inserts the conversion. The function is right whatever step 1 decided.
3. The result is checked against the coupled network in float64, and the flips in its own precision counted.
"""

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryduo import nn as bnn
from binaryduo._common.float64 import AllFloat64
from binaryduo.errors import ArgumentError, GraphError
from binaryduo.graph.analysis import Analysis, analyse, refuse_shared
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
from binaryduo.graph.tracing import as_inputs, check_training_path, unwrap
from binaryduo.nn.copies import ReplicateCopies, SelectChannels, copied_batch_norm, shift_vector
from binaryduo.nn.padding import PadChannels
from binaryduo.transform.carrying import TOPOLOGIES, Carriers, Topology, copies_of
from binaryduo.transform.equality import (
    Decoupling,
    compare,
    layers_that_read_levels,
    relative_difference,
)
from binaryduo.transform.layout import State, convert, plain, select
from binaryduo.transform.widening import widen_input, widen_norm, widen_output

EXACT = 1e-10  # what float64 outputs may differ by, relative to the largest


def decouple(
    model: nn.Module, example_input: Any, topology: Topology = "duo", strict: bool = False
) -> nn.Module:
    """A new model that computes the same function with binary activations only; the argument is unchanged.

    With "duo" each weighted sum is computed once and its BN gives one output for each copy, so the weights
    behind it double (for three levels). With "quad" the layers' outputs are copied too: the weights
    quadruple and the result has the architecture of the baseline (BinaryDuo-Q).

    The result is of the model's own class unless the code of its forward() must change, and has an attribute
    `decoupling` with the mapping of parameter names and the measured differences. Where an operation cannot be
    followed, the copies are averaged before it: a one-bit layer after it then reads levels instead of bits. Such a
    layer is named in a warning and in `decoupling.reads_levels`; with `strict=True` it is an error.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), bnn.QuantAct(3), nn.Linear(8, 2)).eval()
    >>> x = torch.rand(5, 4)
    >>> binary = decouple(net, x)
    >>> [m.levels for m in binary.modules() if isinstance(m, bnn.QuantAct)], binary[3].in_features
    ([2], 16)
    >>> torch.allclose(net(x), binary(x), atol=1e-6)
    True
    """
    if topology not in TOPOLOGIES:
        raise ArgumentError(f"topology must be one of {', '.join(TOPOLOGIES)}, not {topology!r}")
    inputs = as_inputs(example_input)
    model = unwrap(model)
    devices = sorted({x.get_device() for x in inputs if x.is_cuda})
    with torch.random.fork_rng(devices=devices):
        analysis = analyse(model, inputs)
        check_training_path(model, len(inputs))
        _check(model, analysis)
        problem: GraphError | None = None
        for rewrite in (False, True):
            # A forward() that looks at its modules (their class, their width), or keeps them in a list of its
            # own, does not see those that were swapped: then its graph takes its place.
            try:
                if rewrite:
                    analysis = analyse(model, inputs)  # the first attempt has used it up
                result = _verified(model, analysis, inputs, topology, rewrite)
                _tell_levels(result, strict)
                return result
            except NotBinaryError:
                raise
            except GraphError as error:
                problem = error
            except Exception as error:
                problem = GraphError(f"{type(model).__name__} decoupled does not run: {error}")
                problem.__cause__ = error
    assert problem is not None
    raise problem


def _verified(
    model: nn.Module, analysis: Analysis, inputs: tuple[Tensor, ...], topology: Topology, rewrite: bool
) -> nn.Module:
    """The decoupled model, held against the coupled one in float64 and in its own precision."""
    result, names = _transform(analysis, topology, rewrite)
    exact = _difference_float64(model, inputs, topology, rewrite)
    comparison = compare(model, result, inputs, exact)
    levels = layers_that_read_levels(model, result, inputs)
    result.decoupling = Decoupling(topology, names, comparison, levels)  # type: ignore[assignment]
    return result


def _tell_levels(result: nn.Module, strict: bool) -> None:
    """Say which one-bit layers do not read bits."""
    decoupling = result.decoupling
    assert isinstance(decoupling, Decoupling)
    names = decoupling.reads_levels
    if not names:
        return
    text = (
        f"of the decoupled network these one-bit layers read averaged copies (0, 1/2, 1) and not bits, because an "
        f"operation before them cannot be followed channel by channel: {', '.join(map(repr, names))}"
    )
    if strict:
        raise NotBinaryError(text)
    warnings.warn(text, stacklevel=3)


def _transform(analysis: Analysis, topology: Topology, rewrite: bool) -> tuple[nn.Module, dict[str, str]]:
    return _Rewriter(analysis, Carriers(analysis, topology), topology, rewrite).run()


def _difference_float64(
    model: nn.Module, inputs: tuple[Tensor, ...], topology: Topology, rewrite: bool
) -> float:
    """Decouple once more in float64, where there is no rounding to speak of, and refuse any difference."""
    wide = copy.deepcopy(model).double()
    doubles = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    with AllFloat64(), torch.no_grad():
        result, _ = _transform(analyse(wide, doubles), topology, rewrite)
        difference = relative_difference(wide.eval()(*doubles), result.eval()(*doubles))
        differs = difference > EXACT and compare(wide, result, doubles, difference).flips == 0
    if differs:
        raise GraphError(
            f"{type(model).__name__} cannot be decoupled: the result differs by {difference:.2g} in float64. "
            f"An operation of its forward() treats channels in a way that is not known; please report it"
        )
    return difference


def _check(model: nn.Module, analysis: Analysis) -> None:
    refuse_shared(analysis)
    quantized = [analysis.module(n) for n in analysis.of_kind(Kind.QUANT)]
    if not any(copies_of(m) > 1 for m in quantized):
        found = sorted({str(m.levels) for m in model.modules() if isinstance(m, bnn.QuantAct)})
        raise GraphError(
            f"{type(model).__name__} has no activation to decouple: bd.nn.QuantAct with 3 or more levels is "
            f"needed, found {'levels ' + ', '.join(found) if found else 'no QuantAct at all'}"
        )


class NotBinaryError(GraphError):
    """A one-bit layer would not read bits (`strict=True`)."""


class _Rewriter:
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

    def run(self) -> tuple[nn.Module, dict[str, str]]:
        for node in self.analysis.graph.nodes:
            if self.analysis.info[node].kind is not Kind.SCALAR:
                self.states[node] = self._visit(node)
                self._size_reads(node)
        for module in self.model.modules():  # now, so that a module used twice is read unchanged
            if isinstance(module, bnn.QuantAct) and module.levels is not None:
                module.levels = 2
        result = self._assemble()
        return result, self._names(result)

    # -- states and what each node needs of its inputs

    def _need(self, node: fx.Node, source: fx.Node, target: State) -> State:
        """Ask for a source in a certain state; notes the modules that bring it there."""
        info = self.analysis.info[source]
        modules = convert(self.states[source], target, info.dim, self.like)
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
            return State(self._need(node, sources[0], State(((total, copies),), 1)).parts, None)
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
            keeps = kind is not Kind.WEIGHTED
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
        copies, times = self.carriers.carried[node]
        if kind is Kind.ELEMENTWISE:
            return self._need(node, sources[0], State(((size, copies),), 0))
        total = 0 if times is None else times
        parts = ((size, copies),)
        # What a side carries already is kept; the last one makes up the rest.
        shifts = [
            s.shift if (s := self.states[n]).parts == parts and s.shift is not None else 0 for n in sources
        ]
        bearer = self.carriers.bearer(sources)
        at = next(i for i, n in enumerate(sources) if n is bearer)
        rest = next((i for i in range(len(sources)) if i != at), at)
        if len(sources) == 1:  # x + x
            return State(parts, 2 * (self._need(node, sources[0], State(parts, 0)).shift or 0))
        if sum(shifts) != total:
            shifts[rest] = total - shifts[at]
        for source, shift in zip(sources, shifts, strict=True):
            self._need(node, source, State(parts, shift))
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
        return State(parts, None if bits else 0)

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
        copies, times = self.carriers.carried[node]
        times = 0 if times is None else times
        norm = self.analysis.module(node)
        assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
        state = self.states[source]
        parts = ((size, copies),)
        if self.quad and state.parts == parts and state.shift is not None:
            widen_norm(norm, copies, times, state.shift, self.like)
        else:
            self._need(node, source, plain(size))
            self._replace(node, copied_batch_norm(norm, copies, times, self.like))
        return State(parts, times)

    def _layer(self, node: fx.Node, source: fx.Node, size: int) -> State:
        layer = self.analysis.module(node)
        assert isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear)
        state, dim = self.states[source], self.analysis.info[source].dim
        groups = 1 if isinstance(layer, nn.Linear) else layer.groups
        if not state.plain:
            spread = self.quad and all(s.spread for s in self.analysis.info[source].segments)
            if (state.shift is not None and not spread) or not self.analysis.reads_channels(node):
                state = self._need(node, source, plain(self._coupled_size(source)))
            elif groups > 1 or (bnn.is_binary_weight(layer) and not state.copies):
                modules, state = select(state, groups, dim, self.like.device)
                self.inserts[source, node] = modules
        if not state.plain:
            widen_input(layer, state, groups)
        if node not in self.carriers.carried:
            return plain(size)
        copies, times = self.carriers.carried[node]
        times = 0 if times is None else times
        if self.quad and groups == 1 and self.analysis.info[node].segments[0].spread:
            widen_output(layer, copies, times)
        else:
            # The weighted sum is computed once; its bias, one for each copy, takes the shift.
            bias, learn = shift_vector(size, copies, times, self.like), layer.weight.requires_grad
            if layer.bias is not None:
                bias, learn = bias + layer.bias.detach().repeat(copies), layer.bias.requires_grad
                layer.bias = None
            replicate = ReplicateCopies(bias, copies, self.analysis.info[node].dim).requires_grad_(learn)
            self._replace(node, in_sequence(layer, replicate, like=layer))
        return State(((size, copies),), times)

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
            return self.model
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
        return once and len(node.args) == 1 and not node.kwargs

    def _names(self, result: nn.Module) -> dict[str, str]:
        """Old parameter name -> new parameter name."""
        paths = {module: path for path, module in result.named_modules()}
        names = {}
        for old, (module, attribute) in self.owners.items():
            new = self.replaced.get(module, module)
            if isinstance(new, nn.Sequential) and module is not new:
                new = new[1] if attribute == "bias" else module
            if new in paths:
                names[old] = f"{paths[new]}.{attribute}" if paths[new] else attribute
        return names


def _owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, attribute = name.rpartition(".")
    return model.get_submodule(path), attribute
