"""The coarse gradient: what back-propagation through an STE returns; for full precision the gradient itself.

Paper: Section 3.2, Algorithm 1.
"""

from torch import Tensor

from binaryduo import ste as stes
from binaryduo.mismatch.network import Trace
from binaryduo.ste import STE


def sensitivities(
    trace: Trace, residual: Tensor, weights: list[Tensor], levels: int | None, ste: "str | STE"
) -> list[Tensor]:
    """residual * dF/dz for every layer, by back-propagation: (B, out) each, the output's (B, 1) last.

    Layer i's gradient is sensitivities[i].T @ trace.inputs[i] / n.
    """
    out = [residual.unsqueeze(1)]
    for z, weight in zip(reversed(trace.pre), reversed(weights[1:]), strict=True):
        back = (weight.T @ out[0].T).T
        slope = (z > 0).to(z.dtype) if levels is None else stes.derivative(ste, z, levels)
        out.insert(0, back * slope)
    return out


def gradient_sums(trace: Trace, deltas: list[Tensor]) -> list[Tensor]:
    """Each layer's gradient (out, in), summed over the samples of a forward pass, not divided by n."""
    return [delta.T @ x for delta, x in zip(deltas, trace.inputs, strict=True)]
