"""The evolution-strategy gradient (ESG): antithetic random steps, one layer at a time.

    g = 1/(2Nσ) Σ_i (f(W + σE_i) - f(W - σE_i)) E_i,    E_i ~ N(0, I)

The differences are small, so that each sample's is computed as (F₊ - F₋)(F₊ + F₋ - 2F*)/2 and all are added
in float64; the evaluations themselves may be float32, whose rounding is noise of 1e-7 a sample.

Paper: Appendix H.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from binaryduo.mismatch.network import LayerOffsets, Trace
from binaryduo.nn.intervals import thresholds_of
from binaryduo.nn.staircase import staircase

_ROWS = 8192  # samples × pairs evaluated together: a megabyte of float32 at width 32
_PAIRS = 16


def draw_noise(count: int, shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """E: `count` standard normal directions for a layer's weight, (count, out, in), float64."""
    return torch.randn(count, *shape, generator=generator, dtype=torch.float64)


def differences(
    trace: Trace,
    targets: Tensor,
    weights: list[Tensor],
    levels: int | None,
    sigma: float,
    noise: Tensor,
    layer: int,
    dtype: torch.dtype,
    offsets: LayerOffsets = None,
) -> Tensor:
    """Σ_samples ℓ(W + σE_i) - ℓ(W - σE_i) for every pair i of hidden layer `layer`: (N,), float64.

    A slice of samples is evaluated for several pairs together: (samples, pairs, width).
    """
    # In units of one level's height an activation is a whole number, and no layer but the last needs scaling.
    height = 1 if levels is None else levels - 1
    x, z, goal = (t.to(dtype).contiguous() for t in (trace.inputs[layer], trace.pre[layer] * height, targets))
    behind = [w.T.to(dtype) for w in (*weights[layer + 1 : -1], weights[-1] / height)]
    steps = (sigma * height * noise).to(dtype)  # (N, out, in)
    at = _scaled(offsets, levels, dtype)[layer:] if offsets is not None else [None] * len(behind)
    rows = max(1, _ROWS // _PAIRS)
    sums = torch.zeros(len(noise), dtype=torch.float64, device=noise.device)
    for pairs in range(0, len(noise), _PAIRS):
        chunk = steps[pairs : pairs + _PAIRS]
        directions = chunk.reshape(-1, chunk.shape[2]).T  # (in, pairs × out)
        for first in range(0, len(x), rows):
            part = slice(first, first + rows)
            move = (x[part] @ directions).view(-1, len(chunk), chunk.shape[1])
            start = z[part].unsqueeze(1)
            plus = _activate(start + move, levels, at[0]).view(-1, chunk.shape[1])  # (rows × pairs, out)
            minus = _activate(start - move, levels, at[0]).view(-1, chunk.shape[1])
            f_plus, f_minus = (
                _outputs(a, behind, levels, at[1:]).view(-1, len(chunk)) for a in (plus, minus)
            )
            change = (f_plus - f_minus) * ((f_plus + f_minus) / 2 - goal[part].unsqueeze(1))
            sums[pairs : pairs + _PAIRS] += change.sum(0, dtype=torch.float64)
    return sums


def _scaled(offsets: Sequence[Tensor], levels: int | None, dtype: torch.dtype) -> list[list[Tensor] | None]:
    """The learned thresholds of each layer in units of one level's height."""
    assert levels is not None
    return [
        [(t * (levels - 1)).to(dtype) for t in thresholds_of(own.reshape(-1), levels, 2)] for own in offsets
    ]


def _outputs(
    a: Tensor, behind: list[Tensor], levels: int | None, at: Sequence[list[Tensor] | None]
) -> Tensor:
    """The network's output (R,) from a hidden layer's activations (R, width)."""
    for weight, own in zip(behind[:-1], at, strict=True):
        a = _activate(a @ weight, levels, own)
    return (a @ behind[-1]).squeeze(1)


def _activate(z: Tensor, levels: int | None, at: list[Tensor] | None = None) -> Tensor:
    """f(z) in units of one level's height, overwriting z: rounding, whose cost does not grow with the levels.

    It equals comparing with each threshold but for z within rounding of one. Thresholds that were learned (`at`) are
    compared with one by one.

    >>> _activate(torch.tensor([-1.0, 0.4, 0.5, 1.4, 1.5, 9.0]), levels=3).tolist()
    [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    """
    if levels is None:
        return z.relu_()
    if at is not None:
        return staircase(z, levels, at).mul_(levels - 1)
    if levels == 2:
        return torch.ge(z, 0.5, out=z)
    return z.add_(0.5).floor_().clamp_(0, levels - 1)


def combine(differences: Tensor, noise: Tensor, sigma: float, samples: int) -> Tensor:
    """The estimate (out, in) from the summed loss differences (N,) and their directions."""
    return torch.einsum("n,noi->oi", differences / samples, noise) / (2 * sigma * len(noise))


def linear_estimate(gradient: Tensor, noise: Tensor) -> Tensor:
    """The estimate where the loss is quadratic in the layer, as in the output layer: exactly
    1/N Σ ⟨gradient, E_i⟩ E_i, for any σ, because the even terms cancel."""
    along = torch.einsum("noi,oi->n", noise, gradient)
    return torch.einsum("n,noi->oi", along, noise) / len(noise)


def expected_cosine(samples: int, parameters: int) -> float:
    """√(N/(N+d+1)): ESG's cosine with the true gradient, to be expected of N pairs where the loss is linear.

    >>> round(expected_cosine(1024, 1024), 3)
    0.707
    """
    return float((samples / (samples + parameters + 1)) ** 0.5)
