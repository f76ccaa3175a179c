"""Which kind of operation each node of a traced graph is, as far as its channels are concerned."""

import math
import operator
from enum import Enum
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from binaryduo import nn as bnn
from binaryduo.errors import GraphError
from binaryduo.nn.copies import CopiedBatchNorm1d, CopiedBatchNorm2d, SelectChannels
from binaryduo.nn.padding import PadChannels


class Kind(Enum):
    """What an operation means for channels."""

    INPUT = "input"
    OUTPUT = "output"
    LAYER = "layer"  # Conv1d, Conv2d, Linear
    NORM = "norm"  # BatchNorm1d, BatchNorm2d
    QUANT = "quant"  # QuantAct with levels
    POOL = "pool"  # each channel for itself, values mapped monotonically or linearly, constants kept
    WEIGHTED = "weighted"  # linear in each channel, but constants are not kept (a padded average, dropout)
    RESHAPE = "reshape"  # (N, C, …) -> (N, C * …), or a change of the other dimensions only
    ADD = "add"  # two tensors of the same shape
    CAT = "cat"  # along the channels
    SELECT = "select"  # channels in another order
    PAD = "pad"  # zero channels appended or prepended
    ELEMENTWISE = "elementwise"  # one tensor, channel by channel, anything but linear
    JOIN = "join"  # several tensors with the same channels, not a plain addition
    SCALAR = "scalar"  # not a tensor: a size, a shape
    OTHER = "other"  # not known


# --- which kind of operation a node is --------------------------------------------------------------------

_MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d)
_ADAPTIVE = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)
_AVERAGES = (nn.AvgPool1d, nn.AvgPool2d)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)
_ZERO_PADS = (nn.ZeroPad1d, nn.ZeroPad2d)
_EXTENSIONS: tuple[type[nn.Module], ...] = (
    nn.ReflectionPad1d,
    nn.ReflectionPad2d,
    nn.ReplicationPad1d,
    nn.ReplicationPad2d,
)
_EXTENSIONS += (nn.CircularPad1d, nn.CircularPad2d)
_CURVES: tuple[type[nn.Module], ...] = (
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.GELU,
    nn.SiLU,
    nn.Sigmoid,
    nn.Tanh,
    nn.ELU,
    nn.Softplus,
)
_CURVES += (nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Mish)

_FUNCTIONS: dict[Any, Kind] = {}
for _name in ("max_pool1d", "max_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d"):
    _FUNCTIONS[getattr(F, _name)] = Kind.POOL
    if hasattr(torch, _name):
        _FUNCTIONS[getattr(torch, _name)] = Kind.POOL
for _name in ("adaptive_avg_pool1d", "adaptive_avg_pool2d"):
    _FUNCTIONS[getattr(F, _name)] = Kind.POOL
for _name in ("avg_pool1d", "avg_pool2d"):
    _FUNCTIONS[getattr(F, _name)] = Kind.WEIGHTED
for _name in ("dropout", "dropout1d", "dropout2d", "alpha_dropout"):
    _FUNCTIONS[getattr(F, _name)] = Kind.WEIGHTED
for _name in ("relu", "relu6", "leaky_relu", "gelu", "silu", "elu", "softplus", "hardtanh", "hardswish"):
    _FUNCTIONS[getattr(F, _name)] = Kind.ELEMENTWISE
for _name in ("relu", "sigmoid", "tanh", "clamp", "abs", "neg", "exp", "sqrt", "square"):
    _FUNCTIONS[getattr(torch, _name)] = Kind.ELEMENTWISE
_FUNCTIONS[operator.neg] = Kind.ELEMENTWISE
_METHODS = {
    n: Kind.ELEMENTWISE for n in ("relu", "relu_", "sigmoid", "tanh", "clamp", "clamp_", "abs", "neg")
}
_KEEPING = ("contiguous", "clone", "detach", "float", "to", "type")
_ADDITIONS: set[Any] = {operator.add, operator.iadd, torch.add, "add", "add_"}
_JOINS: set[Any] = {
    operator.sub,
    operator.isub,
    operator.mul,
    operator.imul,
    operator.truediv,
    torch.sub,
    torch.mul,
}
_JOINS |= {torch.div, torch.maximum, torch.minimum, "sub", "sub_", "mul", "mul_", "div", "div_", "expand_as"}
VIEWS: set[Any] = {torch.reshape, "view", "reshape"}
FLATTENS: set[Any] = {torch.flatten, "flatten"}
SQUEEZES: set[Any] = {torch.squeeze, "squeeze"}
UNSQUEEZES: set[Any] = {torch.unsqueeze, "unsqueeze"}
_MEANS: set[Any] = {torch.mean, "mean"}
_EXTREMES: set[Any] = {torch.amax, "amax", torch.amin, "amin"}
SWAPS: set[Any] = {torch.permute, torch.transpose, "permute", "transpose"}


def keeps_values(node: fx.Node) -> bool:
    """Whether a method returns what it is given: a copy, another layout of memory, or float32 numbers.

    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> [keeps_values(graph.call_method("to", (x, dtype))) for dtype in (torch.float32, torch.int8)]
    [True, False]
    """
    if node.op != "call_method" or node.target not in _KEEPING:
        return False
    options = [*node.args[1:], *node.kwargs.values()]
    return all(
        o is torch.float32 or isinstance(o, bool | torch.device | torch.memory_format) for o in options
    )


def _module_kind(module: nn.Module) -> Kind:
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Linear):
        return Kind.LAYER
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and not isinstance(
        module, CopiedBatchNorm1d | CopiedBatchNorm2d
    ):
        return Kind.NORM
    if isinstance(module, bnn.QuantAct):
        return Kind.ELEMENTWISE if module.levels is None else Kind.QUANT
    if isinstance(module, PadChannels):
        return Kind.PAD
    if isinstance(module, SelectChannels):
        return Kind.SELECT
    if isinstance(module, nn.Flatten):
        return Kind.RESHAPE
    if isinstance(module, _AVERAGES):
        padded = module.padding not in (0, (0,), (0, 0)) and module.count_include_pad
        return Kind.WEIGHTED if padded or getattr(module, "divisor_override", None) else Kind.POOL
    if isinstance(module, _MAX_POOLS + _ADAPTIVE) and not getattr(module, "return_indices", False):
        return Kind.POOL
    if isinstance(module, (nn.Identity, nn.Upsample, *_EXTENSIONS)):
        return Kind.POOL
    if isinstance(module, _DROPOUTS + _ZERO_PADS):
        return Kind.WEIGHTED
    if isinstance(module, _CURVES) or (isinstance(module, nn.PReLU) and module.num_parameters == 1):
        return Kind.ELEMENTWISE
    return Kind.OTHER


def is_average(node: fx.Node, module: nn.Module | None) -> bool:
    """Whether a POOL or WEIGHTED node makes values between the levels."""
    if module is not None:
        if isinstance(module, nn.Upsample):
            return not module.mode.startswith("nearest")
        return isinstance(module, _AVERAGES + _ADAPTIVE)
    if node.target is F.interpolate:
        mode = node.kwargs.get("mode", node.args[3] if len(node.args) > 3 else "nearest")
        return not str(mode).startswith("nearest")
    return "avg" in getattr(node.target, "__name__", str(node.target)) or node.target in _MEANS


def is_extreme(node: fx.Node, module: nn.Module | None) -> bool:
    """Whether a POOL node takes a largest or smallest value: exact on bits, but not on averages of bits."""
    if module is not None:
        return isinstance(module, _MAX_POOLS)
    return "max" in getattr(node.target, "__name__", "") or node.target in _EXTREMES


def channel_dim_after(node: fx.Node, module: nn.Module | None, dim: int, ndim: int) -> int | None:
    """Where a tensor's channels are behind a POOL or WEIGHTED node; None where it mixes or moves them."""
    if isinstance(module, nn.Identity | nn.Dropout) or keeps_values(node) or node.target is F.dropout:
        return dim
    if node.target in _MEANS or node.target in _EXTREMES:
        dims, keep = _reduction(node, ndim)
        if not dims or dim in dims or 0 in dims:
            return None
        return dim if keep else dim - sum(d < dim for d in dims)
    if node.target is operator.getitem:
        return 1 if dim == 1 else None
    name = type(module).__name__ if module is not None else getattr(node.target, "__name__", "")
    wanted = {"1d": 3, "2d": 4}.get(name[-2:], ndim)  # a pool takes a tensor with one less for an image
    return 1 if dim == 1 and ndim >= 3 and ndim == wanted else None


def _reduction(node: fx.Node, ndim: int) -> tuple[list[int], bool]:
    """Over which dimensions a mean or maximum goes, and whether they are kept; none where not literal.

    >>> node = fx.Graph().create_node("call_method", "mean", ("x", [2, 3]), {"keepdim": True})
    >>> _reduction(node, 4)
    ([2, 3], True)
    """
    dims = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    keep = node.kwargs.get("keepdim", node.args[2] if len(node.args) > 2 else False)
    several: list[Any] = list(dims) if isinstance(dims, tuple | list) else [dims]
    if not all(isinstance(d, int) for d in several) or not isinstance(keep, bool):
        return [], False
    return [d % ndim for d in several], keep


def _spatial_index(index: Any, ndim: int) -> bool:
    """Whether x[index] keeps batch and channels as they are: x[:, :, ::2, ::2] or x[..., 0].

    >>> _spatial_index((Ellipsis, slice(None, None, 2)), 4), _spatial_index((slice(None), 0), 4)
    (True, False)
    """
    full, parts = slice(None), list(index) if isinstance(index, tuple) else [index]
    dots = [at for at, part in enumerate(parts) if part is Ellipsis]
    if dots:
        missing = ndim - sum(part is not None for part in parts) + 1
        parts[dots[0] : dots[0] + 1] = [full] * missing
    return len(parts) > 2 and all(isinstance(part, slice) and part == full for part in parts[:2])


def _pad_kind(node: fx.Node, before: tuple[int, ...], after: tuple[int, ...]) -> Kind:
    """F.pad: of the channels, or of the other dimensions with zeros or with what is there."""
    if len(after) != len(before) or after[:1] != before[:1]:
        return Kind.OTHER
    if after[1:2] != before[1:2]:
        return Kind.PAD
    mode = node.kwargs.get("mode", node.args[2] if len(node.args) > 2 else "constant")
    value = node.kwargs.get("value", node.args[3] if len(node.args) > 3 else None)
    if mode != "constant":
        return Kind.POOL
    return Kind.WEIGHTED if value in (None, 0) else Kind.OTHER


def zero_pads(node: fx.Node) -> list[int]:
    """The sizes of an F.pad with zeros; none where it pads with something else, or by what is not a number.

    >>> zero_pads(fx.Graph().call_function(F.pad, ("x", (1, 1, 0, 0))))
    [1, 1, 0, 0]
    """
    if node.target is not F.pad:
        return []
    given = dict(zip(("input", "pad", "mode", "value"), node.args, strict=False)) | node.kwargs
    plain = given.get("mode", "constant") == "constant" and not given.get("value")
    sizes: Any = given["pad"]
    return list(sizes) if plain and all(isinstance(n, int) for n in sizes) else []


def _average_kind(node: fx.Node) -> Kind:
    padding = node.kwargs.get("padding", node.args[3] if len(node.args) > 3 else 0)
    divisor = node.kwargs.get("divisor_override", node.args[6] if len(node.args) > 6 else None)
    return Kind.POOL if padding in (0, (0,), (0, 0)) and divisor is None else Kind.WEIGHTED


def node_kind(node: fx.Node, model: nn.Module, shapes: dict[fx.Node, Any]) -> Kind:
    if node.op == "output":
        return Kind.OUTPUT
    if shapes.get(node) is None:
        return Kind.SCALAR
    if node.op == "placeholder":
        return Kind.INPUT
    tensors = [n for n in node.all_input_nodes if shapes.get(n) is not None]
    if shapes[node] == () or node.op == "get_attr" or not tensors:
        return Kind.OTHER
    if node.op == "call_module":
        kind = _module_kind(model.get_submodule(str(node.target)))
        return kind if len(tensors) == 1 else Kind.OTHER
    if node.target is bnn.quantize:
        raise GraphError(
            f"operation {node.name!r} calls bd.nn.quantize: use a bd.nn.QuantAct module instead, whose "
            f"levels can be changed"
        )
    target = node.target
    source, out = shapes[tensors[0]], shapes[node]
    if target in _ADDITIONS or target in _JOINS:
        if len(tensors) == 1:
            return Kind.ELEMENTWISE if not any(a is tensors[0] for a in node.args[1:]) else Kind.JOIN
        same = len(tensors) == 2 and all(shapes[t] == out for t in tensors)
        plain = target in _ADDITIONS and "alpha" not in node.kwargs
        return Kind.ADD if same and plain else Kind.JOIN
    if target in (torch.cat, torch.concat, torch.concatenate):
        return Kind.CAT
    if len(tensors) > 1:
        return Kind.OTHER
    if target is F.pad:
        return _pad_kind(node, source, out)
    if target in VIEWS | FLATTENS | SQUEEZES | UNSQUEEZES | SWAPS:
        return Kind.RESHAPE
    if target in _MEANS | _EXTREMES or target is F.interpolate:
        return Kind.POOL
    if target is operator.getitem and _spatial_index(node.args[1], len(source)):
        return Kind.POOL
    if target in (F.avg_pool1d, F.avg_pool2d):
        return _average_kind(node)
    if node.op == "call_function" and target in _FUNCTIONS:
        return _FUNCTIONS[target]
    if keeps_values(node):
        return Kind.POOL
    if node.op == "call_method" and target in _METHODS:
        return _METHODS[str(target)]
    return Kind.OTHER


def permutation(node: fx.Node, ndim: int) -> list[int] | None:
    """The dimensions' new order for a permute or transpose with literal arguments."""
    args = node.args[1:]
    flat: list[Any] = list(args[0]) if len(args) == 1 and isinstance(args[0], tuple | list) else list(args)
    if not flat or not all(isinstance(a, int) for a in flat):
        return None
    dims = [a % ndim for a in flat]
    if node.target in (torch.transpose, "transpose"):
        order = list(range(ndim))
        order[dims[0]], order[dims[1]] = dims[1], dims[0]
        return order
    return dims if len(dims) == ndim else None


def regrouped(
    node: fx.Node, module: nn.Module | None, before: tuple[int, ...], after: tuple[int, ...], dim: int
) -> tuple[int, int] | None:
    """Where a RESHAPE node puts the channels, and how many values of each channel it lays side by side there.

    None where channels are torn apart or mixed with the batch.
    """
    ndim, target = len(before), node.target
    numbers = [a for a in node.args[1:] if isinstance(a, int)]
    if target in SWAPS:
        order = permutation(node, ndim)
        return (order.index(dim), 1) if order is not None and order[0] == 0 else None
    if target in UNSQUEEZES:
        at = node.kwargs.get("dim", numbers[0] if numbers else 0)
        at = at % (ndim + 1) if isinstance(at, int) else 0
        return (dim + (at <= dim), 1) if at > 0 else None
    if target in SQUEEZES:
        at = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else list(range(ndim)))
        several = [at] if isinstance(at, int) else list(at)  # type: ignore[arg-type]
        gone = [d % ndim for d in several if isinstance(d, int) and before[d] == 1]
        return (dim - sum(d < dim for d in gone), 1) if dim not in gone and 0 not in gone else None
    if isinstance(module, nn.Flatten) or target in FLATTENS:
        first: Any = module.start_dim if isinstance(module, nn.Flatten) else 0
        last: Any = module.end_dim if isinstance(module, nn.Flatten) else -1
        first = node.kwargs.get("start_dim", numbers[0] if numbers else first)
        last = node.kwargs.get("end_dim", numbers[1] if len(numbers) > 1 else last)
        if not isinstance(first, int) or not isinstance(last, int) or first % ndim < dim:
            return None
        return dim, math.prod(before[dim + 1 : last % ndim + 1]) if first % ndim == dim else 1
    if dim == 1 and min(len(after), ndim) >= 2 and after[0] == before[0]:
        if after[1] == before[1]:
            return 1, 1
        if len(after) == 2:
            return 1, math.prod(before[2:])
    return None
