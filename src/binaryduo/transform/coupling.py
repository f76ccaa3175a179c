"""Couple: the narrower network with more activation levels that is trained first (Section 5.2).

`widths` chooses how wide each layer becomes; here the model gets these widths, its levels and fresh weights.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import fx, nn

from binaryduo import nn as bnn
from binaryduo.errors import ArgumentError, GraphError
from binaryduo.graph.analysis import Analysis, analyse, refuse_shared
from binaryduo.graph.flow import Info
from binaryduo.graph.operations import Call, Kind
from binaryduo.graph.rewriting import channel_size, set_channel_size, to_module
from binaryduo.graph.tracing import as_inputs, check_training_path, unwrap
from binaryduo.nn.activation import check_interval
from binaryduo.nn.intervals import Interval
from binaryduo.nn.padding import PadChannels
from binaryduo.ste import check_levels
from binaryduo.transform.carrying import TOPOLOGIES, Topology
from binaryduo.transform.resizing import (
    resize_layer,
    resize_norm,
    resize_parameter,
    resize_scaled,
)
from binaryduo.transform.widths import Coupling, Widths


def couple(
    model: nn.Module,
    example_input: Any,
    levels: int = 3,
    topology: Topology = "duo",
    init: "Literal['he'] | Callable[[nn.Module], None] | None" = None,
    widths: "Mapping[str, int] | Literal['fill'] | None" = None,
    interval: Interval | None = None,
) -> nn.Module:
    """A new, narrower model with `levels` activation levels, freshly initialised; the argument is unchanged.

    Decoupled, it has no more weights than the model. `topology="quad"` (BinaryDuo-Q) divides the widths by
    levels - 1, so that decoupling gives the model's own architecture. The result has an attribute `coupling`
    that explains the widths.

    No weight is taken over. With `init=None` each is drawn anew as the model's own are (see `nn.redraw`), so that the
    coupled network starts as its user starts networks; "he" is He's rule, as in the paper; a function is given each
    module in turn.

    The floor of the paper's rule leaves weights over, most in narrow networks. `widths="fill"` uses them: the layers
    that lost most grow channel by channel until no layer can grow without exceeding the model's weights. A mapping
    sets the channels of layers by their qualified names; the budget is then the caller's.

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
    check_training_path(model, inputs)
    refuse_shared(analysis)
    if next(analysis.of_kind(Kind.QUANT), None) is None:
        raise GraphError(
            f"{type(model).__name__} has no quantized activation to couple: use bd.nn.QuantAct(levels=2)"
        )
    own = {name: value.detach().clone() for name, value in analysis.model.named_parameters()}
    kinds = {name: m.interval for name, m in analysis.model.named_modules() if isinstance(m, bnn.QuantAct)}
    chosen = Widths(analysis, levels, topology)
    coupling = chosen.by(widths)
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
    found: dict[str, Info] = {}
    for node in analysis.of_kind(Kind.QUANT):
        name, here = analysis.names[analysis.module(node)], analysis.info[node]
        other = found.setdefault(name, here)
        if kinds.get(name) == "channel" and here.shape[1:2] != other.shape[1:2]:
            raise GraphError(
                f"activation {name!r} is used for {other.shape[1]} and for {here.shape[1]} channels, so that it cannot "
                "learn thresholds of its own for each: use interval='layer', or an activation for each place"
            )
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


def _narrow(analysis: Analysis, widths: Widths, levels: int) -> nn.Module:
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
        return analysis.with_own_forward()
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
