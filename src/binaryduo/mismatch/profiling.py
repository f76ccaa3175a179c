"""The profiler: how far is the coarse gradient from the CDG in each layer of a real network?

Paper: Section 4, carried from the toy problem to any network.
"""

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from binaryduo import ste as stes
from binaryduo.errors import ArgumentError
from binaryduo.graph.tracing import copied
from binaryduo.mismatch.automatic_step import choose_step
from binaryduo.mismatch.evaluators import Evaluator, Samples, SuffixEvaluator, WholeEvaluator, disagreement
from binaryduo.mismatch.outputs import flat, loss_of_flat
from binaryduo.mismatch.parallel import OnProgress, generator
from binaryduo.mismatch.perturbation import draw_coordinates, effective_weight, is_weighted
from binaryduo.mismatch.profile_result import LayerCost, LayerProfile, Profile
from binaryduo.mismatch.similarity import direction_cosine
from binaryduo.nn import QuantAct, is_binary_weight
from binaryduo.ste import STE

Loss = Callable[[Any, Tensor], Tensor]


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
    _check(model, inputs, targets, step, coordinates, batch_size)
    chosen: list[STE | None] = [stes.get(ste) for ste in ([stes_] if isinstance(stes_, str) else stes_)] or [
        None
    ]
    net = copied(model).eval()
    names = _choose_layers(net, layers)
    goal = targets.double() if targets.is_floating_point() else targets
    begin = time.perf_counter()
    clean, example, called = _outputs(net, inputs, batch_size)
    pass_seconds = time.perf_counter() - begin
    loss = loss_of_flat(_double(loss_fn), example)
    left_out = () if layers is not None else tuple(name for name in names if name not in called)
    names = [name for name in names if name not in left_out]
    value, slope = _loss_and_slope(loss, clean, goal)
    evaluator: Evaluator = _evaluator(net, names, inputs)
    samples = Samples(inputs, goal, clean, loss, batch_size)
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
        costs[name] = LayerCost(seconds, evaluated, 2 * len(at) * len(inputs), seconds / pass_seconds)
        if progress is not None:
            progress(number + 1, len(names))
    profiles = []
    for ste in chosen:
        label = _set_ste(net, ste)
        coarse = _coarse(net, names, inputs, slope, batch_size)
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
                    "effective" if is_binary_weight(net.get_submodule(name)) else "latent",
                    costs[name],
                    found[name],
                    there,
                    taken[name],
                )
            )
        seconds = time.perf_counter() - begin
        profiles.append(
            Profile(
                results,
                _total(results),
                value,
                step,
                label,
                len(inputs),
                evaluator.method,
                seconds,
                pass_seconds,
                left_out,
            )
        )
    return profiles


def _check(
    model: nn.Module, inputs: Tensor, targets: Tensor, step: object, coordinates: int, batch_size: int
) -> None:
    if step != "auto" and not (isinstance(step, int | float) and 0 < step < float("inf")):
        raise ArgumentError(f"step must be a positive number or 'auto', not {step!r}")
    for name, value in (("coordinates", coordinates), ("batch_size", batch_size)):
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"{name} must be a whole number from 1, not {value!r}")
    if not any(isinstance(m, QuantAct) for m in model.modules()):
        raise ArgumentError(
            "the model has no quantized layer, so that there is no gradient mismatch to measure: "
            "use binaryduo.nn.QuantAct as its activation"
        )
    for name, tensor in (("inputs", inputs), ("targets", targets)):
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"{name} must be a torch tensor, not {type(tensor).__name__}")
    if len(inputs) == 0 or len(inputs) != len(targets):
        raise ArgumentError(
            f"there are {len(inputs)} inputs and {len(targets)} targets: give one target an input"
        )
    for name, tensor in (("inputs", inputs), ("targets", targets)):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ArgumentError(f"the {name} contain NaN or infinity: clean the data first")


def _choose_layers(net: nn.Module, layers: Sequence[str] | None) -> list[str]:
    known = [name for name, module in net.named_modules() if is_weighted(module)]
    unknown = [name for name in layers or [] if name not in known]
    if unknown or not known:
        raise ArgumentError(
            f"no dense or convolution layer is called {unknown[0]!r}: there are {', '.join(known)}"
            if unknown
            else "the model has no dense or convolution layer to profile"
        )
    names = known if layers is None else [name for name in known if name in set(layers)]
    if not names:
        raise ArgumentError(f"`layers` is empty: name some of {', '.join(known)}, or leave it out")
    users: dict[int, list[str]] = {}
    for name, module in net.named_modules(remove_duplicate=False):
        for parameter in module.parameters(recurse=False):
            users.setdefault(id(parameter), []).append(name)
    for name in names:
        weight = net.get_submodule(name)._parameters.get("weight")
        others = [other for other in users.get(id(weight), []) if other != name]
        if weight is None or others:
            why = (
                f"it shares its weight with {others[0]!r}"
                if others
                else "its weight is computed from other parameters"
            )
            raise ArgumentError(
                f"layer {name!r} cannot be profiled: {why}. Leave it out by listing the others in `layers`"
            )
    return names


def _double(loss_fn: Loss) -> Loss:
    return copy.deepcopy(loss_fn).double() if isinstance(loss_fn, nn.Module) else loss_fn


@torch.no_grad()
def _outputs(net: nn.Module, inputs: Tensor, batch_size: int) -> tuple[Tensor, Any, set[str]]:
    """The outputs as one tensor, those of the first batch as they are, and the layers that were called."""
    called: set[str] = set()
    handles = [
        module.register_forward_hook(lambda *_, name=name: called.add(name))
        for name, module in net.named_modules()
        if is_weighted(module)
    ]
    parts = [net(batch.clone()) for batch in torch.split(inputs, batch_size)]  # a model may change its input
    for handle in handles:
        handle.remove()
    return torch.cat([flat(part) for part in parts]), parts[0], called


def _loss_and_slope(loss: Loss, outputs: Tensor, targets: Tensor) -> tuple[float, Tensor]:
    """The loss, and its derivative by the outputs: what back-propagation starts from."""
    leaf = outputs.detach().clone().double().requires_grad_()
    with torch.enable_grad():
        value = loss(leaf, targets)
    if not isinstance(value, Tensor) or value.numel() != 1:
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ArgumentError(f"the loss is not a scalar ({shape}): average it over the samples")
    if not bool(value.isfinite()):
        raise ArgumentError(f"the loss of the unchanged model is {value.item()}: check weights and data")
    if not value.requires_grad:
        raise ArgumentError("the loss has no gradient: use a differentiable one, not an accuracy")
    (slope,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), slope.to(outputs.dtype)


def _evaluator(net: nn.Module, names: list[str], inputs: Tensor) -> Evaluator:
    """The fast way where it can be taken, tried out on a few samples; whole forward passes elsewhere."""
    try:
        found = SuffixEvaluator(net, names, inputs[:4])
        differs = disagreement(net, names, inputs[:4])
        problem = f"layer {differs!r} gives other values" if differs else ""
    except ArgumentError:
        raise
    except Exception as error:  # torch.fx raises many kinds
        problem = str(error).strip().partition("\n")[0]
    if not problem:
        return found
    warnings.warn(
        f"the model cannot be followed from a layer on ({problem}): every perturbation takes a whole forward pass "
        "instead, which is slow",
        stacklevel=4,
    )
    return WholeEvaluator(net)


def _set_ste(net: nn.Module, ste: "str | STE | None") -> str:
    """Give every activation that STE with its own slope; returns what to call it."""
    activations = [m for m in net.modules() if isinstance(m, QuantAct)]
    if ste is not None:
        entry = stes.get(ste)
        for module in activations:
            module.ste, module.slope = entry, None
    return ", ".join(dict.fromkeys(stes.get(m.ste).name for m in activations))


def _coarse(
    net: nn.Module, names: list[str], inputs: Tensor, slope: Tensor, batch_size: int
) -> dict[str, Tensor]:
    """The coarse gradient of the given layers' weights, from the loss's slope at the outputs."""
    weights = [net.get_submodule(name).get_parameter("weight").requires_grad_() for name in names]
    total = [torch.zeros_like(w, dtype=torch.float64) for w in weights]
    batches = zip(torch.split(inputs, batch_size), torch.split(slope, batch_size), strict=True)
    for batch, part in batches:
        with torch.enable_grad():
            grads = torch.autograd.grad(flat(net(batch.clone())), weights, part, allow_unused=True)
        for sum_, grad in zip(total, grads, strict=True):
            if grad is not None:
                sum_ += grad
    return dict(zip(names, total, strict=True))


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
