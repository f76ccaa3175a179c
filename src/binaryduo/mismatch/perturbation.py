"""What a step along one weight does to a layer's own output.

Adding ±step to weight[o, i, …] of a dense layer or a convolution adds ±step·(one input channel, shifted by
the kernel position) to output channel o and to nothing else, so that the layer need not be run again.

For one-bit weights the step is made to the effective weight sign(w)·mean|w|: a step of the latent weight
does nothing until its sign changes, and what back-propagation returns for a latent weight is, by its
straight-through rule, the slope along the effective one. Comparing there leaves the mismatch of the
activations, which is what is being measured.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from binaryduo.nn import binarize_weight, is_binary_weight


def is_weighted(module: nn.Module) -> bool:
    """Whether the profiler can perturb this module: a dense layer or an ordinary convolution.

    >>> is_weighted(nn.Conv2d(3, 8, 3)), is_weighted(nn.BatchNorm2d(8))
    (True, False)
    """
    return isinstance(module, nn.Linear | _ConvNd) and not isinstance(module, _ConvTransposeNd)


def effective_weight(module: nn.Module) -> Tensor:
    """The weight that multiplies the input: binarized where the layer binarizes it."""
    weight = module.get_parameter("weight").detach()
    return binarize_weight(weight) if is_binary_weight(module) else weight


def kind_of_weights(module: nn.Module) -> str:
    """Which weights a step moves: the "effective" ones of a layer that binarizes them, the "latent" ones of others."""
    return "effective" if is_binary_weight(module) else "latent"


def response(module: nn.Module, x: Tensor, weight: Tensor) -> Tensor:
    """What the layer would make of x with this weight in place of its own, and without its bias."""
    if isinstance(module, nn.Linear):
        return F.linear(x, weight)
    out: Tensor = module._conv_forward(x, weight, None)  # type: ignore[operator]
    return out


@dataclass(frozen=True)
class Coordinate:
    """One entry of a layer's weight, by its index."""

    index: tuple[int, ...]

    @property
    def channel(self) -> int:
        """The output channel that it feeds."""
        return self.index[0]


def draw_coordinates(weight: Tensor, count: int, generator: torch.Generator) -> list[Coordinate]:
    """`count` different entries of the weight at random, or all of them in order if it has no more.

    >>> [c.index for c in draw_coordinates(torch.zeros(1, 2), 5, torch.Generator())]
    [(0, 0), (0, 1)]
    """
    if count >= weight.numel():
        places = torch.arange(weight.numel())
    else:
        places = torch.randperm(weight.numel(), generator=generator)[:count].sort().values
    grid = torch.unravel_index(places, weight.shape)
    return [Coordinate(tuple(index)) for index in torch.stack(grid, 1).tolist()]


def shift(module: nn.Module, x: Tensor, at: Coordinate) -> Tensor:
    """By how much output channel `at.channel` rises when the weight rises by one.

    x is the layer's input. Dense: x (…, in) gives (…). Convolution: x (B, in, H, W) gives (B, H', W').

    >>> x = torch.arange(9.0).view(1, 1, 3, 3)
    >>> shift(nn.Conv2d(1, 1, 3, padding=1), x, Coordinate((0, 0, 1, 2)))[0]
    tensor([[1., 2., 0.],
            [4., 5., 0.],
            [7., 8., 0.]])
    """
    if isinstance(module, nn.Linear):
        return x[..., at.index[1]]
    assert isinstance(module, _ConvNd)
    out_per_group = module.out_channels // module.groups
    in_per_group = module.in_channels // module.groups
    channel = x[:, (at.channel // out_per_group) * in_per_group + at.index[1]].unsqueeze(1)
    # The same convolution with a kernel that is one at this position.
    kernel = torch.zeros(1, 1, *module.kernel_size, dtype=x.dtype, device=x.device)
    kernel[(0, 0, *at.index[2:])] = 1
    padding: str | tuple[int, ...] = module.padding
    if module.padding_mode != "zeros":
        channel = F.pad(channel, module._reversed_padding_repeated_twice, mode=module.padding_mode)
        padding = (0,) * len(module.kernel_size)
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(module.kernel_size)]
    out: Tensor = convolve(channel, kernel, None, module.stride, padding, module.dilation)
    return out.squeeze(1)


def spread(module: nn.Module, change: Tensor, channel: Tensor) -> Tensor:
    """The change of a layer's whole output when one channel of its input changes.

    Row r of `change`, (R,) dense or (R, H, W) convolution, is the change of input channel `channel[r]`.
    Returns (R, out) or (R, out, H', W'). The layer has one group and pads with zeros.
    """
    weight = effective_weight(module)
    if isinstance(module, nn.Linear):
        return change.unsqueeze(1) * weight.T[channel]
    assert isinstance(module, _ConvNd)
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(module.kernel_size)]
    order = channel.argsort(stable=True)
    parts = []
    kinds, sizes = torch.unique_consecutive(channel[order], return_counts=True)
    for rows, kind in zip(torch.split(order, sizes.tolist()), kinds.tolist(), strict=True):
        kernel = weight[:, kind : kind + 1]
        one = change[rows].unsqueeze(1)
        parts.append(convolve(one, kernel, None, module.stride, module.padding, module.dilation))
    out = torch.cat(parts)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    return out[back]


def can_spread(module: nn.Module, input_dims: int) -> bool:
    """Whether `spread` serves this layer for an input with that many dimensions."""
    if isinstance(module, nn.Linear):
        return input_dims == 2
    return isinstance(module, _ConvNd) and module.groups == 1 and module.padding_mode == "zeros"
