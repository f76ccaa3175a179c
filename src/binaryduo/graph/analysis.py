"""What a model does with its channels: one analysis under couple, decouple, cost, profile and pack.

`analyse(model, example_input)` traces a copy of the model, brings its graph into canonical form and says of each tensor
- which operation made it, with which arguments (`Call`), and what that means for channels (`Kind`),
- which channel groups its channels belong to: a group is a set of channels that must be as many as each
  other wherever they appear (a convolution's output, its BN, the stream it is added to, …),
- and which activation's levels it carries unchanged (`Segment.levels`), so that its channels can be split
  into bits.

An operation that is not known here is never guessed at: the groups that reach it keep their width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import fx, nn
from torch.nn.utils import parametrize

from binaryduo.errors import GraphError
from binaryduo.graph.canonical import canonicalise
from binaryduo.graph.flow import Flow, Group, Info, layer_dim
from binaryduo.graph.operations import Kind
from binaryduo.graph.table import recognise
from binaryduo.graph.tracing import as_inputs, copied, trace


@dataclass
class Analysis:
    """A traced copy of a model and what is known of its tensors."""

    model: nn.Module  # the copy: transformations change it
    graph: fx.Graph
    info: dict[fx.Node, Info]
    names: dict[nn.Module, str]  # module -> qualified name
    uses: dict[str, int]  # qualified name -> how often it is called
    added: tuple[str, ...] = ()  # modules of the canonical graph that the user's forward() knows nothing of

    def module(self, node: fx.Node) -> nn.Module:
        return self.model.get_submodule(str(node.target))

    def with_own_forward(self) -> nn.Module:
        """The model with the user's forward(): without the modules that only the canonical graph calls.

        An nn.Sequential runs every module that it has.
        """
        for name in self.added:
            delattr(self.model, name)
        return self.model

    def of_kind(self, *kinds: Kind) -> Iterator[fx.Node]:
        return (node for node in self.graph.nodes if node in self.info and self.info[node].kind in kinds)

    def groups(self) -> list[Group]:
        found = {id(g): g for i in self.info.values() for s in i.segments for g in s.group.leaves()}
        return list(found.values())

    def tensor_inputs(self, node: fx.Node) -> list[fx.Node]:
        return [n for n in node.all_input_nodes if self.info[n].kind is not Kind.SCALAR]

    def binary(self, node: fx.Node) -> bool:
        """Whether a tensor holds zeros and ones alone: what makes a one-bit layer that reads it binary."""
        return self.levels(node) == 2

    def levels(self, node: fx.Node) -> int | None:
        """How many levels a tensor's values have, where all are an activation's levels and as many; else None."""
        found = {s.levels if s.exact else None for s in self.info[node].segments}
        return found.pop() if len(found) == 1 else None

    def reads_channels(self, layer: fx.Node) -> bool:
        """Whether a layer sums over the dimension that its input's channels are in."""
        source = self.info[self.tensor_inputs(layer)[0]]
        return source.dim == layer_dim(self.module(layer), source.shape)


def analyse(model: nn.Module, example_input: Any) -> Analysis:
    """Trace a copy of the model in evaluation mode and follow its channels. The model itself is untouched.

    >>> from binaryduo.nn import QuantAct
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), QuantAct(), nn.Linear(8, 2))
    >>> [g.size for g in analyse(net, torch.zeros(1, 4)).groups() if g.quantized]
    [8]
    """
    inputs = as_inputs(example_input)
    work = copied(model)
    modes = {name: module.training for name, module in work.named_modules()}
    work.eval()
    graph = trace(work, inputs)
    shapes = canonicalise(graph, work, inputs)
    for name, module in work.named_modules():
        module.training = modes.get(name, modes[""])
    analysis = analyse_graph(work, graph, shapes)
    analysis.added = tuple(name for name, _ in work.named_children() if name not in modes)
    return analysis


def analyse_graph(model: nn.Module, graph: fx.Graph, shapes: dict[fx.Node, Any]) -> Analysis:
    """The same for a graph that is canonical already, and for the model that it belongs to."""
    flow = Flow({node: recognise(node, model, shapes) for node in graph.nodes})
    for node in graph.nodes:
        flow.visit(node)
    flow.fix_counted()
    uses: dict[str, int] = {}
    names: dict[nn.Module, str] = {}
    for name, module in model.named_modules():
        names.setdefault(module, name)
    for node in graph.nodes:
        if node.op == "call_module":
            target = names[model.get_submodule(str(node.target))]
            uses[target] = uses.get(target, 0) + 1
    return Analysis(model, graph, flow.info, names, uses)


def refuse_shared(analysis: Analysis) -> None:
    """Refuse layers and BNs whose weights are not theirs alone: used twice, shared, computed."""
    owners: dict[int, str] = {}
    for name, parameter in analysis.model.named_parameters(remove_duplicate=False):
        first = owners.setdefault(id(parameter), name)
        if first.rpartition(".")[0] != name.rpartition(".")[0] and not _same_module(analysis, first, name):
            raise GraphError(
                f"parameters {first!r} and {name!r} are one and the same: tied weights cannot follow "
                f"different widths. Give each module a parameter of its own"
            )
    for node in analysis.of_kind(Kind.LAYER, Kind.NORM):
        if analysis.uses[analysis.names[analysis.module(node)]] > 1:
            raise GraphError(
                f"module {node.target!r} is used more than once: its uses would need different weights after "
                f"decoupling. Give each use a module of its own"
            )
        for reader in analysis.graph.nodes:
            if reader.op == "get_attr" and str(reader.target).rpartition(".")[0] == node.target:
                raise GraphError(
                    f"forward() reads {reader.target!r} besides calling module {node.target!r}: both would "
                    f"need the same width. Use the module alone, or a parameter of its own"
                )
        if "weight" not in analysis.module(node)._parameters or parametrize.is_parametrized(
            analysis.module(node)
        ):
            raise GraphError(
                f"module {node.target!r} computes its weight from other parameters (a parametrization, "
                f"weight_norm, spectral_norm, pruning): remove that first, add it again to the result"
            )


def _same_module(analysis: Analysis, first: str, second: str) -> bool:
    paths = (first.rpartition(".")[0], second.rpartition(".")[0])
    return analysis.model.get_submodule(paths[0]) is analysis.model.get_submodule(paths[1])
