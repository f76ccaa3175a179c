"""How functions of each value, products, other pixels and normalisation become part of a program: what runs on floats.

Each rule: (builder, call, value) -> value. A monotone function right in front of an activation costs nothing: it
becomes part of the activation's threshold.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from binaryduo.engine.program import Code, Curve, Flag, Join, Op, Storage
from binaryduo.engine.weight_layout import float_weights
from binaryduo.graph.channel_moves import apply
from binaryduo.graph.operations import Call
from binaryduo.packing.builder import Builder, Pending, Value

# Each name in the table of operations: the engine's function, and the arguments that are its parameters.
_CURVES: dict[str, tuple[Curve, tuple[str, ...]]] = {
    "prelu": (Curve.PRELU, ()),
    "leaky_relu": (Curve.PRELU, ("negative_slope",)),
    "relu6": (Curve.CLAMP, ()),
    "hardtanh": (Curve.CLAMP, ("min_val", "max_val")),
    "clamp": (Curve.CLAMP, ("min", "max")),
    "sigmoid": (Curve.SIGMOID, ()),
    "tanh": (Curve.TANH, ()),
    "hardsigmoid": (Curve.HARD_SIGMOID, ()),
    "hardswish": (Curve.HARD_SWISH, ()),
    "silu": (Curve.SILU, ()),
    "gelu": (Curve.GELU, ()),
    "elu": (Curve.ELU, ("alpha",)),
    "softplus": (Curve.SOFTPLUS, ()),
    "mish": (Curve.MISH, ()),
    "abs": (Curve.ABS, ()),
    "exp": (Curve.EXP, ()),
    "square": (Curve.SQUARE, ()),
}
_RISING = (Curve.CLAMP, Curve.SIGMOID, Curve.TANH, Curve.HARD_SIGMOID, Curve.SOFTPLUS, Curve.EXP)
_JOINS = {
    "add": Join.SUM,
    "mul": Join.PRODUCT,
    "div": Join.QUOTIENT,
    "maximum": Join.MAXIMUM,
    "minimum": Join.MINIMUM,
}
_ROWS_AT_ONCE = 32  # how many rows of an image are sent through an operation together, to see where they go


def curve(b: Builder, call: Call, value: Value) -> Value:
    node = call.node
    function, names = _CURVES[call.operation.name]
    if not call.literal(*call.arguments):
        raise b.refuse(node, "its arguments must be constant numbers")
    if call.arguments.get("approximate", "none") != "none" or call.arguments.get("beta", 1) != 1:
        raise b.refuse(node, "only the exact GELU, and Softplus with beta=1, are supported")
    parameters = _parameters(call, function, names, value.shape[0])
    rising = function in _RISING or (function in (Curve.PRELU, Curve.ELU) and bool((parameters >= 0).all()))
    pending = value.pending
    users = b.users(node)
    only_bits = len(users) == 1 and b.levels_of(users[0]) is not None
    if (
        rising
        and only_bits
        and pending is not None
        and pending.residual < 0
        and (pending.copies == 1 or b.is_binary_activation(users[0]))
        and len(b.users(value.node)) == 1
    ):
        pending.steps.append(_step(b, call))
        return Value(node, value.shape, pending)
    op = Op(b.name_of(node), Code.CURVE, -1, function=int(function))
    op.weights = parameters if parameters.size else None
    return b.to_float(node, value, op)


def power(b: Builder, call: Call, value: Value) -> Value:
    """x ** 2; other powers have no function in the engine."""
    if call["exponent"] != 2 or not call.literal("exponent"):
        raise b.refuse(call.node, "of powers the square (x ** 2) can be packed")
    return b.to_float(call.node, value, Op(b.name_of(call.node), Code.CURVE, -1, function=int(Curve.SQUARE)))


def _parameters(call: Call, function: Curve, names: tuple[str, ...], channels: int) -> Any:
    """The engine's parameters of a curve, float32."""
    if call.operation.name == "relu6":
        return np.array([0, 6], np.float32)
    if function == Curve.PRELU:
        slope = call.module.weight.detach() if isinstance(call.module, nn.PReLU) else call["negative_slope"]
        return np.broadcast_to(np.asarray(slope, np.float32), (channels,)).copy()
    ends = {"min": -np.inf, "max": np.inf}
    return np.array([ends[n] if call[n] is None else call[n] for n in names], np.float32)


def _step(b: Builder, call: Call) -> Any:
    """The same function in float64, as the thresholds are found with it."""
    if call.module is not None:
        return b.wide.get_submodule(str(call.node.target))
    return lambda x: apply(call.node, x, {})


def negate(b: Builder, call: Call, value: Value) -> Value:
    pending = b.start(value, call.node.name)
    channels = pending.out_shape[0]
    b.affine(pending, -torch.ones(channels), torch.zeros(channels), 1)
    pending.steps.append(torch.neg)
    return Value(call.node, value.shape, pending)


def join(b: Builder, call: Call, value: Value) -> Value:
    """Two tensors, value by value; one of them may have one pixel, or one channel, that serves for all."""
    node, name = call.node, call.operation.name
    if call["alpha"] != 1 or len(call.sources) != 2:
        raise b.refuse(node, "two different tensors, without a factor, can be joined")
    first, second = (b.values[n] for n in call.sources)
    shape = b.image_shape(node)
    if name == "sub":
        if first.shape != second.shape:
            raise b.refuse(node, "tensors can be subtracted only where they have the same shape")
        other = b.floats(first)
        pending = b.start(second, node.name)
        channels = pending.out_shape[0]
        b.affine(pending, -torch.ones(channels), torch.zeros(channels), 1)
        pending.residual = other
        return Value(node, shape, pending)
    if first.shape != shape and name != "div":
        first, second = second, first
    fits = second.shape[0] in (1, shape[0]) and second.shape[1:] in ((1, 1), shape[1:])
    if first.shape != shape or not fits:
        raise b.refuse(
            node,
            f"({' × '.join(map(str, first.shape))}) and ({' × '.join(map(str, second.shape))}) can be joined only "
            "where they have the same shape, or one of them one pixel or one channel that serves for all",
        )
    other = b.floats(second)
    op = Op(node.name, Code.JOIN, -1, residual=other, function=int(_JOINS[name]))
    return b.to_float(node, first, op)


def expand(b: Builder, call: Call, value: Value) -> Value:
    """One pixel, or one channel, for all: whoever joins it with something takes it as it is."""
    if all(
        b.analysis.info[user].call.operation.lower in ("add", "number", "join") for user in b.users(call.node)
    ):
        return b.alias(call.node, value)
    raise b.refuse(call.node, "an expanded tensor can only be added to another one, or multiplied with it")


# --- other rows and columns -------------------------------------------------------------------------------


def resample(b: Builder, call: Call, value: Value) -> Value:
    """Rows and columns of an image, picked or interpolated, and zeros beside them.

    Which ones is found by sending an image of each single row, and of each single column, through the operation.
    """
    node, shape = call.node, b.image_shape(call.node)
    index: list[Any] = []
    shares: list[Any] = []
    for dim in (1, 2):
        found = _taps(b, call, value.shape, dim, shape[dim])
        if found is None:
            raise b.refuse(node, "each row and column of its output must be made of at most two of its input")
        index += [found[0]]
        shares += [found[1]]
    op = Op(b.name_of(node), Code.RESAMPLE, -1)
    op.weights = np.concatenate([part.ravel() for part in index]).astype(np.uint32)
    op.scale = np.concatenate([part.ravel() for part in shares]).astype(np.float32)
    return b.to_float(node, value, op)


def _taps(b: Builder, call: Call, shape: tuple[int, int, int], dim: int, size: int) -> Any:
    """Two of the input's rows (dim 1) or columns (dim 2) and their shares, for each of the output's: (2, size) both."""
    length = shape[dim]
    if length == 1 and size == 1:
        return np.zeros((2, 1), np.int64), np.array([[1.0], [0.0]])
    parts = []
    for first in range(0, length, _ROWS_AT_ONCE):
        rows = torch.eye(length, dtype=torch.float64)[first : first + _ROWS_AT_ONCE]
        view = rows.view(-1, 1, length, 1) if dim == 1 else rows.view(-1, 1, 1, length)
        images = view.expand(len(rows), 1, *shape[1:]).contiguous()
        if len(call.shapes[0]) == 3:
            images = images.squeeze(2)
        out = apply(call.node, images, b.numbers) if call.module is None else call.module(images)
        parts.append(out[:, 0].reshape(len(rows), *(1, 1, *out.shape[2:])[-2:]))
    shares = torch.cat(parts)  # (length, H', W')
    lines = shares.amax(2 if dim == 1 else 1)  # (length, size): without the zeros beside the image
    if int((lines != 0).sum(0).max()) > 2 or bool((shares < 0).any()):
        return None
    picked, at = lines.topk(min(2, length), 0)
    if length == 1:
        at, picked = torch.cat([at, at]), torch.cat([picked, torch.zeros_like(picked)])
    return at.numpy(), picked.numpy()


def pick_lines(b: Builder, node: fx.Node, value: Value, lines: list[Any]) -> Value:
    """An image of some rows and columns of another one, given by their numbers."""
    shape = (value.shape[0], len(lines[0]), len(lines[1]))
    out = b.tensor(f"{node.name}.lines", Storage.FLOAT, shape)
    op = Op(f"{b.name_of(node)}.lines", Code.RESAMPLE, b.floats(value), out_float=out)
    none = [np.zeros_like(line) for line in lines]
    op.weights = np.concatenate([lines[0], none[0], lines[1], none[1]]).astype(np.uint32)
    op.scale = np.concatenate([none[0] + 1, none[0], none[1] + 1, none[1]]).astype(np.float32)
    b.program.ops.append(op)
    return Value(node, shape, stored=out)


def pixel_shuffle(b: Builder, call: Call, value: Value) -> Value:
    """Channels become pixels: a transposed convolution whose windows do not overlap, of ones and zeros."""
    if len(call.shapes[0]) != 4 or not isinstance(call["upscale_factor"], int):
        raise b.refuse(call.node, "the channels of images (N, C, H, W) can be shuffled, by a number")
    size, (channels, *_) = call["upscale_factor"], value.shape
    layer = nn.ConvTranspose2d(channels, channels // size**2, size, size, bias=False).double().eval()
    each = torch.eye(channels, dtype=torch.float64).view(channels, channels // size**2, size, size)
    layer.weight = nn.Parameter(each, requires_grad=False)
    return _transposed(b, call, value, layer)


def transposed(b: Builder, call: Call, value: Value) -> Value:
    """A transposed convolution: zeros between and around the pixels, then a convolution, its kernel turned round."""
    return _transposed(b, call, value, b.wide.get_submodule(str(call.node.target)))


def _transposed(b: Builder, call: Call, value: Value, module: nn.Module) -> Value:
    node = call.node
    assert isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d)
    weight = _dense_kernel(module)
    kernel, (c, h, w), shape = (weight.shape[2], weight.shape[3]), value.shape, b.image_shape(node)
    stride, padding = (1, *module.stride)[-2:], (0, *module.padding)[-2:]
    index, shares = [], []
    for size, k, s, p, out in zip((h, w), kernel, stride, padding, shape[1:], strict=True):
        at = np.arange(out + k - 1) - (k - 1 - int(p))  # places between the spread pixels
        there = (at >= 0) & (at <= (size - 1) * s) & (at % s == 0)
        index.append(np.stack([np.where(there, at // s, 0), np.zeros_like(at)]))
        shares.append(np.stack([there, np.zeros_like(there)]))
    spread = b.tensor(f"{node.name}.spread", Storage.FLOAT, (c, index[0].shape[1], index[1].shape[1]))
    op = Op(f"{b.name_of(node)}.spread", Code.RESAMPLE, b.floats(value), out_float=spread)
    op.weights = np.concatenate([part.ravel() for part in index]).astype(np.uint32)
    op.scale = np.concatenate([part.ravel() for part in shares]).astype(np.float32)
    b.program.ops.append(op)
    op = Op(b.name_of(node), Code.FLOAT_CONV, spread, kernel=kernel, channels=len(weight))
    op.flags |= Flag.HALF_WEIGHTS * b.choices.half
    dtype = np.float16 if b.choices.half else np.float32
    op.weights = float_weights(weight.to(torch.float32).numpy().astype(dtype))
    pending = Pending(op, shape, None, torch.ones((), dtype=torch.float64))
    if module.bias is not None:
        b.add_bias(pending, module.bias.detach())
    return Value(node, shape, pending)


def _dense_kernel(module: Any) -> Tensor:
    """The weights of a transposed convolution as those of a plain one without groups and holes."""
    weight, groups = module.weight.detach(), module.groups
    inputs, outputs = module.in_channels // groups, module.out_channels // groups
    spread = [(k - 1) * d + 1 for k, d in zip(module.kernel_size, module.dilation, strict=True)]
    full = weight.new_zeros(module.out_channels, module.in_channels, *spread)
    holes = tuple(slice(None, None, d) for d in module.dilation)
    for g in range(groups):
        part = weight[g * inputs : (g + 1) * inputs].transpose(0, 1)
        rows, columns = slice(g * outputs, (g + 1) * outputs), slice(g * inputs, (g + 1) * inputs)
        full[(rows, columns, *holes)] = part
    turned: Tensor = full.flip(list(range(2, full.dim())))
    return turned.unsqueeze(2) if turned.dim() == 3 else turned


# --- normalisation ----------------------------------------------------------------------------------------


def normalise(b: Builder, call: Call, value: Value) -> Value:
    """GroupNorm, InstanceNorm, and LayerNorm over all values of an image."""
    node, module = call.node, b.wide.get_submodule(str(call.node.target))
    c, h, w = value.shape
    op = Op(str(node.target), Code.NORMALISE, -1, weights=np.array([module.eps], np.float32))
    if isinstance(module, nn.LayerNorm):
        if tuple(module.normalized_shape) != tuple(b.shape(node)[1:]):
            raise b.refuse(
                node,
                f"it normalises the last dimensions {tuple(module.normalized_shape)} of {tuple(b.shape(node))}; a "
                "LayerNorm can be packed over all values of an image, a GroupNorm and InstanceNorm over its channels",
            )
        op.groups = 1
        op.flags |= Flag.EVERY_VALUE * (h * w > 1)
    else:
        if len(b.shape(node)) == 2 and (h, w) != (1, 1):
            raise b.refuse(
                node, "a norm of a flattened image's channels is not supported: put it before flattening"
            )
        op.groups = module.num_groups if isinstance(module, nn.GroupNorm) else c
    for name, field in (("weight", "scale"), ("bias", "bias")):
        own: Any = getattr(module, name, None)
        if own is not None:
            values = own.detach().to(torch.float32)
            flat = (
                values.view(c, h, w).permute(1, 2, 0).reshape(-1) if op.flags & Flag.EVERY_VALUE else values
            )
            setattr(op, field, flat.reshape(-1).numpy().copy())
    return b.to_float(node, value, op)
