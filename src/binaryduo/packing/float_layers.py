"""How the weights of a float layer are stored: 32, 16 or 8 bits, and what 8 bits do to the layer.

8-bit weights are whole numbers times a step of each output channel, its largest weight / 127, so that each is off by at
most 1/254 of that. Where the layer reads bits or pixels, its sums are sums of whole numbers, the same on every machine;
the step is part of what follows them. The model that the program is compared with gets the rounded weights, so that the
comparison stays as strict as without; what rounding does to the outputs is measured apart (`pack`).
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from binaryduo.engine.program import Flag
from binaryduo.engine.weight_layout import byte_weights, float_weights, in_groups
from binaryduo.packing.builder import Builder, Pending, Value

MOST_INPUTS = 65535  # of a sum of whole numbers, so that it fits into 32 bits


def store(b: Builder, node: fx.Node, pending: Pending, value: Value, weight: Tensor, groups: int) -> None:
    """Give a float layer its input and its weights, (O, C / groups, kh, kw) in float64."""
    op = pending.op
    small = b.choices.weights_of(value.bytes >= 0) == "int8"
    if (
        small
        and value.bytes >= 0
        and groups == 1
        and _fits(weight[0].numel() // weight.shape[1], value.shape[0] + 1)
    ):
        return _on_pixels(b, node, pending, value, weight)
    on_bits = (
        value.bits >= 0
        and value.planes == 1
        and (not small or (groups == 1 and weight[0].numel() <= MOST_INPUTS))
    )
    op.input = value.bits if on_bits else b.floats(value)
    if not small:
        dtype = np.float16 if b.choices.half else np.float32
        op.flags |= Flag.HALF_WEIGHTS * b.choices.half
        op.weights = in_groups(weight.to(torch.float32).numpy().astype(dtype), groups, float_weights)
        return
    numbers, step = byte_weights(weight.numpy())
    op.flags |= Flag.BYTE_WEIGHTS
    op.weights = in_groups(numbers, groups, float_weights)
    _multiply(b, pending, torch.from_numpy(step), torch.zeros(len(step), dtype=torch.float64))
    _replace_weight(b, node, torch.from_numpy(numbers * step[:, None, None, None]))


def _fits(taps: int, channels: int) -> bool:
    return taps * channels <= MOST_INPUTS


def _on_pixels(b: Builder, node: fx.Node, pending: Pending, value: Value, weight: Tensor) -> None:
    """A layer of 8-bit weights on pixels from 0 to 255, which does the normalisation too.

    With w' = w / (255 · std), y = Σ w'·(pixel − z), z = 255 · mean: the second part is a constant of each output
    channel. Zero padding is zero after the normalisation, so the frame must count as z, which is no whole number: it
    is the nearest byte, and the rest of it is the weight of one more input channel that is `mark` in the frame and 0
    in the image.
    """
    assert b.choices.pixels is not None
    op, zero = pending.op, 255 * b.choices.pixels.mean
    factor = 1 / (255 * b.choices.pixels.std)[None, :, None, None]
    numbers, step = byte_weights(weight.numpy() * factor)
    nearest = np.rint(np.clip(zero, 0, 255))
    rest = np.einsum("ockl,c->okl", numbers.astype(np.float64), zero - nearest)
    mark = max(1, int(np.ceil(np.abs(rest).max() / 127)))
    if mark > 255:  # a mean far outside of the pixels
        raise b.refuse(
            node, 'with this mean an 8-bit first layer is not possible: leave out first_layer="int8"'
        )
    whole = np.concatenate([numbers, np.rint(rest / mark).astype(np.int8)[:, None]], axis=1)
    frame = np.array([*nearest, mark], np.uint8).view(np.int8)
    op.input = value.bytes
    op.flags |= Flag.BYTE_WEIGHTS
    op.weights = np.concatenate([float_weights(whole), frame])
    constant = -step * np.einsum("ockl,c->o", numbers.astype(np.float64), zero)
    _multiply(b, pending, torch.from_numpy(step), torch.from_numpy(constant))
    _replace_weight(b, node, torch.from_numpy(numbers * step[:, None, None, None] / factor))


def _multiply(b: Builder, pending: Pending, step: Tensor, constant: Tensor) -> None:
    b.affine(pending, step, constant, 1)
    pending.steps.append(lambda x: x * step + constant)
    pending.rising += 1


def _replace_weight(b: Builder, node: fx.Node, weight: Tensor) -> None:
    """The layer's weights as they are in the file, in both copies of the model."""
    for model in (b.model, b.wide):
        own: Any = model.get_submodule(str(node.target)).weight
        own.data = weight.reshape(own.shape).to(own.dtype)
