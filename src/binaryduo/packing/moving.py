"""What moves values about without layers: flattening, pools, copies, slices, padding and concatenation.

Bits stay bits as far as possible; where they go through floats on the way, as in a concatenation, the value
is known to be binary still, and a one-bit layer behind it turns it back into bits.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from torch import fx

from binaryduo.engine.program import Code, Op, Storage
from binaryduo.graph.operations import zero_pads
from binaryduo.nn.copies import AverageCopies
from binaryduo.packing.lowering import Lowering, Shape, Value


def pair(value: Any) -> tuple[int, int]:
    """PyTorch's way of giving two numbers as one.

    >>> pair(2), pair((1, 2)), pair([3])
    ((2, 2), (1, 2), (3, 3))
    """
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return (int(values[0]), int(values[-1]))


class Moves(Lowering):
    """The operations that only move, pool or average values."""

    def name_of(self, node: fx.Node) -> str:
        return str(node.target) if node.op == "call_module" else node.name

    def shape_of(self, node: fx.Node) -> Shape:
        shape = self.shapes[node]
        if len(shape) not in (2, 4):
            raise self.refuse(node, f"its output has the shape {shape}; (N, C) or (N, C, H, W) is needed")
        return (shape[1], 1, 1) if len(shape) == 2 else (shape[1], shape[2], shape[3])

    def flatten(self, node: fx.Node, value: Value) -> Value:
        shape, c, h, w = self.shapes[node], *value.shape
        if tuple(shape[1:]) in ((c * h * w,), (c, h, w)):
            return self.alias(node, value)
        raise self.refuse(node, f"a reshape to {tuple(shape)} is not a flattening of one image's values")

    def alias(self, node: fx.Node, value: Value) -> Value:
        """The same values under another node."""
        if value.pending is not None and len(self.users(value.node)) > 1:
            self.floats(value)  # what is folded in behind one node must not be seen by the other's readers
        return replace(value, node=node, act=-1)

    # -- pools

    def window(self, node: fx.Node, **defaults: Any) -> list[Any]:
        """The arguments of a functional pool behind its input, in the order of `defaults`."""
        given = dict(zip(defaults, node.args[1:], strict=False)) | dict(node.kwargs)
        values = [given.get(name, default) for name, default in defaults.items()]
        if any(
            isinstance(part, fx.Node) for v in values for part in (v if isinstance(v, tuple | list) else [v])
        ):
            raise self.refuse(node, "its window must be given in numbers")
        return values

    def max_pool(
        self,
        node: fx.Node,
        value: Value,
        kernel: Any,
        stride: Any,
        padding: Any,
        dilation: Any = 1,
        ceil: Any = False,
        indices: Any = False,
    ) -> Value:
        if ceil or indices or pair(dilation) != (1, 1):
            raise self.refuse(node, "ceil_mode, dilation and return_indices are not supported")
        op = self.pool_op(node, Code.MAX_POOL, kernel, stride, padding)
        shape = self.shape_of(node)
        if value.bits >= 0:
            copies = self.program.tensors[value.bits].copies
            out = self.tensor(node.name, Storage.BITS, shape, copies)
            self.program.ops.append(replace(op, input=value.bits, out_bits=out))
            return Value(node, shape, bits=out, binary=True)
        pending, single = value.pending, len(self.users(value.node)) == 1
        if pending is not None and single and not pending.steps and pending.plain and pending.pool is None:
            return Value(node, shape, replace(pending, pool=op, pooled=shape))
        return self.to_float(node, value, op, binary=value.binary)

    def pool_op(self, node: fx.Node, code: Code, kernel: Any, stride: Any, padding: Any) -> Op:
        kernel = pair(kernel)
        stride = kernel if stride in (None, [], ()) else pair(stride)
        return Op(self.name_of(node), code, -1, kernel=kernel, stride=stride, padding=pair(padding))

    def average_pool(
        self,
        node: fx.Node,
        value: Value,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil: Any = False,
        count_padding: Any = True,
        divisor: Any = None,
    ) -> Value:
        if ceil:
            raise self.refuse(node, "ceil_mode is not supported")
        if divisor is not None or not (count_padding or pair(padding) == (0, 0)):
            raise self.refuse(node, "a divisor other than the whole window is not supported")
        return self.to_float(node, value, self.pool_op(node, Code.AVERAGE_POOL, kernel, stride, padding))

    def mean(self, node: fx.Node, value: Value) -> Value:
        """A mean over all pixels: x.mean((2, 3)), in any way of writing it."""
        given = dict(zip(("dim", "keepdim", "dtype"), node.args[1:], strict=False)) | dict(node.kwargs)
        dim: Any = given.get("dim")
        axes = dim if isinstance(dim, tuple | list) else (dim,)
        if len(self.shapes[value.node]) != 4 or {d % 4 if isinstance(d, int) else d for d in axes} != {2, 3}:
            raise self.refuse(
                node, "a mean is packed over both dimensions of an image's pixels, (2, 3), only"
            )
        return self.adaptive_pool(node, value, Code.AVERAGE_POOL)

    def adaptive_pool(self, node: fx.Node, value: Value, code: Code) -> Value:
        """A pool to a given size whose windows are all alike."""
        (c, h, w), shape = value.shape, tuple(self.shapes[node])
        rows, columns = shape[2:] if len(shape) == 4 else (1, 1)
        if h % rows or w % columns:
            raise self.refuse(
                node,
                f"its windows on ({c}, {h}, {w}), to {shape[1:]}, are not all of one size",
            )
        kernel = (h // rows, w // columns)
        if code == Code.MAX_POOL:
            return self.max_pool(node, value, kernel, kernel, 0)
        return self.average_pool(node, value, kernel, kernel, 0)

    # -- channels

    def average_copies(self, node: fx.Node, value: Value, module: AverageCopies) -> Value:
        if module.dim != 1 or (len(self.shapes[node]) == 2 and value.shape[1:] != (1, 1)):
            raise self.refuse(node, "copies of a flattened image are not supported")
        listed = None if module.index is None else module.index.numpy().astype(np.uint32)
        op = Op(str(node.target), Code.MEAN_COPIES, -1, copies=module.copies, weights=listed)
        return self.to_float(node, value, op)

    def select(self, node: fx.Node, value: Value, channels: list[int]) -> Value:
        """Some channels, in a given order: the mean over one copy."""
        if len(self.shapes[node]) == 2 and value.shape[1:] != (1, 1):
            raise self.refuse(node, "values of a flattened image cannot be selected")
        if not channels:
            raise self.refuse(node, "it selects nothing")
        listed = np.array(channels, np.uint32)
        op = Op(self.name_of(node), Code.MEAN_COPIES, -1, weights=listed)
        return self.to_float(node, value, op, binary=value.binary)

    def sliced(self, node: fx.Node, value: Value) -> Value:
        """x[:, a:b] selects channels; x[:, :, ::2, ::2] is a pool over windows of one pixel."""
        rank, index = len(self.shapes[value.node]), node.args[1]
        parts: list[Any] = list(index) if isinstance(index, tuple) else [index]
        if Ellipsis in parts:
            at = parts.index(Ellipsis)
            parts[at : at + 1] = [slice(None)] * (rank - len(parts) + 1)
        parts += [slice(None)] * (rank - len(parts))
        if not all(isinstance(p, slice) and literal(p) for p in parts):
            raise self.refuse(node, "slices with plain numbers can be packed, other indices not")
        sizes = self.shapes[value.node][1:]
        channels, *pixels = [p.indices(n) for p, n in zip(parts[1:], sizes, strict=True)]
        whole = [(0, n, step) for n, (_, _, step) in zip(sizes[1:], pixels, strict=True)]
        chosen, strides = list(range(*channels)), tuple(step for _, _, step in pixels)
        some = chosen != list(range(sizes[0]))
        if parts[0] != slice(None) or pixels != whole or (some and max(strides, default=1) > 1):
            raise self.refuse(
                node, "channels, or every k-th pixel of all channels, can be sliced, other parts not"
            )
        if some:
            return self.select(node, value, chosen)
        if max(strides, default=1) > 1:
            return self.max_pool(node, value, 1, strides, 0)
        return self.alias(node, value)

    def pad(self, node: fx.Node, value: Value) -> Value:
        front = 0
        if node.op == "call_function":
            pads = zero_pads(node)
            if len(pads) != 6 or any(pads[:4]) or min(pads) < 0:
                raise self.refuse(node, "only zero channels in front or behind can be padded, by a number")
            front = pads[4]
        if self.shape_of(node)[0] < value.shape[0]:
            raise self.refuse(node, "it takes channels away")
        op = Op(self.name_of(node), Code.PAD_CHANNELS, -1, channels=front)
        return self.to_float(node, value, op, binary=value.binary)

    def concatenate(self, node: fx.Node) -> Value:
        parts: Any = node.args[0] if node.args else node.kwargs["tensors"]
        axis = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
        values = [self.values[n] for n in parts]
        if axis not in (1, 1 - len(self.shapes[node])):
            raise self.refuse(node, "tensors are concatenated along their channels only")
        if len(self.shapes[node]) == 2 and any(v.shape[1:] != (1, 1) for v in values):
            raise self.refuse(node, "flattened images cannot be concatenated")
        if len(values) == 1:
            return self.alias(node, values[0])
        source, shape = self.floats(values[0]), values[0].shape
        for i, value in enumerate(values[1:]):
            other = self.floats(value)
            shape = (shape[0] + value.shape[0], *shape[1:])
            name = node.name if i == len(values) - 2 else f"{node.name}.{i}"
            out = self.tensor(name, Storage.FLOAT, shape)
            self.program.ops.append(Op(node.name, Code.CONCAT, source, residual=other, out_float=out))
            source = out
        return Value(node, shape, stored=source, binary=all(v.binary for v in values))

    def to_float(self, node: fx.Node, value: Value, op: Op, binary: bool = False) -> Value:
        """An operation from floats to floats."""
        op.input = self.floats(value)
        op.out_float = self.tensor(node.name, Storage.FLOAT, self.shape_of(node))
        self.program.ops.append(op)
        return Value(node, self.shape_of(node), stored=op.out_float, binary=binary)


def literal(part: slice) -> bool:
    """Whether a slice is written in numbers, and not computed in the traced graph.

    >>> literal(slice(1, None, 2)), literal(slice(None, "size"))
    (True, False)
    """
    return all(isinstance(v, int | None) for v in (part.start, part.stop, part.step))
