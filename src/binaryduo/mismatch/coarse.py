"""The coarse gradient: what back-propagation through an STE returns; for full precision the gradient itself.

Paper: Section 3.2, Algorithm 1.
"""

from torch import Tensor

from binaryduo import ste as stes
from binaryduo.mismatch.network import LayerOffsets, Trace, each_layer
from binaryduo.nn.intervals import to_unit
from binaryduo.ste import STE


def sensitivities(
    trace: Trace,
    residual: Tensor,
    weights: list[Tensor],
    levels: int | None,
    ste: "str | STE",
    offsets: LayerOffsets = None,
) -> list[Tensor]:
    """residual * dF/dz for every layer, by back-propagation: (B, out) each, the output's (B, 1) last.

    Layer i's gradient is sensitivities[i].T @ trace.inputs[i] / n. With `offsets` the STE is taken on the scale of the
    learned thresholds.
    """
    out = [residual.unsqueeze(1)]
    learned = each_layer(offsets, len(trace.pre))
    for z, weight, offset in zip(reversed(trace.pre), reversed(weights[1:]), reversed(learned), strict=True):
        back = (weight.T @ out[0].T).T
        out.insert(0, back * _slope(z, levels, ste, offset))
    return out


def _slope(z: Tensor, levels: int | None, ste: "str | STE", offset: Tensor | None) -> Tensor:
    """The derivative that back-propagation takes for the activation's at z."""
    if levels is None:
        return (z > 0).to(z.dtype)
    if offset is None:
        return stes.derivative(ste, z, levels)
    u, scale, _, _ = to_unit(z, offset.reshape(-1), levels)
    return scale * stes.derivative(ste, u, levels)


def gradient_sums(trace: Trace, deltas: list[Tensor]) -> list[Tensor]:
    """Each layer's gradient (out, in), summed over the samples of a forward pass, not divided by n."""
    return [delta.T @ x for delta, x in zip(deltas, trace.inputs, strict=True)]
