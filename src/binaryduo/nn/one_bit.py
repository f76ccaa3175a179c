"""Layers with one-bit weights: sign(w) times mean|w|, one scale for the layer (Appendix D)."""

from typing import Any

import torch
from torch import Tensor, nn


class _Binarize(torch.autograd.Function):
    """sign(w) * mean|w| forward, the identity backward."""

    @staticmethod
    def forward(weight: Tensor) -> Tensor:
        scale = weight.abs().mean()
        return torch.where(weight >= 0, scale, -scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


@torch.fx.wrap
def binarize_weight(weight: Tensor, clip: bool = False) -> Tensor:
    """sign(w) times mean|w| over the whole layer, with sign(0) = +1; the gradient passes straight through.

    With `clip` the latent weight is first clipped to [-1, 1], in place.

    >>> binarize_weight(torch.tensor([0.5, -1.0, 0.0])).tolist()
    [0.5, -0.5, 0.5]
    """
    if clip:
        with torch.no_grad():
            weight.clamp_(-1, 1)
    out: Tensor = _Binarize.apply(weight)  # type: ignore[no-untyped-call]
    return out


class BinaryConv2d(nn.Conv2d):
    """A convolution with one-bit weights: sign(w) * mean|w|, one scale for the layer.

    The parameter `weight` is the latent weight. In training mode each forward pass clips it to [-1, 1]
    first, so that any optimizer may be used; call `clip_latent_weights` after the last step.

    >>> BinaryConv2d(8, 16, 3, padding=1, bias=False)(torch.rand(1, 8, 5, 5)).shape
    torch.Size([1, 16, 5, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        weight = binarize_weight(self.weight, clip=self.training)
        out: Tensor = self._conv_forward(input, weight, self.bias)
        return out


class BinaryConv1d(nn.Conv1d):
    """A convolution over sequences (N, C, T) with one-bit weights: see BinaryConv2d.

    >>> BinaryConv1d(8, 16, 3, padding=1, bias=False)(torch.rand(1, 8, 20)).shape
    torch.Size([1, 16, 20])
    """

    def forward(self, input: Tensor) -> Tensor:
        weight = binarize_weight(self.weight, clip=self.training)
        out: Tensor = self._conv_forward(input, weight, self.bias)
        return out


class BinaryLinear(nn.Linear):
    """A dense layer with one-bit weights: see BinaryConv2d.

    >>> BinaryLinear(8, 4, bias=False)(torch.rand(2, 8)).shape
    torch.Size([2, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        weight = binarize_weight(self.weight, clip=self.training)
        return nn.functional.linear(input, weight, self.bias)


def is_binary_weight(module: nn.Module) -> bool:
    """Whether the module's weight is one bit when it is used.

    >>> is_binary_weight(BinaryLinear(2, 2)), is_binary_weight(nn.Linear(2, 2))
    (True, False)
    """
    return isinstance(module, BinaryConv1d | BinaryConv2d | BinaryLinear)


@torch.no_grad()
def clip_latent_weights(model: nn.Module) -> None:
    """Clip the latent weights of all binary layers to [-1, 1], in place, as after an optimizer's step.

    >>> layer = BinaryLinear(2, 2)
    >>> _ = layer.weight.data.fill_(3)
    >>> clip_latent_weights(layer)
    >>> layer.weight.max().item()
    1.0
    """
    for module in model.modules():
        if is_binary_weight(module):
            module.get_parameter("weight").clamp_(-1, 1)
