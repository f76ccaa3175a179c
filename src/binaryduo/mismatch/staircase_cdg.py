"""Fast CDG of a network with quantized activations.

Changing W[j, k] by ±step moves only pre-activation z_j, by ±step·x_k. With thresholds θ_1 < θ_2 < …
(a unit is on level i from θ_i up) the two losses of a sample differ by

    ℓ(z_j + step·x_k) - ℓ(z_j - step·x_k) = Σ_i J_i · ([z_j + step·x_k >= θ_i] - [z_j - step·x_k >= θ_i])

where J_i = ℓ(unit j on level i) - ℓ(unit j on level i - 1) depends on the sample, on j and on i, not on k.
The bracket is zero unless |z_j - θ_i| <= step·max_k |x_k|: a few samples in a thousand. So

1. find these (sample, j, i) by one pass over the pre-activations;
2. evaluate their J_i, once each, from layer j's output on;
3. multiply by the brackets, for all k together, and add up by j.

docs/mismatch.md has the derivation and the error bound.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from binaryduo.mismatch.network import LayerOffsets, Trace, outputs_from
from binaryduo.ste import thresholds

# The search may find too many pairs, never too few: brackets are evaluated exactly afterwards.
_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Crossings:
    """P triples (sample, unit, threshold) that a step may carry over the threshold."""

    sample: Tensor  # (P,)
    unit: Tensor  # (P,)
    threshold: Tensor  # (P,) index from 0: level `threshold + 1` is reached there


def find_crossings(z: Tensor, reach: Tensor, levels: int, offsets: Tensor | None = None) -> Crossings:
    """All (sample, unit, threshold) with |z - θ| <= reach; z is (B, width), reach (B, 1) or (1, 1).

    `offsets` (L - 1, width or 1) are added to the usual thresholds.

    >>> c = find_crossings(torch.tensor([[0.26, 0.5]]), torch.tensor([[0.02]]), levels=3)
    >>> c.unit.tolist(), c.threshold.tolist()
    ([0], [0])
    """
    steps = levels - 1
    reach = reach * _SLACK
    at = thresholds_at(z, levels, offsets)
    if offsets is not None:
        near = torch.zeros_like(z, dtype=torch.bool)
        for row in at:
            near |= (z - row).abs_() <= reach
    elif levels == 2:
        near = (z - 0.5).abs_() <= reach
    else:  # one look at the nearest threshold tells whether there is any in reach
        u = z * steps
        nearest = u.floor().clamp_(0, steps - 1).add_(0.5)
        near = u.sub_(nearest).abs_() <= reach * steps * _SLACK + 1e-9
    sample, unit = _few_true(near)
    if levels == 2:
        return Crossings(sample, unit, torch.zeros_like(sample))
    hit = (z[sample, unit].unsqueeze(1) - at.T[unit]).abs_() <= reach.expand(len(z), 1)[sample]
    pair, threshold = hit.nonzero(as_tuple=True)
    return Crossings(sample[pair], unit[pair], threshold)


def thresholds_at(z: Tensor, levels: int, offsets: Tensor | None) -> Tensor:
    """Each unit's thresholds, (L - 1, width), for pre-activations z (B, width).

    >>> thresholds_at(torch.zeros(1, 2), 3, torch.tensor([[0.0, 0.125], [0.0, 0.0]])).tolist()
    [[0.25, 0.375], [0.75, 0.75]]
    """
    at = torch.tensor(thresholds(levels), dtype=z.dtype, device=z.device).unsqueeze(1)
    return (at if offsets is None else at + offsets).expand(-1, z.shape[1])


def _few_true(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of each true entry of a (B, width) mask that has few: looked for eight bytes at a time.

    >>> _few_true(torch.eye(8, dtype=torch.bool)[5:])
    (tensor([0, 1, 2]), tensor([5, 6, 7]))
    """
    by_column = mask.T.contiguous()  # the way it lies in memory
    flat = by_column.view(-1)
    if len(flat) % 8:
        column, row = by_column.nonzero(as_tuple=True)
        return row, column
    (word,) = flat.view(torch.int64).nonzero(as_tuple=True)
    hit, byte = flat.view(-1, 8)[word].nonzero(as_tuple=True)
    index = word[hit] * 8 + byte
    column = index // len(mask)
    return index - column * len(mask), column


def layer_sum(
    trace: Trace,
    residual: Tensor,
    weights: list[Tensor],
    levels: int,
    layer: int,
    step: float,
    offsets: LayerOffsets = None,
) -> Tensor:
    """Σ_samples ℓ(W + step·e) - ℓ(W - step·e) for every entry of hidden layer `layer`: (out, in).

    `residual` (B,) is F - F*; the loss of a sample is half its square.
    """
    x, z = trace.inputs[layer], trace.pre[layer]
    # Activations lie in [0, 1]; only the data have to be looked at.
    largest = x.abs().amax(1, keepdim=True) if layer == 0 else x.new_ones(1, 1)
    reach = step * largest
    own = None if offsets is None else offsets[layer]
    found = find_crossings(z, reach, levels, own)
    sums = torch.zeros_like(weights[layer])
    if len(found.sample) == 0:
        return sums
    jump = loss_jumps(trace, residual, weights, levels, layer, found, offsets)
    at = thresholds_at(z, levels, own)[found.threshold, found.unit].unsqueeze(1)
    before = z[found.sample, found.unit].unsqueeze(1)
    move = step * x[found.sample]  # (P, in)
    bracket = (before + move >= at).to(z.dtype).sub_((before - move >= at).to(z.dtype))
    # Adding up by unit is a product with a matrix that holds one jump in each column.
    chooser = torch.zeros(len(sums), len(jump), dtype=z.dtype, device=z.device)
    chooser[found.unit, torch.arange(len(jump), device=z.device)] = jump
    return chooser @ bracket


def loss_jumps(
    trace: Trace,
    residual: Tensor,
    weights: list[Tensor],
    levels: int,
    layer: int,
    found: Crossings,
    offsets: LayerOffsets = None,
) -> Tensor:
    """J (P,): by how much a sample's loss rises when the unit goes from below the threshold to above it.

    Of the two levels at a threshold the inner one (nearer to the present level) is nearly always the
    present level itself, whose loss is known; only where it is not, it is evaluated too.
    """
    value = trace.inputs[layer + 1][found.sample, found.unit]
    present = (value * (levels - 1)).round_().long()
    above = found.threshold + 1
    upward = present < above
    outer = torch.where(upward, above, found.threshold)
    inner = torch.where(upward, found.threshold, above)
    jump = _loss_change(trace, residual, weights, levels, layer, found, outer, value, offsets)
    far = (inner != present).nonzero().squeeze(1)
    if len(far):
        part = Crossings(found.sample[far], found.unit[far], found.threshold[far])
        jump[far] -= _loss_change(
            trace, residual, weights, levels, layer, part, inner[far], value[far], offsets
        )
    return torch.where(upward, jump, -jump)


def _loss_change(
    trace: Trace,
    residual: Tensor,
    weights: list[Tensor],
    levels: int,
    layer: int,
    found: Crossings,
    level: Tensor,
    value: Tensor,
    offsets: LayerOffsets,
) -> Tensor:
    """ℓ with the unit on `level` minus ℓ as it is, without the cancellation of subtracting two losses."""
    move = (level.to(value.dtype) / (levels - 1) - value).unsqueeze(1)
    column = weights[layer + 1].T[found.unit]  # (P, out of the next layer)
    if layer + 1 == len(trace.pre):
        change = (move * column).squeeze(1)
    else:
        z = trace.pre[layer + 1][found.sample] + move * column
        behind = None if offsets is None else offsets[layer + 1 :]
        change = outputs_from(z, weights[layer + 2 :], levels, behind) - trace.output[found.sample]
    return change * (residual[found.sample] + change / 2)
