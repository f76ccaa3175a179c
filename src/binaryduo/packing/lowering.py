"""From a traced PyTorch model to a program: every node becomes part of an operation, or is refused by name.

Nodes are visited in order. What a convolution, a pool or an addition gives is kept *pending* while the nodes
behind it (BN, copies, ReLU, a residual addition) can still be folded into its epilogue; it is stored when
something needs it as floats or as bits. A pending value with two kinds of users is stored as both at once.
"""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from binaryduo.engine import program as ir
from binaryduo.engine.program import Code, Flag, Op, Program, Storage
from binaryduo.engine.weight_layout import binary_weights, float_weights, pack_bits, sign_weights
from binaryduo.errors import GraphError
from binaryduo.graph.operations import keeps_values
from binaryduo.nn import QuantAct, binarize_weight, is_binary_weight
from binaryduo.packing.folding import Step, fold_floats, fold_integers

Shape = tuple[int, int, int]


@dataclass
class Pending:
    """Sums that are not stored yet, and what shall happen to them."""

    op: Op  # code, input, window, weights
    shape: Shape  # of the sums
    reach: int | None  # integer sums lie in [-reach, reach]; None: floats
    scale: Tensor  # float64: the value is scale · sum
    steps: list[Step] = field(default_factory=list)
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
    binary: bool = False  # zeros and ones alone, though they may be stored as floats


class Lowering:
    """Builds the program of one traced model; `work` is a float64 copy in evaluation mode."""

    def __init__(self, model: nn.Module, graph: fx.Graph, shapes: dict[fx.Node, Any], half: bool) -> None:
        self.model = model
        self.wide = copy.deepcopy(model).double().eval()
        self.graph, self.shapes, self.half = graph, shapes, half
        self.program = Program()
        self.values: dict[fx.Node, Value] = {}

    # -- small helpers

    def refuse(self, node: fx.Node, why: str) -> GraphError:
        where = f"module {node.target!r}" if node.op == "call_module" else f"operation {node.name!r}"
        kind = (
            f" ({type(self.model.get_submodule(str(node.target))).__name__})"
            if node.op == "call_module"
            else ""
        )
        return GraphError(f"{where}{kind} cannot be packed: {why}")

    def tensor(self, name: str, kind: Storage, shape: Shape, copies: int = 1) -> int:
        self.program.tensors.append(ir.Tensor(name, kind, *shape, copies))
        return len(self.program.tensors) - 1

    def users(self, node: fx.Node) -> list[fx.Node]:
        """The nodes that use a value, seen through those that do nothing in evaluation."""
        found: list[fx.Node] = []
        for user in node.users:
            found += self.users(user) if self.transparent(user) else [user]
        return found

    def transparent(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            module = self.model.get_submodule(str(node.target))
            return isinstance(module, nn.Identity | nn.Dropout | nn.Dropout1d | nn.Dropout2d)
        if node.op == "call_function":
            return node.target in (nn.functional.dropout, nn.functional.dropout2d)
        return keeps_values(node)

    def activation(self, node: fx.Node) -> QuantAct | None:
        """The module, if the node is a quantized activation."""
        module = self.model.get_submodule(str(node.target)) if node.op == "call_module" else None
        return module if isinstance(module, QuantAct) and module.levels is not None else None

    # -- storing

    def floats(self, value: Value) -> int:
        """The number of the float tensor that holds a value; stores it if need be."""
        if value.stored < 0:
            if value.bits >= 0:
                value.stored = self.tensor(f"{value.node.name}.float", Storage.FLOAT, value.shape)
                self.program.ops.append(Op(value.node.name, Code.UNPACK, value.bits, out_float=value.stored))
            else:
                self.store(value)
        return value.stored

    def as_bits(self, value: Value) -> int:
        """The number of the tensor of bits that holds a binary value, as a concatenation of bits is."""
        if value.bits < 0:
            value.bits = self.tensor(f"{value.node.name}.bits", Storage.BITS, value.shape)
            half = np.full(value.shape[0], 0.5, np.float32)
            op = Op(value.node.name, Code.POINTWISE, self.floats(value), channels=value.shape[0])
            self.program.ops.append(replace(op, out_bits=value.bits, threshold=half))
        return value.bits

    def store(self, value: Value) -> None:
        """Emit a pending value as floats, and as bits too if an activation uses it."""
        pending = value.pending
        assert pending is not None
        acts = {self.activation(user) for user in self.users(value.node)} - {None}
        self.emit(value.node.name, value, pending, floats=True, bits=bool(acts))

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
        source = self.floats(value)
        one = torch.ones((), dtype=torch.float64)
        op = Op(name, Code.POINTWISE, source, channels=value.shape[0])
        return Pending(op, value.shape, None, one)

    # -- activations

    def quantize(self, node: fx.Node, value: Value, module: QuantAct) -> Value:
        if module.levels != 2:
            raise self.refuse(
                node,
                f"it has {module.levels} levels. Make it binary first: bd.decouple(model, example_input)",
            )
        result = Value(node, value.shape, binary=True)
        pending = value.pending
        if pending is not None and pending.residual < 0 and len(self.users(value.node)) == 1:
            result.bits = self.thresholds(node, pending)
        else:
            if value.act < 0:
                self.bits_of(node, value)
            result.bits = value.act
            self.program.tensors[value.act].name = node.name
        return result

    def bits_of(self, node: fx.Node, value: Value) -> None:
        """Bits of a value that is stored, or of a residual sum that only the activation uses."""
        if value.pending is not None and value.stored < 0:
            only = all(self.activation(user) is not None for user in self.users(value.node))
            self.emit(value.node.name, value, value.pending, floats=not only, bits=True)
            return
        one = torch.ones((), dtype=torch.float64)
        op = Op(node.name, Code.POINTWISE, self.floats(value), channels=value.shape[0])
        self.emit(node.name, value, Pending(op, value.shape, None, one), floats=False, bits=True)

    def thresholds(self, node: fx.Node, pending: Pending) -> int:
        """Sums -> bits by thresholds alone; a max pool in between becomes an OR behind them."""
        steps: list[Step] = [*pending.steps, self.wide.get_submodule(str(node.target))]
        op = replace(pending.op, copies=pending.copies)
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
        out = self.tensor(node.name, Storage.BITS, pending.out_shape, op.copies)
        self.program.ops.append(replace(pending.pool, input=op.out_bits, out_bits=out, flip=flip))
        return out

    # -- layers

    def layer(self, node: fx.Node, value: Value, module: nn.Conv2d | nn.Linear) -> Value:
        wide: Any = self.wide.get_submodule(str(node.target))
        weight: Tensor = wide.weight.detach()
        c, h, w = value.shape
        if isinstance(module, nn.Linear):
            if self.shapes[value.node] is not None and len(self.shapes[node]) != 2:
                raise self.refuse(node, "a dense layer is packed on (N, features) only: flatten its input")
            weight = weight.view(-1, c, h, w)
            kernel, stride, padding = (h, w), (1, 1), (0, 0)
        else:
            if module.groups != 1 or module.dilation != (1, 1):
                raise self.refuse(
                    node, "a one-bit kernel with holes, or more than 256 groups, is not supported"
                )
            if module.padding_mode != "zeros":
                raise self.refuse(node, "only padding with zeros is supported")
            kernel, stride = weight.shape[2:], module.stride  # type: ignore[assignment]
            padding = self.padding(node, module)
        if any(p >= k for p, k in zip(padding, kernel, strict=True)):
            raise self.refuse(node, "it is padded by a whole kernel or more")
        channels = len(weight)
        size = tuple(
            (n + 2 * p - k) // s + 1 for n, k, s, p in zip((h, w), kernel, stride, padding, strict=True)
        )
        op = Op(node.target, Code.FLOAT_CONV, -1, kernel=tuple(kernel), stride=stride, padding=padding)  # type: ignore[arg-type]
        op.channels = channels
        scale, reach = torch.ones((), dtype=torch.float64), None
        binary = binarize_weight(weight) if is_binary_weight(module) else None
        if binary is not None and value.binary:
            op.code, op.input = Code.BINARY_CONV, self.as_bits(value)
            scale, reach = binary.abs().flatten()[0], weight[0].numel()
            op.weights = binary_weights(binary.numpy(), self.program.tensors[op.input].copies)
            if self.program.inputs_of(op) > 65535:  # unused bits of a byte count
                raise self.refuse(
                    node, f"it has {reach} inputs: with them a one-bit layer has more than 65535"
                )
        elif binary is not None:  # bits on disk, but sums of floats
            op.input = self.floats(value)
            op.flags |= Flag.BIT_WEIGHTS
            op.weights = sign_weights(binary.numpy())
        else:
            op.input = value.bits if value.bits >= 0 else self.floats(value)
            dtype = np.float16 if self.half else np.float32
            op.flags |= Flag.HALF_WEIGHTS * self.half
            op.weights = float_weights(weight.to(torch.float32).numpy().astype(dtype))
        pending = Pending(op, (channels, *size), reach, scale)  # type: ignore[arg-type]
        if binary is not None and op.flags & Flag.BIT_WEIGHTS:
            size_of_weights = binary.abs().flatten()[0]
            self.affine(pending, size_of_weights.expand(channels), torch.zeros(channels), 1)
            pending.steps.append(lambda x: x * size_of_weights)
        if wide.bias is not None:
            self.affine(pending, torch.ones(channels), wide.bias.detach(), 1)
            bias = wide.bias.detach()
            pending.steps.append(lambda x: x + bias)
        return Value(node, pending.out_shape, pending)

    def padding(self, node: fx.Node, module: nn.Conv2d) -> tuple[int, int]:
        """Zeros above and on the left; the same are below and on the right."""
        if not isinstance(module.padding, str):
            return module.padding  # type: ignore[return-value]
        if module.padding == "valid":
            return 0, 0
        if any(k % 2 == 0 for k in module.kernel_size):
            raise self.refuse(node, "padding='same' with an even kernel is not the same on both sides")
        return tuple(k // 2 for k in module.kernel_size)  # type: ignore[return-value]

    def affine(self, pending: Pending, slope: Tensor, offset: Tensor, copies: int) -> None:
        """Put slope · value + offset behind what is pending; with copies, blocked."""
        old_slope = torch.ones(()) if pending.slope is None else pending.slope.repeat(copies)
        old_offset = torch.zeros(()) if pending.offset is None else pending.offset.repeat(copies)
        pending.slope = (old_slope * slope).double()
        pending.offset = (old_offset * slope + offset).double()
        pending.copies *= copies
