"""What users write, in the forms that the engine has.

- A grouped convolution becomes one convolution for each group, on slices of the channels.
- A dilated one with float weights gets zeros in the holes of its kernel; one-bit weights have no zeros, so those
  stay as they are and are refused when they are lowered.
- Zeros around an image in front of a convolution become the convolution's own padding.
- The parts of a chunk or split of the channels become slices.
- A reshape, a transposition and a reshape that only bring the channels into another order become that order.
"""

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryduo.graph.operations import FLATTENS, SWAPS, VIEWS, zero_pads
from binaryduo.graph.rewriting import unused_name
from binaryduo.graph.tracing import run_shapes
from binaryduo.nn import BinaryConv2d, binarize_weight, is_binary_weight
from binaryduo.nn.copies import AverageCopies, SelectChannels

_MOST_GROUPS = 256  # each is an operation of its own
_CUTS = (torch.chunk, torch.split, "chunk", "split")
_RESHAPES = (*VIEWS, *FLATTENS)
_TURNS = (*SWAPS, "contiguous", "clone", torch.clone)


def rewrite_forms(graph: fx.Graph, model: nn.Module, image: Tensor) -> None:
    """Rewrite the graph, and the model that it belongs to, in place; both compute what they did."""
    shapes = run_shapes(model, graph, (image,))
    for node in list(graph.nodes):
        module = model.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, nn.Conv2d) and module.padding_mode == "zeros":
            _rewrite_convolution(graph, model, node, module, shapes)
        elif node.target is operator.getitem and _calls(node.args[0], _CUTS):
            _cut(graph, node, shapes)
        elif _calls(node, _RESHAPES) and len(shapes[node]) == 4:
            _order(graph, model, node, shapes, image)
    for node in reversed(list(graph.nodes)):  # what nobody reads any more
        if not node.users and node.op not in ("placeholder", "output"):
            graph.erase_node(node)
    graph.lint()


def _calls(node: Any, targets: tuple[Any, ...]) -> bool:
    """Whether a node calls one of these functions or methods; an input or a module may have a method's name."""
    return (
        isinstance(node, fx.Node) and node.op in ("call_function", "call_method") and node.target in targets
    )


def _put(new: fx.Node, node: fx.Node, shapes: dict[fx.Node, Any]) -> None:
    """Let all who read a node read a new one instead, which has its shape."""
    shapes[new] = shapes[node]
    node.replace_all_uses_with(new)


def _rewrite_convolution(
    graph: fx.Graph, model: nn.Module, node: fx.Node, module: nn.Conv2d, shapes: dict[fx.Node, Any]
) -> None:
    reader, source = node, node.all_input_nodes[0]
    while _only_moves_channels(source, model) and len(source.users) == 1:  # zeros stay zeros there
        reader, source = source, source.all_input_nodes[0]
    around = _zeros_around(source, model)
    if around is not None and not isinstance(module.padding, str):
        module = _convolution(module, module.weight, module.bias)
        module.padding = (int(module.padding[0]) + around[0], int(module.padding[1]) + around[1])
        node.target = _add(model, f"{node.name}_padded", module)
        reader.replace_input_with(source, source.all_input_nodes[0])
    if module.dilation != (1, 1) and not is_binary_weight(module):
        module = _without_holes(module)
        node.target = _add(model, f"{node.name}_dense", module)
    if 1 < module.groups <= _MOST_GROUPS:
        _split(graph, model, node, module, shapes)


def _only_moves_channels(node: fx.Node, model: nn.Module) -> bool:
    """Whether a node is one of those that `decouple` puts between a tensor and a layer, on channels."""
    module = model.get_submodule(str(node.target)) if node.op == "call_module" else None
    return isinstance(module, SelectChannels | AverageCopies) and module.dim == 1


def _zeros_around(node: fx.Node, model: nn.Module) -> tuple[int, int] | None:
    """How many rows and columns of zeros a node puts on each side, if that is all it does."""
    if node.op == "call_module":
        module = model.get_submodule(str(node.target))
        sizes: Any = module.padding if isinstance(module, nn.ZeroPad2d) else ()
    else:
        sizes = zero_pads(node)
    if len(sizes) != 4 or min(sizes) < 0:
        return None
    left, right, top, bottom = sizes
    return (top, left) if left == right and top == bottom else None


def _cut(graph: fx.Graph, node: fx.Node, shapes: dict[fx.Node, Any]) -> None:
    """Put a slice in the place of one part of a chunk or split."""
    whole, number = node.args
    assert isinstance(whole, fx.Node)
    given = dict(zip(("input", "size", "dim"), whole.args, strict=False)) | whole.kwargs
    source, dim = given["input"], given.get("dim", 0)
    if not isinstance(source, fx.Node) or not isinstance(dim, int) or not isinstance(number, int):
        return
    shape = shapes[source]
    if dim % len(shape) != 1 or number < 0:
        return
    readers = [user for user in whole.users if user.target is operator.getitem]
    sizes: dict[Any, int] = {r.args[1]: shapes[r][1] for r in readers if isinstance(r.args[1], int)}
    wanted: Any = next((value for name, value in given.items() if name not in ("input", "dim")), None)
    if isinstance(wanted, int) or (
        isinstance(wanted, list | tuple) and all(isinstance(n, int) for n in wanted)
    ):
        cut: Any = torch.chunk if whole.target in (torch.chunk, "chunk") else torch.split
        sizes = dict(enumerate(len(part) for part in cut(torch.arange(shape[1]), wanted)))
    if any(before not in sizes for before in range(number)):  # a computed size of a part that nobody reads
        return
    start = sum(sizes[before] for before in range(number))
    with graph.inserting_before(node):
        part = (slice(None), slice(start, start + sizes[number]))
        _put(graph.call_function(operator.getitem, (source, part)), node, shapes)


def _order(
    graph: fx.Graph, model: nn.Module, node: fx.Node, shapes: dict[fx.Node, Any], image: Tensor
) -> None:
    """Put a list of channels in the place of moves that only change their order, as a channel shuffle does."""
    source = node
    while _calls(source, _RESHAPES + _TURNS) and isinstance(source.args[0], fx.Node):
        source = source.args[0]
        if shapes[source] == shapes[node]:
            break
    else:
        return
    channels = torch.arange(shapes[node][1], dtype=image.dtype).view(1, -1, 1, 1)
    moved = _Numbered(model, graph, source, channels.expand(shapes[node]).clone()).value_of(node, image)
    order = moved[:1, :, :1, :1]
    if bool((moved == order).all()):
        with graph.inserting_before(node):
            name = _add(model, f"{node.name}_order", SelectChannels(order.flatten().long(), 1))
            _put(graph.call_module(name, (source,)), node, shapes)


class _Numbered(fx.Interpreter):
    """Runs a graph with one node's value replaced by given numbers."""

    def __init__(self, model: nn.Module, graph: fx.Graph, source: fx.Node, numbers: Tensor) -> None:
        super().__init__(model, graph=graph)
        self.source, self.numbers = source, numbers

    def value_of(self, node: fx.Node, image: Tensor) -> Tensor:
        needed = {node}
        for n in reversed(list(self.graph.nodes)):
            if n in needed and n is not self.source:
                needed.update(n.all_input_nodes)
        for n in self.graph.nodes:
            if n in needed:
                value = self.numbers if n is self.source else None
                if value is None:
                    value = image if n.op == "placeholder" else self.run_node(n)
                self.env[n] = value
        found: Tensor = self.env[node]
        return found


def _without_holes(module: nn.Conv2d) -> nn.Conv2d:
    """The same convolution with zeros where its kernel had holes.

    >>> _without_holes(nn.Conv2d(1, 1, 3, dilation=2)).kernel_size
    (5, 5)
    """
    (high, wide), (dy, dx) = module.kernel_size, module.dilation
    weight = module.weight.detach()
    full = weight.new_zeros(*weight.shape[:2], (high - 1) * dy + 1, (wide - 1) * dx + 1)
    full[:, :, ::dy, ::dx] = weight
    dense = _convolution(module, full, module.bias)
    dense.dilation = (1, 1)
    return dense


def _split(
    graph: fx.Graph, model: nn.Module, node: fx.Node, module: nn.Conv2d, shapes: dict[fx.Node, Any]
) -> None:
    """Put the groups' own convolutions, and their concatenation, in the place of a grouped one."""
    (source,) = node.all_input_nodes
    # One scale for the whole layer: the groups must not find scales of their own.
    weight = binarize_weight(module.weight) if is_binary_weight(module) else module.weight
    biases = [None] * module.groups if module.bias is None else torch.chunk(module.bias, module.groups)
    size = module.in_channels // module.groups
    with graph.inserting_before(node):
        parts = []
        for i, (part, bias) in enumerate(
            zip(torch.chunk(weight.detach(), module.groups), biases, strict=True)
        ):
            channels = (slice(None), slice(i * size, (i + 1) * size))
            name = _add(model, f"{node.name}_group", _convolution(module, part, bias, 1))
            parts.append(
                graph.call_module(name, (graph.call_function(operator.getitem, (source, channels)),))
            )
        joined = graph.call_function(torch.cat, (parts, 1))
    _put(joined, node, shapes)
    graph.erase_node(node)


def _convolution(
    like: nn.Conv2d, weight: Tensor, bias: Tensor | None, groups: int | None = None
) -> nn.Conv2d:
    """A convolution like another, with these weights; `groups` where it shall have another number."""
    out, inputs, *kernel = weight.shape
    groups = like.groups if groups is None else groups
    made = (BinaryConv2d if is_binary_weight(like) else nn.Conv2d)(inputs * groups, out, 1, groups=groups)
    made.kernel_size, made.stride, made.padding = tuple(kernel), like.stride, like.padding
    made.dilation = like.dilation
    made.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    made.bias = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)
    return made.eval()


def _add(model: nn.Module, stem: str, module: nn.Module) -> str:
    name = unused_name(model, stem)
    model.add_module(name, module)
    return name
