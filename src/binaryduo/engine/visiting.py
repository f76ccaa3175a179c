"""Which part of a program each node of a traced model becomes; anything else is refused by name."""

import operator
from dataclasses import replace
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from binaryduo.copies import AverageCopies, CopiedBatchNorm1d, CopiedBatchNorm2d, ReplicateCopies
from binaryduo.engine.lowering import Lowering, Shape, Value
from binaryduo.engine.program import Code, Kind, Op, Program
from binaryduo.errors import GraphError
from binaryduo.nn import QuantAct
from binaryduo.operations import PadChannels

PARTS = (
    "Conv2d, Linear, BinaryConv2d, BinaryLinear, BatchNorm1d/2d, QuantAct(levels=2), ReLU, MaxPool2d, "
    "AvgPool2d, AdaptiveAvgPool2d(1), Dropout, flatten, addition, concatenation and padding of channels"
)
ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")
RELUS = (F.relu, torch.relu, "relu", "relu_")
FLATTENS = (torch.flatten, "flatten", torch.reshape, "reshape", "view", torch.squeeze, "squeeze")


def pair(value: Any) -> tuple[int, int]:
    """PyTorch's way of giving two numbers as one.

    >>> pair(2), pair((1, 2)), pair([3])
    ((2, 2), (1, 2), (3, 3))
    """
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return (int(values[0]), int(values[-1]))


class Visitor(Lowering):
    """Visits all nodes; `run` returns the program."""

    def run(self) -> Program:
        output: Value | None = None
        for node in self.graph.nodes:
            if node.op == "output":
                if not isinstance(node.args[0], fx.Node):
                    raise GraphError("a model with more than one output cannot be packed")
                output = self.values[node.args[0]]
            elif node.op == "placeholder":
                if self.values:
                    raise GraphError("a model with more than one input cannot be packed")
                shape = self.shape_of(node)
                self.values[node] = Value(node, shape, stored=self.tensor(node.name, Kind.FLOAT, shape))
            elif self.shapes.get(node) is not None:
                self.values[node] = self.visit(node)
        assert output is not None
        last = self.floats(output)
        if last != len(self.program.tensors) - 1:  # the output is the last tensor, by definition
            out = self.tensor("output", Kind.FLOAT, output.shape)
            self.program.ops.append(
                Op("output", Code.POINTWISE, last, channels=output.shape[0], out_float=out)
            )
        return self.program

    def shape_of(self, node: fx.Node) -> Shape:
        shape = self.shapes[node]
        if len(shape) not in (2, 4):
            raise self.refuse(node, f"its output has the shape {shape}; (N, C) or (N, C, H, W) is needed")
        return (shape[1], 1, 1) if len(shape) == 2 else (shape[1], shape[2], shape[3])

    def visit(self, node: fx.Node) -> Value:
        sources = [self.values[n] for n in node.all_input_nodes if n in self.values]
        if not sources or node.op == "get_attr":
            raise self.refuse(node, "it does not work on the model's input")
        value = sources[0]
        if self.transparent(node):
            return value
        if node.op == "call_module":
            return self.call_module(node, value, self.model.get_submodule(str(node.target)))
        if node.target in ADDITIONS and len(sources) in (1, 2):
            return self.add(node, value, sources[-1])
        if node.target in RELUS:
            return self.relu(node, value)
        if node.target in FLATTENS:
            return self.flatten(node, value)
        if node.target in (F.max_pool2d, torch.max_pool2d):
            return self.max_pool(node, value, *self.window(node, 5))
        if node.target in (F.avg_pool2d, torch.nn.functional.avg_pool2d):
            return self.average_pool(node, value, *self.window(node, 4))
        if node.target in (F.adaptive_avg_pool2d, torch.mean, "mean"):
            return self.global_average(node, value)
        if node.target in (torch.cat, torch.concat, torch.concatenate):
            return self.concatenate(node)
        if node.target is F.pad:
            return self.pad(node, value)
        raise self.refuse(node, f"the parts that can be packed are {PARTS}")

    def call_module(self, node: fx.Node, value: Value, module: nn.Module) -> Value:
        if isinstance(module, nn.Conv2d | nn.Linear):
            return self.layer(node, value, module)
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            return self.norm(node, value, self.wide.get_submodule(str(node.target)))
        if isinstance(module, QuantAct) and module.levels is not None:
            return self.quantize(node, value, module)
        if isinstance(module, nn.ReLU | QuantAct):
            return self.relu(node, value)
        if isinstance(module, nn.MaxPool2d):
            if module.return_indices:
                raise self.refuse(node, "return_indices is not supported")
            window = (module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode)
            return self.max_pool(node, value, *window)
        if isinstance(module, nn.AvgPool2d):
            if module.divisor_override is not None or not (
                module.count_include_pad or pair(module.padding) == (0, 0)
            ):
                raise self.refuse(node, "a divisor other than the whole window is not supported")
            return self.average_pool(
                node, value, module.kernel_size, module.stride, module.padding, module.ceil_mode
            )
        if isinstance(module, nn.AdaptiveAvgPool2d):
            return self.global_average(node, value)
        if isinstance(module, nn.Flatten):
            return self.flatten(node, value)
        if isinstance(module, AverageCopies):
            return self.average_copies(node, value, module)
        if isinstance(module, ReplicateCopies):
            return self.replicate(node, value, self.wide.get_submodule(str(node.target)))
        if isinstance(module, PadChannels):
            return self.pad(node, value)
        raise self.refuse(node, f"the parts that can be packed are {PARTS}")

    def name_of(self, node: fx.Node) -> str:
        return str(node.target) if node.op == "call_module" else node.name

    # -- linear steps

    def norm(self, node: fx.Node, value: Value, module: Any) -> Value:
        if module.running_mean is None:
            raise self.refuse(node, "it has no running statistics: without them BN depends on the batch")
        if len(self.shapes[node]) == 2 and value.shape[1:] != (1, 1):
            raise self.refuse(node, "a BatchNorm1d behind a flattened image is not supported; put it before")
        copies = module.copies if isinstance(module, CopiedBatchNorm1d | CopiedBatchNorm2d) else 1
        pending = self.start(value, str(node.target))
        scale = torch.rsqrt(module.running_var + module.eps)
        weight = torch.ones_like(scale) if module.weight is None else module.weight.detach()
        bias = torch.zeros_like(scale) if module.bias is None else module.bias.detach()
        slope = weight * scale.repeat(copies)
        self.affine(pending, slope, bias - module.running_mean.repeat(copies) * slope, copies)
        if isinstance(module, nn.BatchNorm1d):
            pending.steps.append(module)
        else:
            pending.steps.append(lambda x: module(x[:, :, None, None]).flatten(1))
        return Value(node, pending.out_shape, pending)

    def replicate(self, node: fx.Node, value: Value, module: Any) -> Value:
        if module.dim != 1 or (len(self.shapes[node]) == 2 and value.shape[1:] != (1, 1)):
            raise self.refuse(node, "copies are packed in the channels of images only")
        pending = self.start(value, str(node.target))
        channels = value.shape[0] * module.copies
        bias = torch.zeros(channels) if module.bias is None else module.bias.detach()
        self.affine(pending, torch.ones(channels), bias, module.copies)
        pending.steps.append(module)
        return Value(node, pending.out_shape, pending)

    def relu(self, node: fx.Node, value: Value) -> Value:
        pending = value.pending
        if pending is None or pending.relu or len(self.users(value.node)) > 1:
            pending = self.start(value, node.name)
        pending.relu = True
        pending.steps.append(torch.relu)
        return Value(node, value.shape, pending)

    def add(self, node: fx.Node, a: Value, b: Value) -> Value:
        if a.shape != b.shape or self.shapes[node][1:] != self.shapes[a.node][1:] or "alpha" in node.kwargs:
            raise self.refuse(node, "an addition is packed for two tensors of the same shape only")

        def open_to_add(v: Value) -> bool:
            p = v.pending
            return (
                p is not None and p.plain and p.pool is None and len(self.users(v.node)) == 1 and a is not b
            )

        first, second = (a, b) if open_to_add(a) else (b, a)
        if open_to_add(second) and second.pending is not None and second.pending.reach is not None:
            first, second = second, first  # the one-bit layer takes the other in
        other = self.floats(second)
        pending = self.start(first, node.name)
        pending.residual = other
        return Value(node, a.shape, pending)

    # -- shapes

    def flatten(self, node: fx.Node, value: Value) -> Value:
        shape, c, h, w = self.shapes[node], *value.shape
        if tuple(shape[1:]) in ((c * h * w,), (c, h, w)):
            if value.pending is not None and len(self.users(value.node)) > 1:
                self.floats(value)  # the others see it with its pixels
            return Value(node, value.shape, value.pending, value.stored, value.bits)
        raise self.refuse(node, f"a reshape to {tuple(shape)} is not a flattening of one image's values")

    def window(self, node: fx.Node, count: int) -> list[Any]:
        """The arguments of a functional pool: kernel, stride, padding, then (dilation,) ceil_mode."""
        names = ["kernel_size", "stride", "padding", *(["dilation"] if count == 5 else []), "ceil_mode"]
        defaults = [None, None, 0, *([1] if count == 5 else []), False]
        given = dict(zip(names, node.args[1:], strict=False)) | dict(node.kwargs)
        values = [given.pop(name, default) for name, default in zip(names, defaults, strict=True)]
        if any(v not in (None, True) for k, v in given.items() if k not in ("input", "return_indices")):
            raise self.refuse(node, f"its arguments {sorted(given)} are not supported")
        return values

    def max_pool(
        self, node: fx.Node, value: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: Any
    ) -> Value:
        if ceil or pair(dilation) != (1, 1):
            raise self.refuse(node, "ceil_mode and dilation are not supported")
        op = self.pool_op(node, Code.MAX_POOL, kernel, stride, padding)
        shape = self.shape_of(node)
        if value.bits >= 0:
            copies = self.program.tensors[value.bits].copies
            out = self.tensor(node.name, Kind.BITS, shape, copies)
            self.program.ops.append(replace(op, input=value.bits, out_bits=out))
            return Value(node, shape, bits=out)
        pending, single = value.pending, len(self.users(value.node)) == 1
        if pending is not None and single and not pending.steps and pending.plain and pending.pool is None:
            return Value(node, shape, replace(pending, pool=op, pooled=shape))
        op.input = self.floats(value)
        op.out_float = self.tensor(node.name, Kind.FLOAT, shape)
        self.program.ops.append(op)
        return Value(node, shape, stored=op.out_float)

    def pool_op(self, node: fx.Node, code: Code, kernel: Any, stride: Any, padding: Any) -> Op:
        kernel = pair(kernel)
        stride = kernel if stride in (None, [], ()) else pair(stride)
        return Op(self.name_of(node), code, -1, kernel=kernel, stride=stride, padding=pair(padding))

    def average_pool(
        self, node: fx.Node, value: Value, kernel: Any, stride: Any, padding: Any, ceil: Any
    ) -> Value:
        if ceil:
            raise self.refuse(node, "ceil_mode is not supported")
        return self.to_float(node, value, self.pool_op(node, Code.AVERAGE_POOL, kernel, stride, padding))

    def global_average(self, node: fx.Node, value: Value) -> Value:
        shape = tuple(self.shapes[node])
        if shape[1:] not in ((value.shape[0], 1, 1), (value.shape[0],)):
            raise self.refuse(node, f"an average to the shape {shape} is not supported, only to one pixel")
        size = value.shape[1:]
        return self.to_float(node, value, self.pool_op(node, Code.AVERAGE_POOL, size, size, 0))

    def average_copies(self, node: fx.Node, value: Value, module: AverageCopies) -> Value:
        if module.index is not None or module.dim != 1:
            raise self.refuse(node, "copies that are not blocked in the channels are not supported")
        if len(self.shapes[node]) == 2 and value.shape[1:] != (1, 1):
            raise self.refuse(node, "copies of a flattened image are not supported")
        return self.to_float(node, value, Op(str(node.target), Code.MEAN_COPIES, -1, copies=module.copies))

    def pad(self, node: fx.Node, value: Value) -> Value:
        front = 0
        if node.op == "call_function":
            given = dict(zip(["input", "pad", "mode", "value"], node.args, strict=False)) | dict(node.kwargs)
            pads = list(given["pad"])  # type: ignore[arg-type]
            plain = given.get("mode", "constant") == "constant" and not given.get("value")
            if not plain or len(pads) != 6 or any(pads[:4]) or min(pads) < 0:
                raise self.refuse(node, "only zero channels in front or behind can be padded")
            front = int(pads[4])
        return self.to_float(node, value, Op(self.name_of(node), Code.PAD_CHANNELS, -1, channels=front))

    def to_float(self, node: fx.Node, value: Value, op: Op) -> Value:
        """An operation from floats to floats."""
        op.input = self.floats(value)
        op.out_float = self.tensor(node.name, Kind.FLOAT, self.shape_of(node))
        self.program.ops.append(op)
        return Value(node, self.shape_of(node), stored=op.out_float)

    def concatenate(self, node: fx.Node) -> Value:
        parts: Any = node.args[0] if node.args else node.kwargs["tensors"]
        axis = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
        values = [self.values[n] for n in parts]
        if axis not in (1, 1 - len(self.shapes[node])) or len(values) < 2:
            raise self.refuse(node, "tensors are concatenated along their channels only")
        if len(self.shapes[node]) == 2 and any(v.shape[1:] != (1, 1) for v in values):
            raise self.refuse(node, "flattened images cannot be concatenated")
        source, shape = self.floats(values[0]), values[0].shape
        for i, value in enumerate(values[1:]):
            other = self.floats(value)
            shape = (shape[0] + value.shape[0], *shape[1:])
            name = node.name if i == len(values) - 2 else f"{node.name}.{i}"
            out = self.tensor(name, Kind.FLOAT, shape)
            self.program.ops.append(Op(node.name, Code.CONCAT, source, residual=other, out_float=out))
            source = out
        return Value(node, shape, stored=source)


def lower(model: nn.Module, graph: fx.Graph, shapes: dict[fx.Node, Any], half: bool = False) -> Program:
    """The program of a traced model; raises GraphError, with the module's name, on what cannot be packed."""
    return Visitor(model, graph, shapes, half).run()
