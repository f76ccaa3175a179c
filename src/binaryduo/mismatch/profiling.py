"""The profiler: how far is the coarse gradient from the CDG in each layer of a real network?

Paper: Section 4, carried from the toy problem to any network.
"""

import time
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from binaryduo.errors import ArgumentError
from binaryduo.mismatch.automatic_step import choose_step
from binaryduo.mismatch.parallel import OnProgress, generator
from binaryduo.mismatch.perturbation import draw_coordinates, effective_weight, kind_of_weights
from binaryduo.mismatch.prepared import Loss, Prepared, check_counts, chosen_stes, prepare, set_ste
from binaryduo.mismatch.profile_result import LayerCost, LayerProfile, Profile
from binaryduo.mismatch.similarity import direction_cosine
from binaryduo.ste import STE


def profile(
    model: nn.Module,
    loss_fn: Loss,
    inputs: Tensor,
    targets: Tensor,
    step: "float | Literal['auto']" = 1e-3,
    coordinates: int = 256,
    seed: int = 0,
    *,
    ste: "str | STE | None" = None,
    layers: Sequence[str] | None = None,
    batch_size: int = 100,
    progress: OnProgress | None = None,
) -> Profile:
    """The cosine between coarse gradient and CDG for each dense or convolution layer of any network.

    In each layer `coordinates` weights are drawn at random (all, if it has no more). The model is copied,
    held in evaluation mode and left as it was. `loss_fn(outputs, targets)` returns a scalar; it is given
    float64 outputs for all samples at once, several outputs as the model returns them. `step` is CDG's ε, the same
    number in every layer; "auto" chooses one for each layer from its weights and the data, so that layers, and
    networks of other scales, can be compared. `ste` replaces the network's own STEs in the backward pass; `layers`
    chooses layers by their qualified names.

    >>> from binaryduo.nn import QuantAct
    >>> net = nn.Sequential(nn.Linear(4, 8), QuantAct(levels=2), nn.Linear(8, 1))
    >>> x, y = torch.randn(500, 4), torch.randn(500, 1)
    >>> [layer.name for layer in profile(net, nn.functional.mse_loss, x, y, step=0.01).layers]
    ['0', '2']
    """
    chosen = [] if ste is None else [ste]
    (result,) = compare_stes(
        model,
        loss_fn,
        inputs,
        targets,
        chosen,
        step,
        coordinates,
        seed,
        layers=layers,
        batch_size=batch_size,
        progress=progress,
    )
    return result


def compare_stes(
    model: nn.Module,
    loss_fn: Loss,
    inputs: Tensor,
    targets: Tensor,
    stes_: "Sequence[str | STE]",
    step: "float | Literal['auto']" = 1e-3,
    coordinates: int = 256,
    seed: int = 0,
    *,
    layers: Sequence[str] | None = None,
    batch_size: int = 100,
    progress: OnProgress | None = None,
) -> list[Profile]:
    """One profile for each STE: "is mine better?" The CDG knows no STE and is computed once for all.

    An empty list profiles the network with the STEs it has.
    """
    if step != "auto" and not (isinstance(step, int | float) and 0 < step < float("inf")):
        raise ArgumentError(f"step must be a positive number or 'auto', not {step!r}")
    check_counts(coordinates=coordinates)
    chosen = chosen_stes(stes_)
    given = prepare(model, loss_fn, inputs, targets, layers, batch_size, stacklevel=5)
    return profiles_of(given, chosen, step, coordinates, seed, progress)


def profiles_of(
    given: Prepared,
    chosen: "Sequence[STE | None]",
    step: "float | Literal['auto']",
    coordinates: int,
    seed: int,
    progress: OnProgress | None = None,
) -> list[Profile]:
    """One profile for each STE, None being those that the network has."""
    net, names, evaluator, samples = given.net, given.names, given.evaluator, given.samples
    drawn, found, costs, taken = {}, {}, {}, {}
    for number, name in enumerate(names):
        started = time.perf_counter()
        weight = effective_weight(net.get_submodule(name))
        drawn[name] = at = draw_coordinates(weight, coordinates, generator(seed, number))
        if step == "auto":
            own = choose_step(evaluator, name, weight, at, samples)
        else:
            own = float(step)
        taken[name] = own
        steps = [sign * own for sign in (1, -1) for _ in at]
        losses, evaluated = evaluator.losses(name, [*at, *at], steps, samples)
        found[name] = (losses[: len(at)] - losses[len(at) :]) / (2 * own)
        seconds = time.perf_counter() - started
        costs[name] = LayerCost(
            seconds, evaluated, 2 * len(at) * len(samples.inputs), seconds / given.pass_seconds
        )
        if progress is not None:
            progress(number + 1, len(names))
    profiles = []
    for ste in chosen:
        label = set_ste(net, ste)
        coarse = given.coarse()
        results = []
        for name in names:
            index = tuple(torch.tensor([c.index for c in drawn[name]]).T)
            there = coarse[name][index].double().cpu()
            cosine = direction_cosine(there, found[name])
            whole = len(drawn[name]) == coarse[name].numel()
            interval = (cosine, cosine) if whole else _bootstrap(there, found[name], seed)
            results.append(
                LayerProfile(
                    name,
                    cosine,
                    interval,
                    [c.index for c in drawn[name]],
                    coarse[name].numel(),
                    kind_of_weights(net.get_submodule(name)),
                    costs[name],
                    found[name],
                    there,
                    taken[name],
                )
            )
        seconds = time.perf_counter() - given.began
        profiles.append(
            Profile(
                results,
                _total(results),
                given.loss,
                step,
                label,
                len(samples.inputs),
                evaluator.method,
                seconds,
                given.pass_seconds,
                given.left_out,
            )
        )
    return profiles


def _bootstrap(a: Tensor, b: Tensor, seed: int, draws: int = 1000) -> tuple[float, float]:
    """The middle 95 % of the cosines of resampled coordinates."""
    pick = torch.randint(len(a), (draws, len(a)), generator=generator(seed, -1))
    x, y = a[pick], b[pick]
    cosines = (x * y).sum(1) / (x.norm(dim=1) * y.norm(dim=1))
    cosines = cosines[cosines.isfinite()]
    if len(cosines) == 0:
        return float("nan"), float("nan")
    low, high = torch.quantile(cosines, torch.tensor([0.025, 0.975], dtype=cosines.dtype)).tolist()
    return low, high


def _total(layers: list[LayerProfile]) -> float:
    """The cosine over all layers: each layer's sample stands for all of its weights."""
    scale = [(layer.parameters / len(layer.coordinates)) ** 0.5 for layer in layers]
    a = torch.cat([layer.coarse * s for layer, s in zip(layers, scale, strict=True)])
    b = torch.cat([layer.cdg * s for layer, s in zip(layers, scale, strict=True)])
    return direction_cosine(a, b)
