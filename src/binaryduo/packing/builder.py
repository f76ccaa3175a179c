"""A packed program under construction: what is known of each value, and when it is stored as floats or bits.

What a convolution, a pool or an addition gives is kept *pending* while the nodes after it (BN, copies, ReLU, a residual
addition) can still be folded into its epilogue; it is stored when something needs it as floats or as bits. A pending
value with two kinds of users is stored as both at once.
"""

import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from binaryduo.engine import program as ir
from binaryduo.engine.program import Code, Flag, Op, Program, Storage
from binaryduo.engine.weight_layout import pack_bits
from binaryduo.errors import GraphError
from binaryduo.graph.analysis import Analysis
from binaryduo.graph.operations import Kind
from binaryduo.nn import QuantAct
from binaryduo.packing.choices import Choices
from binaryduo.packing.folding import Step, fold_floats, fold_integers
from binaryduo.packing.planes import to_planes
from binaryduo.ste import thresholds

Shape = tuple[int, int, int]


@dataclass
class Pending:
    """Sums that are not stored yet, and what shall happen to them."""

    op: Op  # code, input, window, weights
    shape: Shape  # of the sums
    reach: int | None  # integer sums lie in [-reach, reach]; None: floats
    scale: Tensor  # float64: the value is scale · sum
    steps: list[Step] = field(default_factory=list)
    rising: int = 0  # so many of the first steps are rising, so that a max pool may come before them too
    copies: int = 1
    slope: Tensor | None = None  # the steps so far as slope · value + offset, (copies · C) each
    offset: Tensor | None = None
    residual: int = -1
    relu: bool = False
    pool: Op | None = None  # a max pool between the sums and the steps
    pooled: Shape | None = None

    @property
    def plain(self) -> bool:
        """Whether a linear step can still be folded in."""
        return self.residual < 0 and not self.relu

    @property
    def out_shape(self) -> Shape:
        c, h, w = self.pooled or self.shape
        return c * self.copies, h, w


@dataclass
class Value:
    """What a node of the graph stands for. `shape` is (C, H, W) even where the node is flattened."""

    node: fx.Node
    shape: Shape
    pending: Pending | None = None
    stored: int = -1  # the tensor that holds it as floats
    bits: int = -1  # the tensor that holds it as bits, if it is an activation
    act: int = -1  # bits of the activation behind it, stored beside the floats
    bytes: int = -1  # the tensor that holds it as pixels from 0 to 255, if it is the input
    planes: int = 1  # an activation of more levels is the mean of so many copies of its channels in `bits`


class Builder:
    """Builds the program of one analysed model; `wide` is a float64 copy of the model in evaluation mode."""

    def __init__(
        self, analysis: Analysis, choices: Choices, numbers: dict[fx.Node, Any] | None = None
    ) -> None:
        self.analysis, self.choices = analysis, choices
        self.numbers = {} if numbers is None else numbers  # what forward() computes with: sizes
        self.model = analysis.model
        self.wide = copy.deepcopy(analysis.model).double().eval()
        self.program = Program()
        self.values: dict[fx.Node, Value] = {}
        self.constants: dict[fx.Node, Tensor] = {}  # float64, what does not depend on the input

    # -- small helpers

    def refuse(self, node: fx.Node, why: str) -> GraphError:
        where = f"module {node.target!r}" if node.op == "call_module" else f"operation {node.name!r}"
        module = self.analysis.info[node].call.module
        kind = "" if module is None else f" ({type(module).__name__})"
        return GraphError(f"{where}{kind} cannot be packed: {why}")

    def tensor(self, name: str, storage: Storage, shape: Shape, copies: int = 1) -> int:
        self.program.tensors.append(ir.Tensor(name, storage, *shape, copies))
        return len(self.program.tensors) - 1

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        """The shape of a node's tensor, as PyTorch has it."""
        return self.analysis.info[node].shape

    def image_shape(self, node: fx.Node) -> Shape:
        """(C, H, W) of a node's tensor."""
        shape = self.shape(node)
        if len(shape) not in (2, 3, 4):
            raise self.refuse(
                node, f"its output has the shape {shape}; (N, C), (N, C, T) or (N, C, H, W) is needed"
            )
        *_, height, width = (1, 1, *shape[2:])  # a sequence is an image one pixel high
        return shape[1], height, width

    def name_of(self, node: fx.Node) -> str:
        return str(node.target) if node.op == "call_module" else node.name

    def planes(self, value: "Value") -> int:
        """Of how many bits a value is the mean, though it may be stored as floats; 0: it has no levels."""
        levels = self.analysis.levels(value.node)
        return 0 if levels is None else levels - 1

    def users(self, node: fx.Node) -> list[fx.Node]:
        """The nodes that use a value, seen through those that do nothing in evaluation."""
        found: list[fx.Node] = []
        for user in node.users:
            found += self.users(user) if self.transparent(user) else [user]
        return found

    def transparent(self, node: fx.Node) -> bool:
        """Whether a node gives in evaluation what it is given."""
        info = self.analysis.info[node]
        return info.call.operation.lower in ("identity", "dropout") and info.kind in (
            Kind.POOL,
            Kind.WEIGHTED,
        )

    def levels_of(self, node: fx.Node) -> int | None:
        """How many levels an activation has; None where a node is none, or has full precision."""
        module = self.analysis.info[node].call.module
        return module.levels if isinstance(module, QuantAct) else None

    def is_binary_activation(self, node: fx.Node) -> bool:
        return self.levels_of(node) == 2

    # -- storing

    def floats(self, value: Value) -> int:
        """The number of the float tensor that holds a value; stores it if need be."""
        if value.stored < 0:
            if value.bytes >= 0:
                value.stored = self.looked_up(value)
            elif value.bits >= 0:
                value.stored = self.unpacked(value)
            else:
                self.store(value)
        return value.stored

    def unpacked(self, value: Value) -> int:
        """Bits as floats; of planes the mean."""
        name, bits = value.node.name, self.program.tensors[value.bits]
        out = self.tensor(
            f"{name}.float" if value.planes == 1 else f"{name}.planes", Storage.FLOAT, bits.shape
        )
        self.program.ops.append(Op(name, Code.UNPACK, value.bits, out_float=out))
        if value.planes == 1:
            return out
        mean = self.tensor(f"{name}.float", Storage.FLOAT, value.shape)
        self.program.ops.append(Op(name, Code.MEAN_COPIES, out, out_float=mean, copies=value.planes))
        return mean

    def looked_up(self, value: Value) -> int:
        """The input as the model takes it, looked up pixel by pixel; once, whoever reads it."""
        for op in self.program.ops:
            if op.code == Code.LOOKUP:
                return op.out_float
        assert self.choices.pixels is not None
        source = self.program.tensors[value.bytes]
        out = self.tensor(source.name.removesuffix(".pixels"), Storage.FLOAT, source.shape)
        table = self.choices.pixels.table().reshape(-1)
        self.program.ops.append(
            Op(self.program.tensors[out].name, Code.LOOKUP, 0, out_float=out, weights=table)
        )
        return out

    def as_bits(self, value: Value) -> int:
        """The number of the tensor of bits that holds a value with an activation's levels, as a concatenation has."""
        if value.bits < 0:
            value.planes, (c, h, w) = self.planes(value), value.shape
            value.bits = self.tensor(
                f"{value.node.name}.bits", Storage.BITS, (c * value.planes, h, w), value.planes
            )
            half_way = np.repeat(np.array(thresholds(value.planes + 1), np.float32), c)
            op = Op(value.node.name, Code.POINTWISE, self.floats(value), channels=c, copies=value.planes)
            self.program.ops.append(replace(op, out_bits=value.bits, threshold=half_way))
        return value.bits

    def store(self, value: Value) -> None:
        """Emit a pending value as floats, and as bits too if a binary activation uses it."""
        pending = value.pending
        assert pending is not None
        acts = any(self.is_binary_activation(user) for user in self.users(value.node))
        self.emit(value.node.name, value, pending, floats=True, bits=acts)

    def after_pool(self, node: fx.Node, pending: Pending) -> Pending:
        """The pool as a float operation of its own, and the steps behind it on its result."""
        assert pending.pool is not None
        assert pending.pooled is not None
        bare: dict[str, Any] = {"pool": None, "pooled": None, "relu": False, "residual": -1}
        sums = replace(pending, steps=[], copies=1, slope=None, offset=None, **bare)
        source = Value(node, pending.shape, sums)
        self.emit(f"{node.name}.sums", source, sums, floats=True, bits=False)
        out = self.tensor(f"{node.name}.pool", Storage.FLOAT, pending.pooled)
        self.program.ops.append(replace(pending.pool, input=source.stored, out_float=out))
        one = torch.ones((), dtype=torch.float64)
        op = Op(node.name, Code.POINTWISE, out, channels=pending.pooled[0])
        return replace(pending, op=op, shape=pending.pooled, reach=None, scale=one, pool=None, pooled=None)

    def emit(self, name: str, value: Value, pending: Pending, floats: bool, bits: bool) -> None:
        if pending.pool is not None:
            pending = self.after_pool(value.node, pending)
        op = replace(pending.op, copies=pending.copies, residual=pending.residual)
        op.flags |= Flag.RELU * pending.relu
        scale = (
            pending.scale.expand(op.out_channels) if pending.slope is None else pending.slope * pending.scale
        )
        offset = torch.zeros(op.out_channels) if pending.offset is None else pending.offset
        if bool((scale != 1).any()) or bool((offset != 0).any()):
            op.scale, op.bias = scale.to(torch.float32).numpy(), offset.to(torch.float32).numpy()
        if bits:
            value.act = op.out_bits = self.tensor(
                f"{name}.bits", Storage.BITS, pending.out_shape, pending.copies
            )
            op.threshold = np.full(op.out_channels, 0.5, np.float32)
        if floats:
            value.stored = op.out_float = self.tensor(name, Storage.FLOAT, pending.out_shape)
        self.program.ops.append(op)
        value.pending = None

    def start(self, value: Value, name: str) -> Pending:
        """A pending value to which a linear step can be added."""
        single = len(self.users(value.node)) == 1
        if value.pending is not None and value.pending.plain and single:
            return value.pending
        return self.stored(value, name)

    def stored(self, value: Value, name: str) -> Pending:
        """A value that is stored as floats, to be read again by an operation that does the epilogue alone."""
        one = torch.ones((), dtype=torch.float64)
        op = Op(name, Code.POINTWISE, self.floats(value), channels=value.shape[0])
        return Pending(op, value.shape, None, one)

    def bits_of(self, node: fx.Node, value: Value) -> None:
        """Bits of a value that is stored, or of a residual sum that only the activation uses."""
        if value.pending is not None and value.stored < 0:
            only = all(self.is_binary_activation(user) for user in self.users(value.node))
            self.emit(value.node.name, value, value.pending, floats=not only, bits=True)
            return
        self.emit(node.name, value, self.stored(value, node.name), floats=False, bits=True)

    def thresholds(self, node: fx.Node, pending: Pending) -> int:
        """Sums -> bits by thresholds alone; a max pool in between becomes an OR behind them.

        An activation of more levels is one copy for each threshold, a plane; the OR of planes is that of the maximum.
        """
        act: Any = self.wide.get_submodule(str(node.target))
        steps: list[Step] = [*pending.steps, act if act.levels == 2 else partial(to_planes, act)]
        op = replace(pending.op, copies=pending.copies * (act.levels - 1))
        if pending.reach is not None:
            folded = fold_integers(steps, pending.reach, op.channels, op.copies, pending.scale)
            op.flags |= Flag.INTEGER_THRESHOLD
        else:
            assert float(pending.scale) == 1
            folded = fold_floats(steps, op.channels, op.copies)
        op.threshold = folded.threshold
        flip = pack_bits(folded.flip, op.copies) if folded.flip.any() else None
        c, h, w = pending.shape
        if pending.pool is None:
            op.flip = flip
            op.out_bits = self.tensor(node.name, Storage.BITS, (c * op.copies, h, w), op.copies)
            self.program.ops.append(op)
            return op.out_bits
        op.out_bits = self.tensor(f"{node.name}.unpooled", Storage.BITS, (c * op.copies, h, w), op.copies)
        self.program.ops.append(op)
        c, h, w = pending.pooled or pending.shape
        out = self.tensor(node.name, Storage.BITS, (c * op.copies, h, w), op.copies)
        self.program.ops.append(replace(pending.pool, input=op.out_bits, out_bits=out, flip=flip))
        return out

    def affine(self, pending: Pending, slope: Tensor, offset: Tensor, copies: int) -> None:
        """Put slope · value + offset behind what is pending; with copies, blocked."""
        old_slope = torch.ones(()) if pending.slope is None else pending.slope.repeat(copies)
        old_offset = torch.zeros(()) if pending.offset is None else pending.offset.repeat(copies)
        pending.slope = (old_slope * slope).double()
        pending.offset = (old_offset * slope + offset).double()
        pending.copies *= copies

    def add_bias(self, pending: Pending, bias: Tensor) -> None:
        """A number for each channel, added to what is pending."""
        self.affine(pending, torch.ones(len(bias)), bias, 1)
        pending.steps.append(lambda x: x + bias)

    def to_float(self, node: fx.Node, value: Value, op: Op) -> Value:
        """An operation from floats to floats."""
        op.input = self.floats(value)
        op.out_float = self.tensor(node.name, Storage.FLOAT, self.image_shape(node))
        self.program.ops.append(op)
        return Value(node, self.image_shape(node), stored=op.out_float)

    def alias(self, node: fx.Node, value: Value) -> Value:
        """The same values under another node."""
        if value.pending is not None and len(self.users(value.node)) > 1:
            self.floats(value)  # what is folded in after one node must not be seen by the other's readers
        return replace(value, node=node, act=-1)
