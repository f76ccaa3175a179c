"""A second look at the mismatch: differences of the loss along random directions, two forward passes each.

The CDG moves one weight at a time; here all weights of a layer move together, along directions v drawn from a normal
distribution, as FOGZO does (arXiv 2510.23926). With G the gradient of the smoothed loss and g the coarse one,
d = (L(w + σv) - L(w - σv)) / 2σ estimates ⟨G, v⟩, and c = ⟨g, v⟩ is known. Over directions E[dc] = ⟨G, g⟩,
E[d²] = |G|² and E[c²] = |g|², so that the correlation of d and c estimates their cosine.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from binaryduo.mismatch.parallel import generator
from binaryduo.mismatch.perturbation import effective_weight

SHARE = 0.1  # σ, as a share of the root mean square of the layer's weights


@dataclass(frozen=True)
class DirectionalCosine:
    """The estimate from some directions, its variance, and its 95 % interval."""

    cosine: float
    variance: float
    interval: tuple[float, float]


def from_projections(coarse: Tensor, differences: Tensor) -> DirectionalCosine:
    """The cosine from c and d of K directions, (K,) each; interval and variance by Fisher's transform.

    >>> from_projections(torch.tensor([1.0, 2.0, -1.0, 0.5]), torch.tensor([2.0, 4.0, -2.0, 1.0])).cosine
    1.0
    """
    count = len(coarse)
    size = float(coarse.norm() * differences.norm())
    cosine = float(coarse @ differences) / size if size else math.nan
    cosine = max(-1.0, min(1.0, cosine))
    variance = (1 - cosine * cosine) ** 2 / max(1, count - 1)
    if math.isnan(cosine) or count < 4:
        return DirectionalCosine(cosine, variance, (-1.0, 1.0))
    middle = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, cosine)))
    half = 1.96 / math.sqrt(count - 2)  # the means are known to be zero
    return DirectionalCosine(cosine, variance, (math.tanh(middle - half), math.tanh(middle + half)))


@torch.no_grad()
def project(
    net: nn.Module, name: str, coarse: Tensor, losses: "Losses", count: int, seed: int
) -> DirectionalCosine:
    """The directional cosine of one layer; `losses(net)` is the loss of the network as it stands, in float64."""
    module = net.get_submodule(name)
    weight = effective_weight(module)
    sigma = SHARE * math.sqrt(float(weight.double().square().mean())) or SHARE
    draw = generator(seed, 1)
    c, d = [], []
    for _ in range(count):
        v = torch.randn(weight.shape, generator=draw).to(weight)
        c.append(float((coarse * v.double()).sum()))
        found = []
        for sign in (sigma, -sigma):
            hook = module.register_forward_hook(
                lambda m, args, out, s=sign, v=v: out + s * _response(m, args[0], v)
            )
            try:
                found.append(losses(net))
            finally:
                hook.remove()
        d.append((found[0] - found[1]) / (2 * sigma))
    return from_projections(torch.tensor(c, dtype=torch.float64), torch.tensor(d, dtype=torch.float64))


def _response(module: nn.Module, x: Tensor, v: Tensor) -> Tensor:
    """What a layer with the weights v makes of x, without its bias."""
    if isinstance(module, nn.Linear):
        return F.linear(x, v)
    out: Tensor = module._conv_forward(x, v, None)  # type: ignore[operator]
    return out


class Losses:
    """The loss of a network on fixed inputs, in float64."""

    def __init__(self, loss: "object", inputs: Tensor, targets: Tensor) -> None:
        self.loss, self.inputs, self.targets = loss, inputs, targets

    def __call__(self, net: nn.Module) -> float:
        return float(self.loss(net(self.inputs.clone()).double(), self.targets))  # type: ignore[operator]
