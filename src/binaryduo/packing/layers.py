"""How layers, BN, activations and additions become part of a program. Each rule: (builder, call, value) -> value."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryduo.engine.program import MOST_PLANES, Code, Flag, Op
from binaryduo.engine.weight_layout import binary_weights, float_weights, in_groups, pack_bits
from binaryduo.graph.operations import Call, Kind
from binaryduo.nn import QuantAct, binarize_weight, is_binary_weight
from binaryduo.nn.copies import CopiedBatchNorm1d, CopiedBatchNorm2d
from binaryduo.packing import float_layers
from binaryduo.packing.builder import Builder, Pending, Value
from binaryduo.packing.float_layers import MOST_INPUTS
from binaryduo.packing.floats import join
from binaryduo.packing.planes import plane_thresholds


def layer(b: Builder, call: Call, value: Value) -> Value:
    node, module = call.node, call.module
    assert isinstance(module, nn.Conv1d | nn.Conv2d | nn.Linear)
    wide: Any = b.wide.get_submodule(str(node.target))
    weight: Tensor = wide.weight.detach()
    c, h, w = value.shape
    if isinstance(module, nn.Linear):
        if len(b.shape(node)) != 2:
            raise b.refuse(node, "a dense layer can be packed only on (N, features): flatten its input")
        weight = weight.view(-1, c, h, w)
        kernel, stride, padding = (h, w), (1, 1), (0, 0)
    else:
        if set(module.dilation) != {1}:
            raise b.refuse(node, "a one-bit convolution with dilation is not supported")
        padding = _padding(module)
        stride = (1, *module.stride)[-2:]  # type: ignore[assignment]
        weight = weight.unsqueeze(2) if isinstance(module, nn.Conv1d) else weight
        kernel = weight.shape[2:]  # type: ignore[assignment]
    if any(p >= k for p, k in zip(padding, kernel, strict=True)):
        raise b.refuse(node, "it is padded by a whole kernel or more")
    channels = len(weight)
    size = tuple((n + 2 * p - k) // s + 1 for n, k, s, p in zip((h, w), kernel, stride, padding, strict=True))
    op = Op(node.target, Code.FLOAT_CONV, -1, kernel=tuple(kernel), stride=stride, padding=padding)  # type: ignore[arg-type]
    groups = 1 if isinstance(module, nn.Linear) else module.groups
    op.channels, op.groups = channels, groups if groups > 1 else 0
    scale, reach = torch.ones((), dtype=torch.float64), None
    binary = binarize_weight(weight) if is_binary_weight(module) else None
    planes = b.planes(value)
    if binary is not None and (planes == 1 or (planes > 1 and _fits_planes(weight, groups, planes))):
        op.code, op.input = Code.BINARY_CONV, b.as_bits(value)
        scale, reach = binary.abs().flatten()[0] / planes, weight[0].numel() * planes
        copies = b.program.tensors[op.input].copies // planes if groups == 1 else 1
        op.flags |= Flag.SHARED_WEIGHTS * (planes > 1)
        op.weights = in_groups(binary.numpy(), groups, partial(binary_weights, copies=copies))
        if b.program.inputs_of(op) > MOST_INPUTS:  # unused bits of a byte count
            raise b.refuse(
                node, f"it has {reach} inputs per output, and a one-bit layer can have at most {MOST_INPUTS}"
            )
    elif binary is not None:  # bits on disk, but sums of floats
        op.input = b.floats(value)
        op.flags |= Flag.BIT_WEIGHTS
        op.weights = pack_bits(in_groups(binary.numpy(), groups, float_weights) > 0)
    pending = Pending(op, (channels, *size), reach, scale)  # type: ignore[arg-type]
    if binary is None:
        float_layers.store(b, node, pending, value, weight, groups)
    if binary is not None and op.flags & Flag.BIT_WEIGHTS:
        size_of_weights = binary.abs().flatten()[0]
        b.affine(pending, size_of_weights.expand(channels), torch.zeros(channels), 1)
        pending.steps.append(lambda x: x * size_of_weights)
    if wide.bias is not None:
        b.add_bias(pending, wide.bias.detach())
    return Value(node, pending.out_shape, pending)


def _fits_planes(weight: Tensor, groups: int, planes: int) -> bool:
    """Whether a one-bit layer can read the planes of its input; otherwise it reads their mean."""
    _, channels, *kernel = weight.shape
    inputs = planes * ((channels + 7) // 8 * 8) * kernel[0] * kernel[1]
    return groups == 1 and planes <= MOST_PLANES and inputs <= MOST_INPUTS


def _padding(module: nn.Conv1d | nn.Conv2d) -> tuple[int, int]:
    """Zeros above and on the left; the same are below and on the right (other padding: `engine_forms`)."""
    if not isinstance(module.padding, str):
        return (0, *module.padding)[-2:]  # type: ignore[return-value]
    if module.padding == "valid":
        return 0, 0
    return (0, *(k // 2 for k in module.kernel_size))[-2:]  # type: ignore[return-value]


def quantize(b: Builder, call: Call, value: Value) -> Value:
    node, module = call.node, call.module
    assert isinstance(module, QuantAct)
    if module.levels is None:
        return relu(b, call, value)
    result = Value(node, value.shape, planes=module.levels - 1)
    pending = value.pending
    alone = pending is not None and pending.residual < 0 and len(b.users(value.node)) == 1
    if result.planes > 1:
        _refuse_thresholds(b, node, module, value)
        alone = alone and pending is not None and pending.copies == 1
    if alone and pending is not None:
        result.bits = b.thresholds(node, pending)
    elif result.planes > 1:
        result.bits = b.thresholds(node, b.stored(value, str(node.target)))
    else:
        if value.act < 0:
            b.bits_of(node, value)
        result.bits = value.act
        b.program.tensors[value.act].name = node.name
    return result


def _refuse_thresholds(b: Builder, node: fx.Node, module: QuantAct, value: Value) -> None:
    """Planes have a threshold for each channel."""
    if plane_thresholds(module).shape[1] not in (1, value.shape[0]):
        raise b.refuse(
            node,
            "its thresholds are those of single values of a flattened image: put it before the flattening",
        )


def norm(b: Builder, call: Call, value: Value) -> Value:
    node, module = call.node, _wide(b, call)
    if module.running_mean is None:
        raise b.refuse(node, "it has no running statistics: without them BN depends on the batch")
    if len(b.shape(node)) == 2 and value.shape[1:] != (1, 1):
        raise b.refuse(
            node, "a BatchNorm1d after a flattened image is not supported: put it before the flattening"
        )
    copies = module.copies if isinstance(module, CopiedBatchNorm1d | CopiedBatchNorm2d) else 1
    pending = b.start(value, str(node.target))
    scale = torch.rsqrt(module.running_var + module.eps)
    weight = torch.ones_like(scale) if module.weight is None else module.weight.detach()
    bias = torch.zeros_like(scale) if module.bias is None else module.bias.detach()
    slope = weight * scale.repeat(copies)
    b.affine(pending, slope, bias - module.running_mean.repeat(copies) * slope, copies)
    if isinstance(module, nn.BatchNorm1d):
        pending.steps.append(module)
    else:
        pending.steps.append(lambda x: module(x[:, :, None, None]).flatten(1))
    return Value(node, pending.out_shape, pending)


def replicate(b: Builder, call: Call, value: Value) -> Value:
    node, module = call.node, _wide(b, call)
    if module.dim != 1 or (len(b.shape(node)) == 2 and value.shape[1:] != (1, 1)):
        raise b.refuse(node, "copies can be packed only in the channels of images")
    pending = b.start(value, str(node.target))
    channels = value.shape[0] * module.copies
    bias = torch.zeros(channels) if module.bias is None else module.bias.detach()
    b.affine(pending, torch.ones(channels), bias, module.copies)
    pending.steps.append(module)
    return Value(node, pending.out_shape, pending)


def number(b: Builder, call: Call, value: Value) -> Value:
    """A value and a number, or a number for each channel: added, subtracted, multiplied or divided."""
    node, name = call.node, call.operation.name
    one, two = (*node.args, *node.kwargs.values())[:2]
    first = one in b.values
    constant = two if first else one
    if constant in b.values:
        return join(b, call, value)
    if len(node.args) + len(node.kwargs) != 2:
        raise b.refuse(node, "it has more arguments than two values")
    k: Any = b.constants.get(constant, constant)  # type: ignore[arg-type]
    if not isinstance(k, int | float | Tensor) or k is True or k is False:
        raise b.refuse(node, "it is combined with something that is not a plain number")
    k = _for_channels(b, call, value, torch.as_tensor(k, dtype=torch.float64))
    if name == "div" and (not first or bool((k == 0).any())):
        raise b.refuse(node, "a number divided by values, or values by zero, cannot be packed")
    one_each, none = torch.ones_like(k), torch.zeros_like(k)
    slope, offset = {
        "add": (one_each, k),
        "sub": (one_each, -k) if first else (-one_each, k),
        "mul": (k, none),
        "div": (1 / k, none),
    }[name]
    pending = b.start(value, node.name)
    b.affine(pending, slope, offset, 1)
    pending.steps.append(lambda x: x * slope + offset)
    return Value(node, value.shape, pending)


def _for_channels(b: Builder, call: Call, value: Value, k: Tensor) -> Tensor:
    """A constant as one number for each channel."""
    channels, rank = value.shape[0], len(b.shape(call.node))
    if k.numel() == 1:
        return k.reshape(1).expand(channels)
    whole = (*[1] * (rank - k.dim()), *k.shape)
    flattened = rank == 2 and value.shape[1:] != (1, 1)
    if len(whole) != rank or whole[1] != k.numel() or k.numel() != channels or flattened:
        raise b.refuse(
            call.node,
            f"a constant of the shape {tuple(k.shape)} is not one number for each of the {channels} channels",
        )
    return k.reshape(channels)


def relu(b: Builder, call: Call, value: Value) -> Value:
    node = call.node
    pending = value.pending
    if pending is None or pending.relu or len(b.users(value.node)) > 1:
        pending = b.start(value, node.name)
    pending.relu = True
    pending.steps.append(torch.relu)
    return Value(node, value.shape, pending)


def add(b: Builder, call: Call, value: Value) -> Value:
    if call.kind is Kind.ELEMENTWISE or any(source in b.constants for source in call.sources):
        return number(b, call, value)
    node = call.node
    first, second = b.values[call.sources[0]], b.values[call.sources[-1]]
    if call["alpha"] != 1:
        raise b.refuse(node, "an addition with a factor (alpha) is not supported")
    if first.shape != second.shape or b.shape(node)[1:] != b.shape(first.node)[1:]:
        return join(b, call, value)

    def open_to_add(v: Value) -> bool:
        p = v.pending
        alone = len(b.users(v.node)) == 1 and first is not second
        return p is not None and p.plain and p.pool is None and alone

    if not open_to_add(first):
        first, second = second, first
    if open_to_add(second) and second.pending is not None and second.pending.reach is not None:
        first, second = second, first  # the one-bit layer takes the other in
    other = b.floats(second)
    pending = b.start(first, node.name)
    pending.residual = other
    return Value(node, first.shape, pending)


def _wide(b: Builder, call: Call) -> Any:
    """The float64 copy of a call's module."""
    return b.wide.get_submodule(str(call.node.target))
