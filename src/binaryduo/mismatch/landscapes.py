"""The loss of the toy problem as one or two of its weights move: what CDG's secants lie on.

Paper: Appendix B and the loss curves of Appendix C.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from binaryduo.errors import ArgumentError
from binaryduo.mismatch.network import Trace, activate, outputs_from
from binaryduo.mismatch.parallel import OnProgress
from binaryduo.mismatch.toy import ToyProblem

Entry = tuple[int, int]


def loss_surface(
    problem: ToyProblem,
    layer: str,
    entries: Sequence[Entry],
    offsets: Sequence[Sequence[float]],
    progress: OnProgress | None = None,
) -> Tensor:
    """The loss where `entries` of a hidden layer's weight move together by each row of `offsets`: (K,).

    Only samples with a unit that changes its value are evaluated anew.

    >>> problem = ToyProblem(width=4, hidden_layers=2, samples=500)
    >>> losses = loss_surface(problem, "fc1", [(0, 0), (1, 2)], [[0.0, 0.0], [0.1, -0.1]])
    >>> abs(float(losses[0]) - problem.loss()) < 1e-12
    True
    """
    if layer not in problem.layers[:-1]:
        raise ArgumentError(
            f"no hidden layer is called {layer!r}: there are {', '.join(problem.layers[:-1])}"
        )
    index = problem.layers.index(layer)
    weights, learned = problem.layer_weights(), problem.layer_offsets()

    def work(trace: Trace, targets: Tensor) -> list[Tensor]:
        residual = trace.output - targets
        x, z, a = trace.inputs[index], trace.pre[index], trace.inputs[index + 1]
        units = sorted({j for j, _ in entries})
        sums = []
        for row in offsets:
            moved = z[:, units]
            for (j, k), offset in zip(entries, row, strict=True):
                moved[:, units.index(j)] += offset * x[:, k]
            at = None if learned is None else learned[index].expand(-1, problem.width)[:, units]
            changed = (activate(moved, problem.levels, at) != a[:, units]).any(1).nonzero().squeeze(1)
            full = z[changed]
            full[:, units] = moved[changed]
            behind = None if learned is None else learned[index:]
            outputs = outputs_from(full, weights[index + 1 :], problem.levels, behind)
            change = outputs - trace.output[changed]
            sums.append((change * (residual[changed] + change / 2)).sum())
        return [torch.stack(sums)]

    (total,) = problem.sums(work, progress)
    return problem.loss() + total / problem.samples


def loss_curve(
    problem: ToyProblem,
    layer: str,
    entry: Entry,
    offsets: Sequence[float],
    progress: OnProgress | None = None,
) -> Tensor:
    """The loss as one weight moves by each of the offsets: (K,).

    >>> problem = ToyProblem(width=4, hidden_layers=2, samples=500)
    >>> up, down = loss_curve(problem, "fc2", (1, 3), [0.05, -0.05])
    >>> bool(((up - down) / 0.1 - problem.cdg(0.05)["fc2"][1, 3]).abs() < 1e-12)
    True
    """
    return loss_surface(problem, layer, [entry], [[offset] for offset in offsets], progress)


def loss_panels(
    few: int = 1_000,
    many: int = 1_000_000,
    levels: int | None = 2,
    layer: str = "fc2",
    entry: Entry = (0, 0),
    steps: tuple[float, float] = (1e-2, 1e-3),
    points: int = 201,
    seed: int = 0,
    width: int = 32,
    init: str = "he",
    progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """Appendix C's four panels: few and many samples, a large and a small step, along one weight.

    Each has "title", "samples", "offsets", "losses", "step" and "ends", the losses at -step and +step.

    >>> [panel["title"] for panel in loss_panels(50, 100, points=3, width=4)][:2]
    ['50 samples, ε = 0.01', '50 samples, ε = 0.001']
    """
    out = []
    for samples in (few, many):
        problem = ToyProblem(width, 3, samples, levels, seed=seed, init=init)
        for step in steps:
            offsets = torch.linspace(-2 * step, 2 * step, points, dtype=torch.float64).tolist()
            losses = loss_curve(problem, layer, entry, [*offsets, -step, step], progress).tolist()
            out.append(
                {
                    "title": f"{samples:,} samples, ε = {step:g}",
                    "samples": samples,
                    "offsets": offsets,
                    "losses": losses[:-2],
                    "step": step,
                    "ends": losses[-2:],
                }
            )
    return out


def surface_panel(
    samples: int = 2_000,
    levels: int | None = 2,
    layer: str = "fc2",
    entries: tuple[Entry, Entry] = ((0, 0), (2, 5)),
    step: float = 0.05,
    points: int = 61,
    seed: int = 0,
    width: int = 32,
    init: str = "he",
    progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Appendix B's picture: the loss over two weights within ±2 step, and the true gradient there.

    >>> panel = surface_panel(100, points=5, width=6)
    >>> len(panel["losses"]), panel["gradient"]
    (5, (0.0, 0.0))
    """
    problem = ToyProblem(width, 3, samples, levels, seed=seed, init=init)
    if points % 4 != 1:
        raise ArgumentError(
            f"points must be 1 more than a multiple of 4, so that ±step are on the grid, not {points}"
        )
    grid = torch.linspace(-2 * step, 2 * step, points, dtype=torch.float64).tolist()
    offsets = [[a, b] for a in grid for b in grid]
    losses = loss_surface(problem, layer, entries, offsets, progress).view(points, points)
    # The loss of a quantized network is constant around almost every point.
    gradient = (0.0, 0.0)
    if levels is None:
        true = problem.coarse_gradient()[layer]
        gradient = (float(true[entries[0]]), float(true[entries[1]]))
    return {"first": grid, "second": grid, "losses": losses.tolist(), "step": step, "gradient": gradient}
