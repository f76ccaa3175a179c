"""The toy network of Algorithm 1: dense layers without biases, an activation between them, one output.

Paper: Section 4.2, Algorithm 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from binaryduo.errors import unknown_name
from binaryduo.mismatch.parallel import generator
from binaryduo.nn.intervals import thresholds_of
from binaryduo.nn.staircase import staircase

Weights = dict[str, Tensor]
LayerOffsets = Sequence[Tensor] | None  # of every hidden layer's thresholds; None: they are the usual ones
Gradients = dict[str, Tensor]

# name -> (uniform or normal draw of shape (out, in)); the paper does not say which it used for the toy.
INITS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "he": lambda w, g: w.normal_(0, (2 / w.shape[1]) ** 0.5, generator=g),
    "torch": lambda w, g: w.uniform_(-(w.shape[1] ** -0.5), w.shape[1] ** -0.5, generator=g),
    "normal": lambda w, g: w.normal_(0, 1, generator=g),
}


def layer_names(hidden_layers: int) -> list[str]:
    """The layers in order.

    >>> layer_names(3)
    ['fc1', 'fc2', 'fc3', 'out']
    """
    return [f"fc{i}" for i in range(1, hidden_layers + 1)] + ["out"]


def draw_weights(width: int, hidden_layers: int, init: str, *seed: int) -> Weights:
    """Fresh float64 weights: (width, width) for the hidden layers, (1, width) for the output.

    `he` is N(0, 2/fan_in), `torch` is nn.Linear's own U(±1/√fan_in), `normal` is N(0, 1).

    >>> draw_weights(4, 1, "he", 0)["out"].shape
    torch.Size([1, 4])
    """
    if init not in INITS:
        raise unknown_name("initialisation", init, list(INITS))
    random = generator(*seed)
    names = layer_names(hidden_layers)
    shapes = [(width, width)] * hidden_layers + [(1, width)]
    return {
        name: INITS[init](torch.empty(shape, dtype=torch.float64), random)
        for name, shape in zip(names, shapes, strict=True)
    }


def each_layer(offsets: LayerOffsets, count: int) -> Sequence[Tensor | None]:
    """The offsets of each of `count` layers: None for each of them where thresholds are the usual ones."""
    return [None] * count if offsets is None else offsets


def activate(z: Tensor, levels: int | None, offsets: Tensor | None = None) -> Tensor:
    """f(z): the staircase with that many levels, or ReLU for full precision. Same shape.

    `offsets` (L - 1, width), or (L - 1, 1) for all units alike, are added to the thresholds.
    """
    if levels is None:
        return torch.relu(z)
    return staircase(z, levels, None if offsets is None else thresholds_of(offsets.reshape(-1), levels, 2))


@dataclass(frozen=True)
class Trace:
    """A forward pass over B samples: `inputs[i]` (B, in) is what layer i multiplies, `pre[i]` (B, out) the
    pre-activations of hidden layer i, `output` (B,)."""

    inputs: list[Tensor]
    pre: list[Tensor]
    output: Tensor


def forward(x: Tensor, weights: list[Tensor], levels: int | None, offsets: LayerOffsets = None) -> Trace:
    """Run B samples x (B, width) through the network and keep everything on the way.

    >>> w = [torch.eye(2), torch.ones(1, 2)]
    >>> forward(torch.tensor([[0.4, 0.6]]), w, levels=2).output
    tensor([1.])
    """
    inputs, pre = [x], []
    # Each z lies in memory unit by unit: the product is twice as fast that way.
    for weight, offset in zip(weights[:-1], each_layer(offsets, len(weights) - 1), strict=True):
        pre.append((weight @ inputs[-1].T).T)
        inputs.append(activate(pre[-1], levels, offset))
    return Trace(inputs, pre, (inputs[-1] @ weights[-1].T).squeeze(1))


def outputs_from(
    z: Tensor, weights: list[Tensor], levels: int | None, offsets: LayerOffsets = None
) -> Tensor:
    """The output (B,) from one hidden layer's pre-activations z (B, width); `weights` are those behind it.

    `offsets` are those of its thresholds and of the hidden layers behind it.
    """
    for weight, offset in zip(weights, each_layer(offsets, len(weights)), strict=True):
        z = activate(z, levels, offset) @ weight.T
    return z.squeeze(1)
