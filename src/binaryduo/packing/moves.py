"""How pools, slices, padding and concatenation become part of a program. Each rule: (builder, call, value) -> value.

Bits stay bits as far as possible; where they go through floats on the way, as in a concatenation, the analysis knows
that the value is binary still, and a one-bit layer after it turns it back into bits.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import fx

from binaryduo.engine.program import Code, Op, Storage
from binaryduo.graph.channel_moves import index_parts, selected_channels
from binaryduo.graph.operations import Call, Kind, nodes_in
from binaryduo.graph.reshapes import reduced_dims
from binaryduo.nn.copies import AverageCopies
from binaryduo.packing.builder import Builder, Value
from binaryduo.packing.floats import pick_lines, resample


def pair(value: Any, flat: bool = False, other: int = 1) -> tuple[int, int]:
    """PyTorch's way of giving two numbers as one; of a sequence (`flat`), one pixel high, the first is `other`.

    >>> pair(2), pair((1, 2)), pair([3]), pair(2, flat=True)
    ((2, 2), (1, 2), (3, 3), (1, 2))
    """
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return (other if flat else int(values[0]), int(values[-1]))


def identity(b: Builder, call: Call, value: Value) -> Value:
    return value


def dropout(b: Builder, call: Call, value: Value) -> Value:
    if call.module is None and call["training"] is not False:
        raise b.refuse(call.node, "it drops values in evaluation too: pass training=self.training")
    return value


def flatten(b: Builder, call: Call, value: Value) -> Value:
    shape, c, h, w = b.shape(call.node), *value.shape
    if tuple(shape[1:]) in ((c * h * w,), (c, h, w), (c, w) if h == 1 else ()):
        return b.alias(call.node, value)
    if call.operation.name == "squeeze" and call["dim"] is None and value.shape[1:] == (1, 1):
        raise b.refuse(
            call.node, "of a single image squeeze() drops the dimension of the images too: use flatten(1)"
        )
    raise b.refuse(
        call.node,
        f"a reshape from {tuple(call.shapes[0])} to {tuple(shape)} is not a flattening of one image's values: a packed "
        "model keeps (N, C, H, W), (N, C, T) or (N, features)",
    )


# --- pools ------------------------------------------------------------------------------------------------


def max_pool(b: Builder, call: Call, value: Value) -> Value:
    if call["return_indices"] or pair(call["dilation"]) != (1, 1):
        raise b.refuse(call.node, "dilation and return_indices are not supported")
    op = _window(b, call, Code.MAX_POOL)
    if call["ceil_mode"]:
        value = _reached(b, call, value, op)
    return _max_pool(b, call.node, value, op)


def _reached(b: Builder, call: Call, value: Value, op: Op) -> Value:
    """The image with its last row and column repeated as far as the windows of ceil_mode reach: each of them holds the
    last one anyway, so that its largest value stays what it is."""
    sizes = [
        (out - 1) * s + k - 2 * p
        for out, k, s, p in zip(b.image_shape(call.node)[1:], op.kernel, op.stride, op.padding, strict=True)
    ]
    lines = [
        np.minimum(np.arange(max(n, size)), n - 1) for n, size in zip(value.shape[1:], sizes, strict=True)
    ]
    if [len(line) for line in lines] == list(value.shape[1:]):
        return value
    return pick_lines(b, call.node, value, lines)


def average_pool(b: Builder, call: Call, value: Value) -> Value:
    if call["divisor_override"] is not None or not (
        call["count_include_pad"] or pair(call["padding"]) == (0, 0)
    ):
        raise b.refuse(call.node, "a divisor other than the whole window is not supported")
    op = _window(b, call, Code.AVERAGE_POOL)
    if call["ceil_mode"] and _reached(b, call, value, op) is not value:
        raise b.refuse(
            call.node, "windows that reach beyond the image (ceil_mode) are not supported in an average"
        )
    return b.to_float(call.node, value, op)


def adaptive_max_pool(b: Builder, call: Call, value: Value) -> Value:
    return _max_pool(b, call.node, value, _even_window(b, call, value, Code.MAX_POOL))


def adaptive_average_pool(b: Builder, call: Call, value: Value) -> Value:
    return b.to_float(call.node, value, _even_window(b, call, value, Code.AVERAGE_POOL))


def mean(b: Builder, call: Call, value: Value) -> Value:
    """A mean over all pixels: x.mean((2, 3)), or x.mean(2) of a sequence, in any way of writing it."""
    rank = len(call.shapes[0])
    if rank < 3 or set(reduced_dims(call)) != set(range(2, rank)):
        raise b.refuse(call.node, "a mean can be packed only over all pixels of an image, (2, 3)")
    return adaptive_average_pool(b, call, value)


def sum_of_pixels(b: Builder, call: Call, value: Value) -> Value:
    """A sum over all pixels is their mean, multiplied with their number."""
    rank = len(call.shapes[0])
    if rank < 3 or set(reduced_dims(call)) != set(range(2, rank)):
        raise b.refuse(call.node, "a sum can be packed only over all pixels of an image, (2, 3)")
    op = _even_window(b, call, value, Code.AVERAGE_POOL)
    mean = b.tensor(f"{call.node.name}.mean", Storage.FLOAT, (value.shape[0], 1, 1))
    b.program.ops.append(replace(op, input=b.floats(value), out_float=mean))
    count = torch.full((value.shape[0],), float(value.shape[1] * value.shape[2]), dtype=torch.float64)
    source = Value(call.node, (value.shape[0], 1, 1), stored=mean)
    pending = b.start(source, call.node.name)
    b.affine(pending, count, torch.zeros_like(count), 1)
    pending.steps.append(lambda x: x * count)
    return Value(call.node, source.shape, pending)


def largest(b: Builder, call: Call, value: Value) -> Value:
    """The largest of all pixels: x.amax((2, 3)), torch.max(x, 2)[0] of a sequence."""
    rank = len(call.shapes[0])
    if rank < 3 or set(reduced_dims(call)) != set(range(2, rank)):
        raise b.refuse(call.node, "a maximum can be packed only over all pixels of an image, (2, 3)")
    return adaptive_max_pool(b, call, value)


def _max_pool(b: Builder, node: fx.Node, value: Value, op: Op) -> Value:
    shape = b.image_shape(node)
    if value.bits >= 0:
        copies, planes = b.program.tensors[value.bits].copies, value.planes
        out = b.tensor(node.name, Storage.BITS, (planes * shape[0], *shape[1:]), copies)
        b.program.ops.append(replace(op, input=value.bits, out_bits=out))
        return Value(node, shape, bits=out, planes=planes)
    pending, single = value.pending, len(b.users(value.node)) == 1
    untouched = pending is not None and len(pending.steps) == pending.rising
    if pending is not None and single and untouched and pending.plain and pending.pool is None:
        return Value(node, shape, replace(pending, pool=op, pooled=shape))
    return b.to_float(node, value, op)


def _window(b: Builder, call: Call, code: Code) -> Op:
    """A pool over windows of a given size."""
    names, flat = ("kernel_size", "stride", "padding"), len(call.shape) == 3
    given = [fx.node.map_arg(call[name], lambda n: b.numbers.get(n)) for name in names]  # x.shape[2], say
    if not given[0] or any(nodes_in(value) or value is None for value in (given[0], given[2])):
        raise b.refuse(call.node, "its window must be given as numbers")
    kernel = pair(given[0], flat)
    stride = kernel if given[1] in (None, [], ()) else pair(given[1], flat)
    padding = pair(given[2], flat, other=0)
    return Op(b.name_of(call.node), code, -1, kernel=kernel, stride=stride, padding=padding)


def _even_window(b: Builder, call: Call, value: Value, code: Code) -> Op:
    """A pool to a given size whose windows are all alike."""
    (c, h, w), shape = value.shape, b.shape(call.node)
    *_, rows, columns = (1, 1, *shape[2:])
    if h % rows or w % columns:
        raise b.refuse(call.node, f"its windows on ({c}, {h}, {w}), to {shape[1:]}, are not all of one size")
    kernel = (h // rows, w // columns)
    return Op(b.name_of(call.node), code, -1, kernel=kernel, stride=kernel, padding=(0, 0))


# --- channels ---------------------------------------------------------------------------------------------


def average_copies(b: Builder, call: Call, value: Value) -> Value:
    module = call.module
    assert isinstance(module, AverageCopies)
    if module.dim != 1:
        raise b.refuse(call.node, "copies can be averaged only along the channels")
    listed = None if module.index is None else module.index.tolist()
    return _mean_copies(b, call, value, listed, module.copies)


def _mean_copies(b: Builder, call: Call, value: Value, listed: list[int] | None, copies: int = 1) -> Value:
    """The mean over copies of the listed channels; of a flattened image, over those that its values belong to."""
    (channels, *pixels), node = value.shape, call.node
    each = math.prod(pixels) if len(b.shape(node)) == 2 else 1
    op = Op(b.name_of(node), Code.MEAN_COPIES, b.floats(value), copies=copies)
    if listed is not None:
        chosen = np.array(listed[::each], np.uint32) // each
        if not np.array_equal(np.add.outer(chosen * each, np.arange(each)).ravel(), listed):
            raise b.refuse(node, "of a flattened image whole channels can be selected, but no single values")
        op.weights, channels = chosen, len(chosen)
    shape = (channels // copies, *value.shape[1:])
    op.out_float = b.tensor(node.name, Storage.FLOAT, shape)
    b.program.ops.append(op)
    return Value(node, shape, stored=op.out_float)


def select(b: Builder, call: Call, value: Value) -> Value:
    """Some channels in some order are the mean over one copy; every k-th pixel is a pool over windows of one."""
    node = call.node
    if call.kind is Kind.SELECT:
        chosen = selected_channels(call)
        return (
            b.alias(node, value)
            if chosen == [*range(call.shapes[0][1])]
            else _mean_copies(b, call, value, chosen)
        )
    if 0 in call.shape:
        raise b.refuse(node, "it selects nothing")
    if call.kind is not Kind.POOL:
        raise b.refuse(node, "channels, or rows and columns of pixels, can be selected, but no other parts")
    if len(call.shape) != len(call.shapes[0]):
        return _other_rank(b, call, value)
    strides = _pixel_strides(call)
    if strides is None:
        return resample(b, call, value)
    if max(strides, default=1) == 1:
        return b.alias(node, value)
    return _max_pool(
        b,
        node,
        value,
        Op(b.name_of(node), Code.MAX_POOL, -1, kernel=(1, 1), stride=pair(strides, len(strides) == 1)),
    )


def _other_rank(b: Builder, call: Call, value: Value) -> Value:
    """x[:, :, None, None] only adds dimensions; x[:, :, -1] takes one pixel, or one row, of each channel."""
    parts = index_parts(call["index"], len(call.shapes[0]))
    if all(part is None or part == slice(None) for part in parts):
        return flatten(b, call, value)
    if None in parts or (len(call.shape) > 2 and not isinstance(parts[2], int)):
        raise b.refuse(call.node, "a pixel or a row of an image can be taken out of it, but no column")
    return resample(b, call, value)


def _pixel_strides(call: Call) -> tuple[int, ...] | None:
    """The steps of a slice over the pixels, if it takes every k-th of all rows and columns; else None."""
    if call.operation.name != "slice":
        return None
    rank, sizes = len(call.shapes[0]), call.shapes[0][2:]
    parts = index_parts(call["index"], rank)
    pixels = [p.indices(n) if isinstance(p, slice) else None for p, n in zip(parts[2:], sizes, strict=False)]
    whole = [p is not None and (p[0], p[1]) == (0, n) for p, n in zip(pixels, sizes, strict=False)]
    if len(parts) != rank or not all(whole):
        return None
    return tuple(p[2] for p in pixels if p is not None)


def pad_channels(b: Builder, call: Call, value: Value) -> Value:
    node, front = call.node, 0
    if "pad" in call.arguments and call.literal("pad") and not any(call["pad"]):
        return b.alias(node, value)
    if call.kind in (Kind.WEIGHTED, Kind.POOL):
        return resample(b, call, value)
    if call.kind is not Kind.PAD:
        raise b.refuse(
            node,
            "only whole channels of zeros, before or after, can be padded, and their number must be constant",
        )
    if call.module is None:
        pads = list(call["pad"]) if call.literal("pad") else []
        at = 2 * (len(call.shape) - 2)
        if len(pads) != at + 2 or any(pads[:at]) or min(pads) < 0:
            raise b.refuse(
                node,
                "only whole channels of zeros, before or after, can be padded, and their number must be constant",
            )
        front = pads[at]
    if b.image_shape(node)[0] < value.shape[0]:
        raise b.refuse(node, "negative padding, which removes channels, is not supported")
    return b.to_float(node, value, Op(b.name_of(node), Code.PAD_CHANNELS, -1, channels=front))


def concatenate(b: Builder, call: Call, value: Value) -> Value:
    node, shape = call.node, b.shape(call.node)
    values = [b.values[n] for n in call.sources]
    if call["dim"] not in (1, 1 - len(shape)):
        raise b.refuse(node, "tensors can be concatenated only along their channels")
    if len(shape) == 2 and any(v.shape[1:] != (1, 1) for v in values):
        raise b.refuse(node, "flattened images cannot be concatenated")
    if len(values) == 1:
        return b.alias(node, values[0])
    source, size = b.floats(values[0]), values[0].shape
    for i, part in enumerate(values[1:]):
        other = b.floats(part)
        size = (size[0] + part.shape[0], *size[1:])
        name = node.name if i == len(values) - 2 else f"{node.name}.{i}"
        out = b.tensor(name, Storage.FLOAT, size)
        b.program.ops.append(Op(node.name, Code.CONCAT, source, residual=other, out_float=out))
        source = out
    return Value(node, size, stored=source)
