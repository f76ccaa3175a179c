"""Which part of a program each node of a traced model becomes; anything else is refused by name."""

import operator
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from binaryduo.engine.program import Code, Op, Program, Storage
from binaryduo.errors import GraphError
from binaryduo.nn import QuantAct
from binaryduo.nn.copies import (
    AverageCopies,
    CopiedBatchNorm1d,
    CopiedBatchNorm2d,
    ReplicateCopies,
    SelectChannels,
)
from binaryduo.nn.padding import PadChannels
from binaryduo.packing.lowering import Value
from binaryduo.packing.moving import Moves

PARTS = (
    "Conv2d, Linear, BinaryConv2d, BinaryLinear, BatchNorm1d/2d, QuantAct(levels=2), ReLU, MaxPool2d, "
    "AvgPool2d, AdaptiveAvgPool2d, AdaptiveMaxPool2d, Dropout, flatten, addition, a number as summand or factor, "
    "concatenation, slices and padding of channels, padding in front of a convolution"
)
ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")
# What a number k does to a value x, as slope and offset: written x ∘ k, and k ∘ x.
NUMBERS: dict[Any, tuple[Any, Any]] = {
    **dict.fromkeys(ADDITIONS, (lambda k: (1.0, k), lambda k: (1.0, k))),
    **dict.fromkeys((operator.sub, torch.sub, "sub"), (lambda k: (1.0, -k), lambda k: (-1.0, k))),
    **dict.fromkeys((operator.mul, torch.mul, "mul"), (lambda k: (k, 0.0), lambda k: (k, 0.0))),
    **dict.fromkeys((operator.truediv, torch.div, "div"), (lambda k: (1 / k, 0.0), None)),
}
RELUS = (F.relu, torch.relu, "relu", "relu_")
FLATTENS = (torch.flatten, "flatten", torch.reshape, "reshape", "view", torch.squeeze, "squeeze")


class Visitor(Moves):
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
                self.values[node] = Value(node, shape, stored=self.tensor(node.name, Storage.FLOAT, shape))
            elif self.shapes.get(node) is not None:
                self.values[node] = self.visit(node)
        assert output is not None
        last = self.floats(output)
        if last != len(self.program.tensors) - 1 or not self.program.ops:  # the output is the last tensor
            out = self.tensor("output", Storage.FLOAT, output.shape)
            self.program.ops.append(
                Op("output", Code.POINTWISE, last, channels=output.shape[0], out_float=out)
            )
        return self.program

    def visit(self, node: fx.Node) -> Value:
        sources = [self.values[n] for n in node.all_input_nodes if n in self.values]
        if not sources or node.op == "get_attr":
            raise self.refuse(node, "it does not work on the model's input")
        value = sources[0]
        if self.transparent(node):
            return value
        if node.op == "call_module":
            return self.call_module(node, value, self.model.get_submodule(str(node.target)))
        numbers = [a for a in node.args if isinstance(a, int | float) and not isinstance(a, bool)]
        if node.target in NUMBERS and len(node.args) == 2 and len(numbers) == 1 and not node.kwargs:
            return self.number(node, value, float(numbers[0]))
        if node.target in ADDITIONS and len(node.args) == 2 and all(a in self.values for a in node.args):
            return self.add(node, value, sources[-1])
        if node.target is operator.getitem:
            return self.sliced(node, value)
        if node.target in RELUS:
            return self.relu(node, value)
        if node.target in FLATTENS:
            return self.flatten(node, value)
        if node.target in (F.max_pool2d, torch.max_pool2d):
            shape = {"kernel_size": None, "stride": None, "padding": 0, "dilation": 1}
            return self.max_pool(
                node, value, *self.window(node, **shape, ceil_mode=False, return_indices=False)
            )
        if node.target in (F.avg_pool2d, torch.nn.functional.avg_pool2d):
            shape = {"kernel_size": None, "stride": None, "padding": 0, "ceil_mode": False}
            options = self.window(node, **shape, count_include_pad=True, divisor_override=None)
            return self.average_pool(node, value, *options)
        if node.target in (torch.mean, "mean"):
            return self.mean(node, value)
        if node.target is F.adaptive_avg_pool2d:
            return self.adaptive_pool(node, value, Code.AVERAGE_POOL)
        if node.target in (F.adaptive_max_pool2d,):
            return self.adaptive_pool(node, value, Code.MAX_POOL)
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
            window = (module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode)
            return self.max_pool(node, value, *window, module.return_indices)
        if isinstance(module, nn.AvgPool2d):
            parts = (module.kernel_size, module.stride, module.padding, module.ceil_mode)
            divisor: tuple[Any, Any] = (module.count_include_pad, module.divisor_override)
            return self.average_pool(node, value, *parts, *divisor)
        if isinstance(module, nn.AdaptiveAvgPool2d):
            return self.adaptive_pool(node, value, Code.AVERAGE_POOL)
        if isinstance(module, nn.AdaptiveMaxPool2d) and not module.return_indices:
            return self.adaptive_pool(node, value, Code.MAX_POOL)
        if isinstance(module, nn.Flatten):
            return self.flatten(node, value)
        if isinstance(module, AverageCopies):
            return self.average_copies(node, value, module)
        if isinstance(module, ReplicateCopies):
            return self.replicate(node, value, self.wide.get_submodule(str(node.target)))
        if isinstance(module, SelectChannels) and module.dim == 1:
            return self.select(node, value, module.index.tolist())
        if isinstance(module, PadChannels):
            return self.pad(node, value)
        raise self.refuse(node, f"the parts that can be packed are {PARTS}")

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

    def number(self, node: fx.Node, value: Value, k: float) -> Value:
        """A value and a number, added, subtracted, multiplied or divided."""
        rule = NUMBERS[node.target][0 if isinstance(node.args[0], fx.Node) else 1]
        if rule is None or (k == 0 and rule is NUMBERS[operator.truediv][0]):
            raise self.refuse(node, "a number divided by values, or values by zero, cannot be packed")
        slope, offset = (torch.tensor(v, dtype=torch.float64) for v in rule(k))
        pending = self.start(value, node.name)
        channels = pending.out_shape[0]
        self.affine(pending, slope.expand(channels), offset.expand(channels), 1)
        pending.steps.append(lambda x: x * slope + offset)
        return Value(node, value.shape, pending)

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


def lower(model: nn.Module, graph: fx.Graph, shapes: dict[fx.Node, Any], half: bool = False) -> Program:
    """The program of a traced model; raises GraphError, with the module's name, on what cannot be packed."""
    return Visitor(model, graph, shapes, half).run()
