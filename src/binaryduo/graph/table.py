"""The one table of operations: every meaning that binaryduo knows, and all the ways in which people write it.

To support an operation, add a row. What a row says is used by every verb: `couple` and `decouple` follow channels by
its kind, `cost` asks whether levels survive it, `profile` re-evaluates through it, `pack` lowers it by the method that
it names.
Where nothing in the table fits, the operation is unknown: it is never guessed at.
"""

import math
import operator
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from binaryduo import nn as bnn
from binaryduo.errors import GraphError
from binaryduo.graph.call_kinds import (
    average_kind,
    cast_kind,
    join_kind,
    pad_kind,
    prelu_kind,
    quant_kind,
    read_pad,
    transposed_kind,
    upsample_averages,
)
from binaryduo.graph.channel_moves import move_kind
from binaryduo.graph.operations import REQUIRED, Call, Kind, Operation, bind, nodes_in
from binaryduo.graph.tracing import is_record
from binaryduo.nn.copies import (
    AverageCopies,
    CopiedBatchNorm1d,
    CopiedBatchNorm2d,
    ReplicateCopies,
    SelectChannels,
)
from binaryduo.nn.extremes import largest, smallest
from binaryduo.nn.padding import PadChannels

# --- the rows ---------------------------------------------------------------------------------------------

_LAYOUT = (
    "a packed model keeps (N, C, H, W), (N, C, T) or (N, features). Return such tensors and bring them into another "
    "order outside of the model"
)
_WINDOW = {"kernel_size": REQUIRED, "stride": None, "padding": 0}


def _curve(name: str, *modules: type[nn.Module], lower: str | None = "curve", **arguments: Any) -> Operation:
    """A function of each value by itself."""
    functions = [getattr(place, name, None) for place in (torch, F)]
    return Operation(
        name,
        Kind.ELEMENTWISE,
        arguments,
        lower=lower,
        functions=tuple(dict.fromkeys(f for f in functions if f is not None)),
        methods=(name,) if hasattr(torch.Tensor, name) else (),
        modules=modules,
    )


def _join(name: str, *functions: Any, lower: str | None = None) -> Operation:
    """Two tensors, or a tensor and a number."""
    methods = (name,) if hasattr(torch.Tensor, name) else ()
    return Operation(
        name, join_kind, {"other": REQUIRED, "alpha": 1}, functions, methods, several=True, lower=lower
    )


def _reduction(name: str, kind: Kind, function: Any, *others: Any, **more: Any) -> Operation:
    """Some dimensions become one number each: `function` is also a method of tensors."""
    arguments = {"dim": None, "keepdim": False}
    return Operation(name, kind, arguments, (function, *others), (function.__name__,), **more)


def _move(name: str, arguments: dict[str, Any], *functions: Any, **more: Any) -> Operation:
    """Channels or pixels in another order, or some of them."""
    return Operation(name, move_kind, arguments, functions, lower="select", **more)


TABLE: tuple[Operation, ...] = (
    # layers, normalisation, activation
    Operation("convolution", Kind.LAYER, modules=(nn.Conv1d, nn.Conv2d), lower="layer"),
    Operation("linear", Kind.LAYER, modules=(nn.Linear,), lower="layer"),
    Operation(
        "transposed_convolution",
        transposed_kind,
        modules=(nn.ConvTranspose1d, nn.ConvTranspose2d),
        lower="transposed",
    ),
    Operation("copied_norm", Kind.OTHER, modules=(CopiedBatchNorm1d, CopiedBatchNorm2d), lower="norm"),
    Operation("batch_norm", Kind.NORM, modules=(nn.BatchNorm1d, nn.BatchNorm2d), lower="norm"),
    Operation(
        "group_norm",
        Kind.SCALED,
        modules=(nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm1d, nn.InstanceNorm2d),
        accepts=lambda module: not getattr(module, "track_running_stats", False),
        lower="normalise",
    ),
    Operation("quantize", quant_kind, modules=(bnn.QuantAct,), lower="quantize"),
    # what `decouple` inserts
    Operation("average_copies", Kind.OTHER, modules=(AverageCopies,), lower="average_copies"),
    Operation("replicate_copies", Kind.OTHER, modules=(ReplicateCopies,), lower="replicate"),
    # layers whose weights are given to them: counted, not followed
    Operation(
        "conv_function",
        Kind.OTHER,
        functions=(F.conv1d, F.conv2d, F.conv3d),
        several=True,
        instead="use the module, as nn.Conv2d, so that the weights belong to it",
    ),
    Operation(
        "linear_function",
        Kind.OTHER,
        functions=(F.linear,),
        several=True,
        instead="use the module nn.Linear, so that the weights belong to it",
    ),
    Operation(
        "product",
        Kind.OTHER,
        functions=(torch.matmul, torch.bmm, torch.einsum, operator.matmul, F.scaled_dot_product_attention),
        methods=("matmul", "bmm"),
        several=True,
        instead="products of two tensors, as in attention, stay in PyTorch or in ONNX (bd.export_onnx)",
    ),
    Operation(
        "softmax",
        Kind.OTHER,
        functions=(torch.softmax, torch.log_softmax, F.softmax, F.log_softmax),
        methods=("softmax", "log_softmax"),
        modules=(nn.Softmax, nn.LogSoftmax),
        instead="leave it out of the model: the largest value stays the largest",
    ),
    # pools
    Operation(
        "max_pool",
        Kind.POOL,
        {**_WINDOW, "dilation": 1, "ceil_mode": False, "return_indices": False},
        (F.max_pool1d, F.max_pool2d, torch.max_pool1d, torch.max_pool2d),
        modules=(nn.MaxPool1d, nn.MaxPool2d),
        accepts=lambda module: not module.return_indices,
        extreme=True,
        lower="max_pool",
    ),
    Operation(
        "average_pool",
        average_kind,
        {**_WINDOW, "ceil_mode": False, "count_include_pad": True, "divisor_override": None},
        (F.avg_pool1d, F.avg_pool2d),
        modules=(nn.AvgPool1d, nn.AvgPool2d),
        average=True,
        lower="average_pool",
    ),
    Operation(
        "adaptive_max_pool",
        Kind.POOL,
        {"output_size": REQUIRED, "return_indices": False},
        (F.adaptive_max_pool1d, F.adaptive_max_pool2d),
        modules=(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
        accepts=lambda module: not module.return_indices,
        extreme=True,
        lower="adaptive_max_pool",
    ),
    Operation(
        "adaptive_average_pool",
        Kind.POOL,
        {"output_size": REQUIRED},
        (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d),
        modules=(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d),
        average=True,
        lower="adaptive_average_pool",
    ),
    _reduction("mean", Kind.POOL, torch.mean, average=True, lower="mean"),
    _reduction("sum", Kind.WEIGHTED, torch.sum, average=True, lower="sum_of_pixels"),
    _reduction("largest", Kind.POOL, torch.amax, largest, extreme=True, lower="largest"),
    _reduction(
        "smallest",
        Kind.POOL,
        torch.amin,
        smallest,
        extreme=True,
        instead="the smallest value is the negative of the largest one of the negated values: -(-x).amax(dim)",
    ),
    Operation(
        "upsample",
        Kind.POOL,
        {"size": None, "scale_factor": None, "mode": "nearest", "align_corners": None},
        (F.interpolate,),
        modules=(nn.Upsample,),
        average=upsample_averages,
        lower="resample",
    ),
    Operation(
        "pixel_shuffle",
        Kind.OTHER,
        {"upscale_factor": REQUIRED},
        (F.pixel_shuffle,),
        modules=(nn.PixelShuffle,),
        lower="pixel_shuffle",
    ),
    # nothing, in evaluation
    Operation(
        "identity",
        Kind.POOL,
        functions=(torch.clone,),
        methods=("contiguous", "clone", "detach"),
        modules=(nn.Identity,),
        lower="identity",
    ),
    Operation("cast", cast_kind, methods=("float", "to", "type"), lower="identity"),
    Operation(
        "dropout",
        Kind.WEIGHTED,
        {"p": 0.5, "training": True, "inplace": False},
        (F.dropout, F.dropout1d, F.dropout2d, F.alpha_dropout, F.feature_alpha_dropout),
        modules=(nn.modules.dropout._DropoutNd,),
        lower="dropout",
    ),
    # shapes
    Operation(
        "flatten",
        Kind.RESHAPE,
        {"start_dim": 0, "end_dim": -1},
        (torch.flatten,),
        ("flatten",),
        (nn.Flatten,),
        lower="flatten",
    ),
    Operation(
        "view", Kind.RESHAPE, {"shape": REQUIRED}, (torch.reshape,), ("view", "reshape"), lower="flatten"
    ),
    Operation("squeeze", Kind.RESHAPE, {"dim": None}, (torch.squeeze,), ("squeeze",), lower="flatten"),
    Operation(
        "unsqueeze", Kind.RESHAPE, {"dim": REQUIRED}, (torch.unsqueeze,), ("unsqueeze",), lower="flatten"
    ),
    Operation("permute", Kind.RESHAPE, {"dims": REQUIRED}, (torch.permute,), ("permute",), instead=_LAYOUT),
    Operation(
        "transpose",
        Kind.RESHAPE,
        {"dim0": REQUIRED, "dim1": REQUIRED},
        (torch.transpose, torch.swapaxes),
        ("transpose", "swapaxes"),
        instead=_LAYOUT,
    ),
    # channels
    Operation(
        "cat",
        Kind.CAT,
        {"dim": 0},
        (torch.cat, torch.concat, torch.concatenate),
        several=True,
        lower="concatenate",
    ),
    Operation("pad_channels", Kind.PAD, {"channels": REQUIRED}, modules=(PadChannels,), lower="pad_channels"),
    Operation(
        "pad",
        pad_kind,
        {"pad": REQUIRED, "mode": "constant", "value": None},
        (F.pad,),
        modules=(
            nn.modules.padding._ConstantPadNd,
            nn.modules.padding._ReflectionPadNd,
            nn.modules.padding._ReplicationPadNd,
            nn.modules.padding._CircularPadNd,
        ),
        read=read_pad,
        lower="pad_channels",
    ),
    _move("select_channels", {"index": REQUIRED, "dim": 1}, modules=(SelectChannels,)),
    _move("slice", {"index": REQUIRED}, operator.getitem),
    _move("roll", {"shifts": REQUIRED, "dims": ()}, torch.roll, methods=("roll",)),
    _move("flip", {"dims": REQUIRED}, torch.flip, methods=("flip",)),
    _move(
        "index_select", {"dim": REQUIRED, "index": REQUIRED}, torch.index_select, methods=("index_select",)
    ),
    _move(
        "narrow",
        {"dim": REQUIRED, "start": REQUIRED, "length": REQUIRED},
        torch.narrow,
        methods=("narrow",),
    ),
    # two tensors, or a tensor and a number
    _join("add", operator.add, torch.add, lower="add"),
    _join("sub", operator.sub, torch.sub, lower="number"),
    _join("mul", operator.mul, torch.mul, lower="number"),
    _join("div", operator.truediv, torch.div, lower="number"),
    _join("maximum", torch.maximum, lower="join"),
    _join("minimum", torch.minimum, lower="join"),
    _join("expand_as", lower="expand"),
    # functions of each value
    Operation(
        "relu",
        Kind.ELEMENTWISE,
        functions=(torch.relu, F.relu),
        methods=("relu",),
        modules=(nn.ReLU,),
        lower="relu",
    ),
    _curve("relu6", nn.ReLU6),
    _curve("leaky_relu", nn.LeakyReLU, negative_slope=0.01),
    Operation("prelu", prelu_kind, modules=(nn.PReLU,), lower="curve"),
    _curve("gelu", nn.GELU, approximate="none"),
    _curve("silu", nn.SiLU),
    _curve("sigmoid", nn.Sigmoid),
    _curve("tanh", nn.Tanh),
    _curve("elu", nn.ELU, alpha=1.0),
    _curve("softplus", nn.Softplus, beta=1),
    _curve("hardtanh", nn.Hardtanh, min_val=-1.0, max_val=1.0),
    _curve("hardswish", nn.Hardswish),
    _curve("hardsigmoid", nn.Hardsigmoid),
    _curve("mish", nn.Mish),
    _curve("clamp", min=None, max=None),
    _curve("abs"),
    _curve("exp"),
    _curve("square"),
    _curve("sqrt", lower=None),
    Operation(
        "power",
        Kind.ELEMENTWISE,
        {"exponent": REQUIRED},
        (torch.pow, operator.pow),
        ("pow",),
        lower="power",
    ),
    _curve("neg", lower="negate"),
    Operation("minus", Kind.ELEMENTWISE, functions=(operator.neg,), lower="negate"),
)

INPUT, OUTPUT, SCALAR, PARAMETER, UNKNOWN = (
    Operation(kind.value, kind) for kind in (Kind.INPUT, Kind.OUTPUT, Kind.SCALAR, Kind.PARAMETER, Kind.OTHER)
)
_FUNCTIONS = {function: row for row in TABLE for function in row.functions}
_METHODS = {method: row for row in TABLE for method in row.methods}


def _find(node: fx.Node, module: nn.Module | None) -> Operation:
    if module is not None:
        rows = (row for row in TABLE if isinstance(module, row.modules) and row.accepts(module))
        return next(rows, UNKNOWN)
    if node.op == "call_method":
        return _METHODS.get(str(node.target), UNKNOWN)
    return _FUNCTIONS.get(node.target, UNKNOWN) if node.op == "call_function" else UNKNOWN


def _is_parameter(node: fx.Node, model: nn.Module) -> bool:
    """Whether forward() reads a parameter of a module of the user's own: others belong to what is called."""
    path, _, name = str(node.target).rpartition(".")
    owner = model.get_submodule(path)
    return name in owner._parameters and not type(owner).__module__.startswith("torch.nn.modules")


def recognise(node: fx.Node, model: nn.Module, shapes: dict[fx.Node, Any]) -> Call:
    """What a node of a traced graph means.

    >>> net = nn.Sequential(nn.MaxPool2d(2))
    >>> graph = fx.Tracer().trace(net)
    >>> x, pool, _ = graph.nodes
    >>> call = recognise(pool, net, {x: (1, 3, 4, 4), pool: (1, 3, 2, 2)})
    >>> call.operation.name, call["kernel_size"], call.kind
    ('max_pool', 2, <Kind.POOL: 'pool'>)
    """
    if node.op == "output" or is_record(node):
        return Call(node, OUTPUT)
    shape = shapes.get(node)
    if shape is None:
        return Call(node, SCALAR)
    if node.op == "placeholder":
        return Call(node, INPUT, shape=shape)
    if node.op == "get_attr" and 1 < math.prod(shape) == max(shape) and _is_parameter(node, model):
        return Call(node, PARAMETER, shape=shape)
    if node.target is bnn.quantize:
        raise GraphError(
            f"operation {node.name!r} calls bd.nn.quantize: use a bd.nn.QuantAct module instead, whose "
            f"levels can be changed"
        )
    sources = [n for n in nodes_in((node.args, node.kwargs)) if shapes.get(n) is not None]
    module = model.get_submodule(str(node.target)) if node.op == "call_module" else None
    row = _find(node, module)
    if () in (shape, *(shapes[s] for s in sources)) or not sources or (len(sources) > 1 and not row.several):
        row = UNKNOWN
    arguments = row.read(module) if module is not None and row.read is not None else bind(row, node, module)
    return Call(node, row, tuple(sources), arguments, module, tuple(shapes[s] for s in sources), shape)
