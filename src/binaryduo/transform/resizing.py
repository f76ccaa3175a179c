"""Modules and parameters of another width: their shapes change, their values are drawn later."""

from typing import Any

from torch import Tensor, fx, nn

from binaryduo.graph.analysis import Analysis


def is_depthwise(layer: nn.Module) -> bool:
    """Whether each channel is convolved for itself, one in and one out."""
    if not isinstance(layer, nn.Conv1d | nn.Conv2d):
        return False
    return layer.groups > 1 and layer.groups == layer.in_channels == layer.out_channels


def resize_layer(layer: nn.Module, inputs: int, outputs: int) -> None:
    weight = layer.get_parameter("weight")
    if isinstance(layer, nn.Linear):
        layer.in_features, layer.out_features = inputs, outputs
        shape = (outputs, inputs)
    else:
        assert isinstance(layer, nn.modules.conv._ConvNd)
        if is_depthwise(layer):
            layer.groups = inputs  # depthwise stays depthwise
        layer.in_channels, layer.out_channels = inputs, outputs
        shape = (outputs, inputs // layer.groups, *weight.shape[2:])
        if layer.transposed:
            shape = (inputs, outputs, *weight.shape[2:])
    layer.weight = nn.Parameter(weight.new_empty(shape), requires_grad=weight.requires_grad)
    if layer.bias is not None:
        bias = layer.get_parameter("bias")
        layer.bias = nn.Parameter(bias.new_empty(outputs), requires_grad=bias.requires_grad)


def resize_norm(norm: nn.Module, size: int) -> None:
    assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
    norm.num_features = size
    for name in ("weight", "bias"):
        old = getattr(norm, name)
        if old is not None:
            setattr(norm, name, nn.Parameter(old.new_empty(size), requires_grad=old.requires_grad))
    for name in ("running_mean", "running_var"):
        old = getattr(norm, name)
        if old is not None:
            setattr(norm, name, old.new_empty(size))


def resize_scaled(analysis: Analysis, node: fx.Node, size: int) -> None:
    """Give a module with numbers for each channel, PReLU or a norm that is no BN, that many channels."""
    module, info = analysis.module(node), analysis.info[node]
    axis = 0
    if isinstance(module, nn.LayerNorm):
        axis = info.dim - (len(info.shape) - len(module.normalized_shape))
        if axis < 0:
            return  # it normalises pixels only
        sizes = list(module.normalized_shape)
        sizes[axis] = size
        module.normalized_shape = tuple(sizes)
    names: dict[type[nn.Module], str] = {nn.PReLU: "num_parameters", nn.GroupNorm: "num_channels"}
    for kind, name in names.items():
        if isinstance(module, kind):
            setattr(module, name, size)
    if isinstance(module, nn.InstanceNorm1d | nn.InstanceNorm2d):
        module.num_features = size
    for name in ("weight", "bias"):
        old = getattr(module, name, None)
        if old is not None:
            setattr(module, name, _empty(old, axis, size))


def resize_parameter(analysis: Analysis, node: fx.Node, size: int) -> None:
    """Give a parameter that forward() reads itself that many channels."""
    path, _, name = str(node.target).rpartition(".")
    owner: Any = analysis.model.get_submodule(path)
    setattr(owner, name, _empty(getattr(owner, name), analysis.info[node].dim, size))


def _empty(old: Tensor, axis: int, size: int) -> nn.Parameter:
    shape = list(old.shape)
    shape[axis] = size
    return nn.Parameter(old.new_empty(shape), requires_grad=old.requires_grad)
