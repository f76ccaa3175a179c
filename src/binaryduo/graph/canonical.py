"""The canonical form of a traced graph: each meaning written in one way, so that every verb reads the same graph.

- What is changed in place is computed out of place.
- The parts of a chunk or split, and what narrow() takes, become slices; a slice of channels and pixels at once becomes
  two.
- The values of torch.max(x, dim) and torch.min(x, dim), without their places, become an operation of their own.
- A reshape, a transposition and a reshape that only bring the channels into another order become that order; so does a
  choice of channels by a tensor that the model has.

The graph and the model it belongs to (a copy of the user's) are changed in place; both compute what they did.
"""

import math
import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryduo.graph.channel_moves import NUMBERS, apply, index_parts
from binaryduo.graph.operations import nodes_in
from binaryduo.graph.table import recognise
from binaryduo.graph.tracer import counts_images
from binaryduo.graph.tracing import functionalise, is_record, out_of_place, run_shapes
from binaryduo.nn.copies import SelectChannels
from binaryduo.nn.extremes import largest, smallest

Shapes = dict[fx.Node, Any]

_CUTS = (torch.chunk, torch.split, "chunk", "split")
_NARROW, _BY_INDEX = (torch.narrow, "narrow"), (torch.index_select, "index_select")
_EXTREMES: dict[Any, Any] = {torch.max: largest, "max": largest, torch.min: smallest, "min": smallest}
_MOVES = ("view", "flatten", "permute", "transpose", "identity")


def canonicalise(
    graph: fx.Graph, model: nn.Module, inputs: tuple[Tensor, ...], resized: bool = True
) -> Shapes:
    """Bring the graph into its canonical form; returns the shape of every tensor in it.

    `resized`: its tensors may get other sizes than with these inputs. Where they never will, sizes that forward()
    computes become numbers, and moves that change nothing are left out.

    >>> class Half(nn.Module):
    ...     def forward(self, x):
    ...         return x.chunk(2, 1)[1]
    >>> net, graph = Half(), fx.Tracer().trace(Half())
    >>> _ = canonicalise(graph, net, (torch.zeros(1, 4),))
    >>> [node.args[1] for node in graph.nodes if node.op == "call_function"]
    [(slice(None, None, None), slice(2, 4, None))]
    """
    functionalise(graph, model)
    out_of_place(graph, model)
    shapes, numbers = run_shapes(model, graph, inputs)
    replaced = []
    for node in list(graph.nodes):
        changed = False
        if _calls(node, _NARROW):
            _as_slice(node, numbers, shapes)
        if (index := _listed(node, model, shapes)) is not None:
            changed = _select(graph, model, node.all_input_nodes[0], node, index, shapes)
        elif node.target is operator.getitem and _calls(node.args[0], _CUTS):
            changed = _slice(graph, node, shapes)
        elif node.target in (operator.getitem, getattr) and _calls(node.args[0], tuple(_EXTREMES)):
            changed = _extreme(graph, node, shapes)
        elif node.target is operator.getitem and isinstance(node.args[1], tuple):
            _write_out(node, numbers, resized)
            _keep_bounds(node, numbers, shapes)
            changed = _divide(graph, node, shapes)
        elif _moves(node, model, shapes) in ("view", "flatten"):
            changed = _order(graph, model, node, shapes, numbers, resized)
        if changed:
            replaced.append(node)
        if node.op == "output" and not resized:
            node.args = fx.node.map_arg(node.args, lambda n: _opened(n))
    for node in reversed(replaced):
        _erase(node)
    graph.lint()
    return {node: shapes[node] for node in graph.nodes}


def put(new: fx.Node, node: fx.Node, shapes: Shapes) -> None:
    """Let all who read a node read a new one of the same shape instead."""
    shapes[new] = shapes[node]
    node.replace_all_uses_with(new)


def _erase(node: fx.Node) -> None:
    if node._erased or node.users or node.op in ("placeholder", "output"):
        return
    sources = node.all_input_nodes
    node.graph.erase_node(node)
    for source in sources:
        _erase(source)


def add_module(model: nn.Module, stem: str, module: nn.Module) -> str:
    """Give the model a module, in the model's own mode, under a name that is free."""
    number = 0
    while hasattr(model, f"{stem}_{number}"):
        number += 1
    model.add_module(f"{stem}_{number}", module.train(model.training))
    return f"{stem}_{number}"


def _opened(node: fx.Node) -> Any:
    """What a named tuple or a data class of outputs is made of, as a plain tuple; any other node as it is."""
    if not is_record(node):
        return node
    return fx.node.map_arg((*node.args, *node.kwargs.values()), _opened)


def _calls(node: Any, targets: tuple[Any, ...]) -> bool:
    """Whether a node calls one of these functions or methods; an input or a module may have a method's name."""
    return (
        isinstance(node, fx.Node) and node.op in ("call_function", "call_method") and node.target in targets
    )


def _slice(graph: fx.Graph, node: fx.Node, shapes: Shapes) -> bool:
    """Put a slice in the place of one part of a chunk or split."""
    whole, number = node.args
    assert isinstance(whole, fx.Node)
    given = dict(zip(("input", "size", "dim"), whole.args, strict=False)) | whole.kwargs
    source, dim = given["input"], given.get("dim", 0)
    if not isinstance(source, fx.Node) or not isinstance(dim, int) or not isinstance(number, int):
        return False
    shape = shapes[source]
    dim %= len(shape)
    if dim == 0 or number < 0:
        return False
    readers = [user for user in whole.users if user.target is operator.getitem]
    sizes: dict[Any, int] = {r.args[1]: shapes[r][dim] for r in readers if isinstance(r.args[1], int)}
    wanted: Any = next((value for name, value in given.items() if name not in ("input", "dim")), None)
    if isinstance(wanted, int) or (
        isinstance(wanted, list | tuple) and all(isinstance(n, int) for n in wanted)
    ):
        cut: Any = torch.chunk if whole.target in (torch.chunk, "chunk") else torch.split
        sizes = dict(enumerate(len(part) for part in cut(torch.arange(shape[dim]), wanted)))
    if any(before not in sizes for before in range(number)):  # a computed size of a part that nobody reads
        return False
    start = sum(sizes[before] for before in range(number))
    with graph.inserting_before(node):
        part = (*[slice(None)] * dim, slice(start, start + sizes[number]))
        put(graph.call_function(operator.getitem, (source, part)), node, shapes)
    return True


def _as_slice(node: fx.Node, numbers: dict[fx.Node, Any], shapes: Shapes) -> None:
    """Write x.narrow(dim, start, length) as the slice that it is, where its numbers are known; of channels, also where
    forward() computes them."""
    given = dict(zip(("input", "dim", "start", "length"), node.args, strict=False)) | node.kwargs
    source, dim = given["input"], given["dim"]
    if not isinstance(source, fx.Node) or not isinstance(dim, int) or dim % len(shapes[source]) == 0:
        return
    dim %= len(shapes[source])
    known = {
        n: numbers[n] for n in node.all_input_nodes if dim == 1 and n in numbers and not counts_images(n)
    }
    start, length = (
        known.get(n, n) if isinstance(n, fx.Node) else n for n in (given["start"], given["length"])
    )
    if isinstance(start, int) and isinstance(length, int):
        part = (*[slice(None)] * dim, slice(start, start + length))
        node.op, node.target, node.args, node.kwargs = "call_function", operator.getitem, (source, part), {}


def _listed(node: fx.Node, model: nn.Module, shapes: Shapes) -> Tensor | None:
    """The channels that a tensor of the model's picks, as in x.index_select(1, self.order) or x[:, self.order]."""
    source: Any = None
    dim: Any = 1
    index: Any = None
    if _calls(node, _BY_INDEX):
        given = dict(zip(("input", "dim", "index"), node.args, strict=False)) | node.kwargs
        source, dim, index = given["input"], given["dim"], given["index"]
    elif node.target is operator.getitem and isinstance(node.args[1], tuple) and len(node.args[1]) > 1:
        source, (first, index, *others) = node.args[0], node.args[1]
        dim = 1 if all(part == slice(None) for part in (first, *others)) else 0
    shape = shapes.get(source) if isinstance(source, fx.Node) else None
    if (
        not shape
        or not isinstance(index, fx.Node)
        or index.op != "get_attr"
        or dim not in (1, 1 - len(shape))
    ):
        return None
    path, _, name = str(index.target).rpartition(".")
    found = getattr(model.get_submodule(path), name)
    if not isinstance(found, Tensor) or found.dim() != 1 or found.is_floating_point():
        return None
    return found.nonzero()[:, 0] if found.dtype == torch.bool else found.long() % shape[1]


def _select(
    graph: fx.Graph, model: nn.Module, source: Any, node: fx.Node, order: Tensor, shapes: Shapes
) -> bool:
    """Put a list of a tensor's channels in the place of the node that brings them into that order."""
    with graph.inserting_before(node):
        name = add_module(model, f"{node.name}_order", SelectChannels(order, 1))
        new = graph.call_module(name, (source,))
        new.meta["written"] = f"the order of channels by {recognise(node, model, shapes).written}"
        put(new, node, shapes)
    return True


def _extreme(graph: fx.Graph, node: fx.Node, shapes: Shapes) -> bool:
    """Put the largest or smallest values in the place of the first half of a max or min along a dimension."""
    both, part = node.args[:2]
    assert isinstance(both, fx.Node)
    given = dict(zip(("input", "dim", "keepdim"), both.args, strict=False)) | both.kwargs
    if part not in (0, "values") or not isinstance(given.get("dim"), int):
        return False
    arguments = (given["input"], given["dim"], given.get("keepdim", False))
    with graph.inserting_before(node):
        put(graph.call_function(_EXTREMES[both.target], arguments), node, shapes)
    return True


def _write_out(node: fx.Node, numbers: dict[fx.Node, Any], resized: bool) -> None:
    """Write the bounds of a slice of channels as numbers where forward() computes them: x[:, : x.shape[1] // 2].

    How many channels there are does not depend on the data; where the number of images has a part in it, or another
    dimension is cut, it stays computed, unless nothing will be resized.
    """
    source, index = node.args
    parts: list[Any] = list(index)  # type: ignore[arg-type]
    if resized and (len(parts) < 2 or parts[0] != slice(None) or not isinstance(parts[1], slice)):
        return
    for at in (1,) if resized else range(len(parts)):
        found = nodes_in(parts[at])
        if found and all(n in numbers and not counts_images(n) for n in found):
            parts[at] = fx.node.map_arg(parts[at], lambda n: numbers[n])
    node.args = (source, tuple(parts))


def _keep_bounds(node: fx.Node, numbers: dict[fx.Node, Any], shapes: Shapes) -> None:
    """Keep with a slice of rows and columns what its computed bounds are here, as of x[:, :, : y.size(2)]: which images
    and channels it takes does not depend on them."""
    shape = shapes.get(node.args[0])  # type: ignore[arg-type]
    parts = index_parts(node.args[1], len(shape)) if shape else []
    found = nodes_in(parts[2:])
    if found and not nodes_in(parts[:2]) and all(n in numbers and not counts_images(n) for n in found):
        node.meta[NUMBERS] = {n: numbers[n] for n in found}


def _divide(graph: fx.Graph, node: fx.Node, shapes: Shapes) -> bool:
    """Put two slices, of channels and of pixels, in the place of one that takes both."""
    source, index = node.args
    full, parts = slice(None), list(index)  # type: ignore[arg-type]
    if not all(isinstance(part, slice) for part in parts) or len(parts) < 3 or parts[1] == full:
        return False
    if all(part == full for part in parts[2:]) or parts[0] != full:
        return False
    assert isinstance(source, fx.Node)
    with graph.inserting_before(node):
        channels = graph.call_function(operator.getitem, (source, (full, parts[1])))
        shapes[channels] = (shapes[source][0], shapes[node][1], *shapes[source][2:])
        pixels = graph.call_function(operator.getitem, (channels, (full, full, *parts[2:])))
        pixels.meta.update(node.meta)
        put(pixels, node, shapes)
    return True


def _moves(node: fx.Node, model: nn.Module, shapes: Shapes) -> str | None:
    """Which of the operations a node is that a channel shuffle is written with, if any."""
    if node.op not in ("call_function", "call_method") or not shapes.get(node):
        return None
    name = recognise(node, model, shapes).operation.name
    return name if name in _MOVES else None


def _order(
    graph: fx.Graph,
    model: nn.Module,
    node: fx.Node,
    shapes: Shapes,
    numbers: dict[fx.Node, Any],
    resized: bool,
) -> bool:
    """Put a list of channels in the place of moves that only change their order, as a channel shuffle does."""
    shape, chain = shapes[node], [node]
    if len(shape) < 2:
        return False
    source = chain[0].args[0] if chain[0].args else None
    while isinstance(source, fx.Node) and shapes[source] != shape and _moves(source, model, shapes):
        chain.append(source)
        source = source.args[0]
    if not isinstance(source, fx.Node) or shapes[source] != shape or len(chain) < 2:
        return False
    places = torch.arange(math.prod(shape), dtype=torch.int32).view(shape)  # each value by its number
    moved = places
    for move in reversed(chain):
        moved = apply(move, moved, numbers)
    order = (moved[0].reshape(shape[1], -1)[:, 0] // math.prod(shape[2:]) % shape[1]).long()
    if not torch.equal(moved, places.index_select(1, order)):  # pixels or images are moved as well
        return False
    if torch.equal(order, torch.arange(shape[1])):  # of so many channels none is moved; of others some may be
        if not resized:
            put(source, node, shapes)
            return True
        if not any(_moves(move, model, shapes) in ("permute", "transpose") for move in chain):
            return False
    return _select(graph, model, source, node, order, shapes)
