"""The coordinate discrete gradient (CDG): the loss's average slope over ±step along each weight.

`fast` and `brute` return the same numbers; brute force is Algorithm 1 as printed, kept as the oracle.

Paper: Equation 3, Algorithm 1.
"""

import torch
from torch import Tensor

from binaryduo.mismatch import relu_cdg, staircase_cdg
from binaryduo.mismatch.coarse import sensitivities
from binaryduo.mismatch.network import LayerOffsets, Trace, forward


def sums(
    trace: Trace,
    targets: Tensor,
    weights: list[Tensor],
    levels: int | None,
    step: float,
    offsets: LayerOffsets = None,
) -> list[Tensor]:
    """(Σ_samples ℓ(W + step·e) - ℓ(W - step·e)) / (2 step) for every weight of every layer, fast.

    The output is linear in the last layer's weights and the loss quadratic, so that its CDG is exactly
    its gradient.
    """
    residual = trace.output - targets
    if levels is None:
        deltas = sensitivities(trace, residual, weights, None, "relu1")
        hidden = [
            relu_cdg.layer_sum(trace, residual, deltas[i], weights, i, step) for i in range(len(trace.pre))
        ]
    else:
        hidden = [
            staircase_cdg.layer_sum(trace, residual, weights, levels, i, step, offsets)
            for i in range(len(trace.pre))
        ]
    last = residual.unsqueeze(0) @ trace.inputs[-1]
    return [s / (2 * step) for s in hidden] + [last]


def brute(
    x: Tensor,
    targets: Tensor,
    weights: list[Tensor],
    levels: int | None,
    step: float,
    layer: int,
    unit: int,
    column: int,
    offsets: LayerOffsets = None,
) -> float:
    """One entry of the CDG by Algorithm 1: two full evaluations of the loss. x is (n, width).

    >>> x = torch.tensor([[0.499], [0.3]], dtype=torch.float64)
    >>> w = [torch.ones(1, 1, dtype=torch.float64)] * 2
    >>> round(brute(x, torch.zeros(2), w, 2, 0.01, 0, 0, 0), 6)  # one of two samples switches on: 1/4 / 0.02
    12.5
    """
    losses = []
    for sign in (1, -1):
        moved = [w.clone() if i == layer else w for i, w in enumerate(weights)]
        moved[layer][unit, column] += sign * step
        losses.append(half_squared_loss(forward(x, moved, levels, offsets).output, targets))
    return (losses[0] - losses[1]) / (2 * step)


def half_squared_loss(output: Tensor, targets: Tensor) -> float:
    """Algorithm 1's loss, 1/(2n) Σ (F - F*)².

    >>> half_squared_loss(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0]))
    1.0
    """
    return float((output - targets).square().sum(dtype=torch.float64)) / (2 * len(output))
