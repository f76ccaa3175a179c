"""Layers and BNs that take or give several copies of their channels, changed in place."""

import torch
from torch import Tensor, nn

from binaryduo.transform.layout import State

Layer = nn.Conv1d | nn.Conv2d | nn.ConvTranspose1d | nn.ConvTranspose2d | nn.Linear


def _parameter(value: Tensor, like: Tensor) -> nn.Parameter:
    return nn.Parameter(value.contiguous(), requires_grad=like.requires_grad)


@torch.no_grad()
def widen_input(layer: Layer, state: State, groups: int) -> None:
    """Repeat the weights for each copy of their input and divide them among the copies."""
    weight = layer.weight
    if isinstance(layer, nn.ConvTranspose1d | nn.ConvTranspose2d):  # (in, out, …)
        divided = weight / state.counts().to(weight).view(-1, *[1] * (weight.dim() - 1))
        layer.weight = _parameter(divided.index_select(0, state.sources().to(weight.device)), weight)
        layer.in_channels = len(layer.weight)
        return
    if groups == 1:
        divided = weight / state.counts().to(weight).view(1, -1, *[1] * (weight.dim() - 2))
        wide = divided.index_select(1, state.sources().to(weight.device))
    else:  # every group's copies stand together: (out, in/groups) -> (out, copies * in/groups)
        copies = state.copies
        wide = (weight / copies).repeat(1, copies, *[1] * (weight.dim() - 2))
    layer.weight = _parameter(wide, weight)
    if isinstance(layer, nn.Linear):
        layer.in_features = wide.shape[1]
    else:
        layer.in_channels = wide.shape[1] * groups


@torch.no_grad()
def widen_output(layer: Layer, copies: int, shift: Tensor | None) -> None:
    """Repeat the layer's outputs, with the shift (copies * size,) in the bias if there is any to carry."""
    weight = layer.weight
    out = 1 if isinstance(layer, nn.ConvTranspose1d | nn.ConvTranspose2d) else 0
    size = weight.shape[out]
    repeats = [copies if dim == out else 1 for dim in range(weight.dim())]
    layer.weight = _parameter(weight.repeat(repeats), weight)
    if layer.bias is not None or shift is not None:
        old = torch.zeros(size).to(weight) if layer.bias is None else layer.bias
        new = old.repeat(copies) if shift is None else old.repeat(copies) + shift.to(weight)
        layer.bias = _parameter(new, weight if layer.bias is None else layer.bias)
    if isinstance(layer, nn.Linear):
        layer.out_features = size * copies
    else:
        layer.out_channels = size * copies


@torch.no_grad()
def widen_norm(norm: nn.BatchNorm1d | nn.BatchNorm2d, copies: int, shift: Tensor, incoming: Tensor) -> None:
    """An ordinary BN over all copies; the shift that its input carries moves into the mean."""
    size = norm.num_features
    like = next((t for t in (norm.weight, norm.bias, norm.running_mean) if t is not None), shift)
    norm.num_features = size * copies
    if norm.running_mean is not None and norm.running_var is not None:
        norm.running_mean = norm.running_mean.repeat(copies) + incoming.to(like)
        norm.running_var = norm.running_var.repeat(copies)
    norm.affine = True
    weight, bias = norm.weight, norm.bias
    one = nn.Parameter(like.new_ones(size)) if weight is None else weight
    norm.weight = _parameter(one.repeat(copies), one)
    zero = nn.Parameter(like.new_zeros(size), requires_grad=one.requires_grad) if bias is None else bias
    norm.bias = _parameter(zero.repeat(copies) + shift.to(like), zero)
