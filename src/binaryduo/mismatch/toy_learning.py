"""The toy problem's evaluating network as a module, and what learning its thresholds makes of it.

Paper: Appendix G, asked on Algorithm 1's networks.
"""

import copy
import math

import torch
from torch import Tensor, nn

from binaryduo.errors import ArgumentError
from binaryduo.mismatch.network import forward
from binaryduo.mismatch.parallel import generator
from binaryduo.mismatch.toy import ToyProblem
from binaryduo.nn.activation import QuantAct

_STREAM = 4  # of random numbers: the samples that are learned from are none of the problem's own


def as_module(problem: ToyProblem) -> nn.Sequential:
    """The evaluating network, layer by layer, in float64: (B, width) in, (B, 1) out.

    >>> problem = ToyProblem(width=4, hidden_layers=2, samples=100, levels=3, interval="channel")
    >>> net = as_module(problem)
    >>> loss = (net(problem.inputs.T).squeeze(1) - problem.targets).square().mean() / 2
    >>> abs(float(loss.detach()) - problem.loss()) < 1e-12
    True
    """
    parts: list[nn.Module] = []
    for name, weight in problem.weights.items():
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.float64)
        layer.weight.data.copy_(weight)
        parts.append(layer)
        if name in problem.layers[:-1]:
            act = QuantAct(problem.levels, problem.ste, interval=problem.interval, channels=problem.width)
            if problem.interval is not None:
                assert act.offsets is not None
                act.offsets.data = problem.offsets[name].double().reshape(-1).clone()
            parts.append(act)
    return nn.Sequential(*parts).to(problem.device)


def learn(
    problem: ToyProblem,
    steps: int = 500,
    lr: float = 1e-2,
    batch: int = 4096,
    weights: bool = True,
    thresholds: bool = True,
) -> ToyProblem:
    """The same problem with an evaluating network that was trained on it: its weights, its thresholds, or both.

    Adam at a rate that falls from `lr` to 0 along half a cosine, on fresh samples, through the problem's STE. The
    problem that is given stays as it was.

    >>> problem = ToyProblem(width=4, hidden_layers=2, samples=1000, levels=3, interval="layer")
    >>> moved = learn(problem, steps=20, batch=64, weights=False)
    >>> bool(moved.weights["fc1"].equal(problem.weights["fc1"])), bool((moved.offsets["fc1"] != 0).any())
    (True, True)
    """
    if thresholds and problem.interval is None and not weights:
        raise ArgumentError("a toy problem with fixed thresholds has none to learn: give it interval=")
    net = as_module(problem).train()
    chosen = [
        parameter
        for name, parameter in net.named_parameters()
        if (thresholds if name.endswith("offsets") else weights)
    ]
    optimizer = torch.optim.Adam(chosen, lr)
    goal = [problem.target_weights[name].double() for name in problem.layers]
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = lr * (1 + math.cos(math.pi * step / steps)) / 2
        x = _samples(problem, batch, step)
        target = forward(x, goal, problem.levels).output
        loss = (net(x).squeeze(1) - target).square().mean() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return _with(problem, net)


def _samples(problem: ToyProblem, count: int, step: int) -> Tensor:
    random = generator(problem.seed, _STREAM, step)
    return torch.randn(count, problem.width, generator=random).to(problem.device).double()


def _with(problem: ToyProblem, net: nn.Sequential) -> ToyProblem:
    """A copy of the problem whose evaluating network is this one; data and targets are shared."""
    out = copy.copy(problem)
    layers = [module for module in net if isinstance(module, nn.Linear)]
    out.weights = {
        name: layer.weight.detach().clone() for name, layer in zip(problem.layers, layers, strict=True)
    }
    if problem.interval is not None:
        with torch.no_grad():
            net(_samples(problem, 1, 0))  # keeps the thresholds apart after the last step too
        acts = [module for module in net if isinstance(module, QuantAct)]
        out.offsets = {
            name: act.offsets.detach().view_as(problem.offsets[name]).clone()  # type: ignore[union-attr]
            for name, act in zip(problem.layers, acts, strict=False)
        }
    return out
