"""What it takes to measure a network's mismatch: a copy, its layers, the loss and its slope at the outputs."""

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo import ste as stes
from binaryduo.errors import ArgumentError
from binaryduo.graph.tracing import copied
from binaryduo.mismatch.evaluators import Evaluator, Samples, SuffixEvaluator, WholeEvaluator, disagreement
from binaryduo.mismatch.outputs import flat, loss_of_flat
from binaryduo.mismatch.perturbation import is_weighted
from binaryduo.nn import QuantAct
from binaryduo.ste import STE

Loss = Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True)
class Prepared:
    """A copy of a network in evaluation mode, the layers to measure, and how to evaluate changes of them.

    `output_gradient` is the loss's derivative by the outputs; `left_out` are layers whose weights are used without
    calling them.
    """

    net: nn.Module
    names: list[str]
    left_out: tuple[str, ...]
    evaluator: Evaluator
    samples: Samples
    loss: float
    output_gradient: Tensor
    pass_seconds: float
    began: float  # on the clock of time.perf_counter

    def coarse(self) -> dict[str, Tensor]:
        """The coarse gradient of each layer's weight, float64."""
        return _coarse_gradient(
            self.net, self.names, self.samples.inputs, self.output_gradient, self.samples.batch_size
        )


def prepare(
    model: nn.Module,
    loss_fn: Loss,
    inputs: Tensor,
    targets: Tensor,
    layers: Sequence[str] | None,
    batch_size: int,
    stacklevel: int = 4,
) -> Prepared:
    """Check what was given, and run the network once; the model itself is left as it was.

    `stacklevel` is where a warning points to: by default to the caller of who calls this.
    """
    began = time.perf_counter()
    _check(model, inputs, targets)
    check_counts(batch_size=batch_size)
    net = copied(model).eval()
    names = _choose_layers(net, layers)
    goal = targets.double() if targets.is_floating_point() else targets
    passing = time.perf_counter()
    clean, example, called = _outputs(net, inputs, batch_size)
    pass_seconds = time.perf_counter() - passing
    loss = loss_of_flat(_double(loss_fn), example)
    left_out = () if layers is not None else tuple(name for name in names if name not in called)
    names = [name for name in names if name not in left_out]
    value, output_gradient = _loss_and_gradient(loss, clean, goal)
    evaluator = _evaluator(net, names, inputs, stacklevel)
    samples = Samples(inputs, goal, clean, loss, batch_size)
    return Prepared(net, names, left_out, evaluator, samples, value, output_gradient, pass_seconds, began)


def chosen_stes(named: "str | Sequence[str | STE]") -> list[STE | None]:
    """The STEs by name; None alone, which leaves the network its own, where none is named."""
    return [stes.get(ste) for ste in ([named] if isinstance(named, str) else named)] or [None]


def check_counts(**counts: int) -> None:
    """Refuse what is no whole number from 1 on, by its name."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ArgumentError(f"{name} must be a whole number from 1, not {value!r}")


def _check(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
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


def _loss_and_gradient(loss: Loss, outputs: Tensor, targets: Tensor) -> tuple[float, Tensor]:
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


def _evaluator(net: nn.Module, names: list[str], inputs: Tensor, stacklevel: int) -> Evaluator:
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
        stacklevel=stacklevel,
    )
    return WholeEvaluator(net)


def set_ste(net: nn.Module, ste: "str | STE | None") -> str:
    """Give every activation that STE with its own slope; returns what to call it."""
    activations = [m for m in net.modules() if isinstance(m, QuantAct)]
    if ste is not None:
        entry = stes.get(ste)
        for module in activations:
            module.ste, module.slope = entry, None
    return ", ".join(dict.fromkeys(stes.get(m.ste).name for m in activations))


def _coarse_gradient(
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
