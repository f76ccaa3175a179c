"""Fast CDG of a full-precision (ReLU) network.

Moving pre-activation z_j by δ = ±step·x_k makes the output a continuous, piecewise linear function of δ.
For most (sample, j) no unit, z_j and everything behind it, can reach its kink at zero within
reach = step·max_k |x_k|; the contribution to the CDG is then exactly that to the gradient. Elsewhere

1. candidates are found from a bound: |z_l| <= reach · B_lj, where B is the product of the absolute
   weights on the way from unit j to unit l (ReLU never stretches a change);
2. for each candidate and both directions the output is followed from kink to kink: values and slopes of all
   units behind j are known on a segment, the next kink is the first zero, there the slopes are computed
   anew; most have one kink, so that a few rounds are enough;
3. from these segments the output is known at every δ = ±step·x_k, for all k together.
"""

import torch
from torch import Tensor

from binaryduo.errors import BinaryDuoError
from binaryduo.mismatch.network import Trace

_SLACK = 1 + 1e-9
_MOST_KINKS = 1_000_000  # on one walk: they can double with every layer
_CHUNK = 8192  # candidates at a time: a few megabytes for each layer behind


def layer_sum(
    trace: Trace, residual: Tensor, delta: Tensor, weights: list[Tensor], layer: int, step: float
) -> Tensor:
    """Σ_samples ℓ(W + step·e) - ℓ(W - step·e) for every entry of hidden layer `layer`: (out, in).

    `residual` (B,) is F - F*, `delta` (B, out) the layer's sensitivities (residual * dF/dz).
    """
    x = trace.inputs[layer]
    reach = step * x.abs().amax(1, keepdim=True)
    candidates = _candidates(trace, weights, layer, reach).nonzero()
    delta = delta.clone()
    sums = torch.zeros_like(weights[layer])
    for sample, unit in (part.unbind(1) for part in torch.split(candidates, _CHUNK)):
        near = _kink_in_reach(trace, weights, layer, sample, unit, reach)
        sample, unit = sample[near], unit[near]
        kinks = _follow(trace, weights, layer, sample, unit, reach)
        delta[sample, unit] = 0  # these are added here instead
        up, down = kinks.changes(step * x[sample].abs())
        change = (up - down) * (residual[sample].unsqueeze(1) + (up + down) / 2) * x[sample].sign()
        chooser = torch.zeros(len(sums), len(unit), dtype=x.dtype, device=x.device)
        chooser[unit, torch.arange(len(unit), device=x.device)] = 1
        sums += chooser @ change
    return sums + 2 * step * (delta.T @ x)


def _candidates(trace: Trace, weights: list[Tensor], layer: int, reach: Tensor) -> Tensor:
    """(B, width) booleans: units from which some kink may be in reach."""
    z = trace.pre[layer]
    reach = reach * _SLACK
    found = z.abs() <= reach
    bound = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    for weight, behind in zip(weights[layer + 1 : -1], trace.pre[layer + 1 :], strict=True):
        bound = weight.abs() @ bound  # (width of the layer behind, width)
        sample, unit = (behind.abs() <= reach * (bound.amax(1) * _SLACK)).nonzero(as_tuple=True)
        hit = behind[sample, unit].abs().unsqueeze(1) <= reach[sample] * (bound[unit] * _SLACK)
        count = torch.zeros_like(z).index_add_(0, sample, hit.to(z.dtype))
        found |= count > 0
    return found & (z >= -reach)  # a unit that stays off changes nothing


def _kink_in_reach(
    trace: Trace, weights: list[Tensor], layer: int, sample: Tensor, unit: Tensor, reach: Tensor
) -> Tensor:
    """(P,) booleans: whether the unit itself or any behind it, moving at its present slope, meets zero."""
    own, far = trace.pre[layer][sample, unit], reach[sample] * _SLACK
    values = [z[sample] for z in trace.pre[layer + 1 :]]
    entry = weights[layer + 1].T[unit]
    slopes, _ = _slopes(own, torch.ones_like(own), entry, values, weights[layer + 1 : -1], weights[-1])
    found = own.abs() <= far.squeeze(1)
    for z, slope in zip(values, slopes, strict=True):
        found |= (z.abs() <= far * slope.abs()).any(1)
    return found


class _Segments:
    """The output's change along both directions of P candidates, as a first slope and later kinks.

    U(τ) = slope·τ + Σ_kinks turn·max(0, τ - at), for the walk z_j ± τ, τ >= 0. Row p is the walk upward of
    candidate p, row P + p the one downward.
    """

    def __init__(self, slope: Tensor) -> None:
        self.slope = slope  # (2P,)
        self.rows: list[Tensor] = []
        self.at: list[Tensor] = []
        self.turn: list[Tensor] = []

    def add(self, rows: Tensor, at: Tensor, turn: Tensor) -> None:
        self.rows.append(rows)
        self.at.append(at)
        self.turn.append(turn)

    def changes(self, distance: Tensor) -> tuple[Tensor, Tensor]:
        """U upward and U downward at the distances (P, in): two tensors of that shape."""
        count = len(distance)
        u = torch.cat([distance, distance]) * self.slope.unsqueeze(1)
        for rows, at, turn in zip(self.rows, self.at, self.turn, strict=True):
            beyond = (distance[rows % count] - at.unsqueeze(1)).clamp_(min=0)
            u.index_add_(0, rows, beyond.mul_(turn.unsqueeze(1)))
        return u[:count], u[count:]


def _follow(
    trace: Trace, weights: list[Tensor], layer: int, sample: Tensor, unit: Tensor, reach: Tensor
) -> _Segments:
    """Follow the output from kink to kink, up and down from z_j, as far as `reach`."""
    behind = weights[layer + 1 : -1]
    row = torch.arange(2 * len(sample), device=sample.device)
    sample, unit = sample.repeat(2), unit.repeat(2)
    own = trace.pre[layer][sample, unit]
    way = torch.ones_like(own)
    way[len(way) // 2 :] = -1
    entry = weights[layer + 1].T[unit]  # (2P, width of the next layer, or 1)
    values = [z[sample] for z in trace.pre[layer + 1 :]]
    at = torch.zeros_like(own)
    end = reach[sample].squeeze(1)
    segments: _Segments | None = None
    slope_before = torch.empty(0)
    for _ in range(_MOST_KINKS):
        slopes, slope = _slopes(own, way, entry, values, behind, weights[-1])
        if segments is None:
            segments = _Segments(slope)
        else:
            segments.add(row, at, slope - slope_before)
        # Where is the next zero on this segment? Only a unit that moves towards zero has one.
        first = torch.where(own * way < 0, own.abs(), torch.inf)
        for z, s in zip(values, slopes, strict=True):
            time = torch.where(z * s < 0, -z / s, torch.inf)
            first = torch.minimum(first, time.amin(1))
        go = (at + first < end).nonzero().squeeze(1)
        if len(go) == 0:
            return segments
        advance = first[go]
        own = _advance(own[go], way[go], advance)
        values = [_advance(z[go], s[go], advance.unsqueeze(1)) for z, s in zip(values, slopes, strict=True)]
        row, way, entry, end, slope_before = row[go], way[go], entry[go], end[go], slope[go]
        at = at[go] + advance
    raise BinaryDuoError("the fast full-precision CDG did not finish: please report this as a bug")


def _slopes(
    own: Tensor, way: Tensor, entry: Tensor, values: list[Tensor], behind: list[Tensor], out: Tensor
) -> tuple[list[Tensor], Tensor]:
    """How fast every unit behind, and the output, change per unit of the walk, just after this point."""
    moving = torch.where((own > 0) | ((own == 0) & (way > 0)), way, torch.zeros_like(way)).unsqueeze(1)
    slope = moving * entry
    slopes = []
    for i, z in enumerate(values):
        slopes.append(slope)
        through = torch.where((z > 0) | ((z == 0) & (slope > 0)), slope, torch.zeros_like(slope))
        slope = through @ (behind[i + 1] if i + 1 < len(behind) else out).T
    return slopes, slope.squeeze(1)


def _advance(z: Tensor, slope: Tensor, time: Tensor) -> Tensor:
    """z + slope·time, where a unit whose zero is at that time is put exactly there."""
    return torch.where((z * slope < 0) & (-z / slope <= time), torch.zeros_like(z), z + slope * time)
