"""What the engine has no form for is rewritten into what it has, on the canonical graph, before it is lowered.

- A grouped convolution becomes one convolution for each group, on slices of the channels.
- A dilated one with float weights gets zeros between the weights of its kernel; one-bit weights have no zeros, so those
  stay as they are and are refused when they are lowered.
- Zeros around an image in front of a convolution become the convolution's own padding.
- A mean or maximum over pixels that were laid side by side, as in x.flatten(2).mean(2), is one over rows and columns.
"""

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryduo.graph.canonical import Shapes, add_module, put
from binaryduo.graph.reshapes import reduced_dims
from binaryduo.graph.table import recognise
from binaryduo.nn import BinaryConv1d, BinaryConv2d, binarize_weight, is_binary_weight
from binaryduo.nn.copies import AverageCopies, SelectChannels

Conv = nn.Conv1d | nn.Conv2d
_MOST_GROUPS = 256  # each is an operation of its own


def engine_forms(graph: fx.Graph, model: nn.Module, shapes: Shapes) -> None:
    """Rewrite the graph, and the model that it belongs to, in place; both compute what they did."""
    for node in list(graph.nodes):
        module = model.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, nn.Conv1d | nn.Conv2d) and module.padding_mode == "zeros":
            _rewrite_convolution(graph, model, node, module, shapes)
        elif node.op in ("call_function", "call_method"):
            _reduce_image(node, model, shapes)
    for node in reversed(list(graph.nodes)):  # what nobody reads any more
        if not node.users and node.op not in ("placeholder", "output"):
            graph.erase_node(node)
    graph.lint()


def _rewrite_convolution(
    graph: fx.Graph, model: nn.Module, node: fx.Node, module: Conv, shapes: Shapes
) -> None:
    reader, source = node, node.all_input_nodes[0]
    while _only_moves_channels(source, model) and len(source.users) == 1:  # zeros stay zeros there
        reader, source = source, source.all_input_nodes[0]
    around = _zeros_around(source, model, shapes)
    if around is not None and not isinstance(module.padding, str):
        module = _convolution(module, module.weight, module.bias)
        own: Any = module.padding
        module.padding = tuple(int(n) + more for n, more in zip(own, around, strict=True))
        node.target = add_module(model, f"{node.name}_padded", module)
        reader.replace_input_with(source, source.all_input_nodes[0])
    if set(module.dilation) != {1} and not is_binary_weight(module):
        module = _without_holes(module)
        node.target = add_module(model, f"{node.name}_dense", module)
    if 1 < module.groups <= _MOST_GROUPS:
        _split(graph, model, node, module, shapes)


def _reduce_image(node: fx.Node, model: nn.Module, shapes: Shapes) -> None:
    """Let a mean, sum or maximum over the pixels (N, C, H * W) read the image (N, C, H, W) that they come from."""
    if len(shapes.get(node) or ()) != 2:
        return
    call = recognise(node, model, shapes)
    if "keepdim" not in call.arguments or len(call.shapes[0]) != 3 or reduced_dims(call) != [2]:
        return
    source = recognise(call.sources[0], model, shapes)
    if (
        source.operation.lower != "flatten"
        or len(source.shapes[0]) != 4
        or source.shapes[0][:2] != source.shape[:2]
    ):
        return
    functions: dict[str, Any] = {
        "mean": torch.mean,
        "sum": torch.sum,
        "largest": torch.amax,
        "smallest": torch.amin,
    }
    node.op, node.target = "call_function", functions[call.operation.name]
    node.args, node.kwargs = (source.sources[0], (2, 3)), {}


def _only_moves_channels(node: fx.Node, model: nn.Module) -> bool:
    """Whether a node is one of those that `decouple` puts between a tensor and a layer, on channels."""
    module = model.get_submodule(str(node.target)) if node.op == "call_module" else None
    return isinstance(module, SelectChannels | AverageCopies) and module.dim == 1


def _zeros_around(node: fx.Node, model: nn.Module, shapes: Shapes) -> tuple[int, ...] | None:
    """How many zeros a node puts on each side of every dimension of the pixels, if that is all it does."""
    call = recognise(node, model, shapes)
    if call.operation.name != "pad" or call["mode"] != "constant" or call["value"] not in (None, 0):
        return None
    sizes: Any = list(call["pad"]) if call.literal("pad") else []
    if len(sizes) != 2 * (len(call.shape) - 2) or min(sizes) < 0 or sizes[::2] != sizes[1::2]:
        return None
    return tuple(reversed(sizes[::2]))  # given from the last dimension backwards


def _without_holes(module: Conv) -> Conv:
    """The same convolution with zeros where its kernel had holes.

    >>> _without_holes(nn.Conv2d(1, 1, 3, dilation=2)).kernel_size
    (5, 5)
    """
    weight = module.weight.detach()
    spread = [(k - 1) * d + 1 for k, d in zip(module.kernel_size, module.dilation, strict=True)]
    full = weight.new_zeros(*weight.shape[:2], *spread)
    full[(slice(None), slice(None), *(slice(None, None, d) for d in module.dilation))] = weight
    dense = _convolution(module, full, module.bias)
    dense.dilation = (1,) * len(spread)
    return dense


def _split(graph: fx.Graph, model: nn.Module, node: fx.Node, module: Conv, shapes: Shapes) -> None:
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
            name = add_module(model, f"{node.name}_group", _convolution(module, part, bias, 1))
            parts.append(
                graph.call_module(name, (graph.call_function(operator.getitem, (source, channels)),))
            )
        joined = graph.call_function(torch.cat, (parts, 1))
    put(joined, node, shapes)


def _convolution(like: Conv, weight: Tensor, bias: Tensor | None, groups: int | None = None) -> Conv:
    """A convolution like another, with these weights; `groups` where it shall have another number."""
    out, inputs, *kernel = weight.shape
    groups = like.groups if groups is None else groups
    kinds = (nn.Conv1d, BinaryConv1d) if isinstance(like, nn.Conv1d) else (nn.Conv2d, BinaryConv2d)
    made: Conv = kinds[is_binary_weight(like)](inputs * groups, out, 1, groups=groups)
    made.kernel_size, made.stride, made.padding = tuple(kernel), like.stride, like.padding
    made.dilation = like.dilation
    made.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    made.bias = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)
    return made.eval()
