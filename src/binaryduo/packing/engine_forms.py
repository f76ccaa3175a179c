"""What the engine has no form for is rewritten into what it has, on the canonical graph, before it is lowered.

- A dilated convolution with float weights gets zeros between the weights of its kernel; one-bit weights have no zeros,
  so those stay as they are and are refused when they are lowered.
- Zeros around an image in front of a convolution become the convolution's own padding. A convolution's padding with
  anything else, or with more zeros on one side than on the other, is put in front of it.
- A mean or maximum over pixels that were laid side by side, as in x.flatten(2).mean(2), is one over rows and columns.
"""

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from binaryduo.graph.canonical import Shapes, add_module
from binaryduo.graph.reshapes import reduced_dims
from binaryduo.graph.table import recognise
from binaryduo.nn import BinaryConv1d, BinaryConv2d, is_binary_weight
from binaryduo.nn.copies import AverageCopies, SelectChannels

Conv = nn.Conv1d | nn.Conv2d


def engine_forms(graph: fx.Graph, model: nn.Module, shapes: Shapes) -> None:
    """Rewrite the graph, and the model that it belongs to, in place; both compute what they did."""
    for node in list(graph.nodes):
        module = model.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, nn.Conv1d | nn.Conv2d):
            _rewrite_convolution(model, node, _padded_before(model, node, module, shapes), shapes)
        elif node.op in ("call_function", "call_method"):
            _reduce_image(node, model, shapes)
    for node in reversed(list(graph.nodes)):  # what nobody reads any more
        if not node.users and node.op not in ("placeholder", "output"):
            graph.erase_node(node)
    graph.lint()


def _rewrite_convolution(model: nn.Module, node: fx.Node, module: Conv, shapes: Shapes) -> None:
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


def _padded_before(model: nn.Module, node: fx.Node, module: Conv, shapes: Shapes) -> Conv:
    """Let what a convolution puts around its image be put there before it, unless that is the same number of zeros on
    both sides, which the engine has."""
    amounts = list(module._reversed_padding_repeated_twice)
    if module.padding_mode == "zeros" and amounts[::2] == amounts[1::2]:
        return module
    source = node.all_input_nodes[0]
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    with node.graph.inserting_before(node):
        around = node.graph.call_function(F.pad, (source, amounts), {"mode": mode})
    sizes = zip(shapes[source][2:], reversed(amounts[::2]), reversed(amounts[1::2]), strict=True)
    shapes[around] = (*shapes[source][:2], *(n + before + after for n, before, after in sizes))
    node.replace_input_with(source, around)
    bare = _convolution(module, module.weight, module.bias)
    bare.padding, bare.padding_mode = (0,) * len(module.kernel_size), "zeros"
    node.target = add_module(model, f"{node.name}_padded", bare)
    return bare


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


def _convolution(like: Conv, weight: Tensor, bias: Tensor | None) -> Conv:
    """A convolution like another, with these weights."""
    out, inputs, *kernel = weight.shape
    groups = like.groups
    kinds = (nn.Conv1d, BinaryConv1d) if isinstance(like, nn.Conv1d) else (nn.Conv2d, BinaryConv2d)
    made: Conv = kinds[is_binary_weight(like)](inputs * groups, out, 1, groups=groups)
    made.kernel_size, made.stride, made.padding = tuple(kernel), like.stride, like.padding
    made.dilation = like.dilation
    made.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    made.bias = None if bias is None else nn.Parameter(bias.detach().clone(), requires_grad=False)
    return made.eval()
