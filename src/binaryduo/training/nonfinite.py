"""Find where a loss stopped being a number."""

from typing import Any

import torch
from torch import Tensor, nn

from binaryduo.errors import BinaryDuoError
from binaryduo.graph.tracing import tensors_in
from binaryduo.training.batches import call


class NonFiniteLoss(BinaryDuoError):
    """The loss is infinite or not a number; says at which step, at which rate, and in which layer first."""


def _bad(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.is_floating_point() and not bool(torch.isfinite(value).all())
    return any(_bad(tensor) for tensor in tensors_in(value))


@torch.no_grad()
def first_layer(model: nn.Module, inputs: Any) -> str:
    """The place where a value first is not finite: the batch, a parameter, or a layer's output.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> _ = net[0].weight.data.fill_(1e38)
    >>> first_layer(net, torch.full((1, 2), 9.0))
    "the output of layer '0' (Linear)"
    """
    if _bad(inputs):
        return "the inputs of the batch"
    found: list[str] = []
    hooks = []
    for name, module in model.named_modules():
        if next(module.children(), None) is not None:
            continue

        def look(module: nn.Module, args: object, out: object, name: str = name) -> None:
            if found:
                return
            kind = type(module).__name__
            for key, parameter in module.named_parameters(recurse=False):
                if _bad(parameter):
                    found.append(f"the parameter {key!r} of layer {name!r} ({kind})")
                    return
            if _bad(out):
                found.append(f"the output of layer {name!r} ({kind})")

        hooks.append(module.register_forward_hook(look))
    try:
        call(model, inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else "the loss itself: every layer's output is finite"


def check(model: nn.Module, step: int, lr: float) -> None:
    """Refuse a network with a parameter or buffer that is not finite, before it is saved.

    The loss does not always tell: an activation's staircase turns what is not a number into 0.
    """
    for name, tensor in model.state_dict().items():
        if _bad(tensor):
            raise NonFiniteLoss(
                f"{name!r} is not finite at step {step} (learning rate {lr:.3g}), though the loss may be; "
                "the last checkpoint is from before it: lower the rate, or look for inputs that are no numbers"
            )


def report(loss: float, step: int, epoch: int, lr: float, model: nn.Module, inputs: Any) -> NonFiniteLoss:
    """The error to raise; runs the batch once more to find the layer."""
    return NonFiniteLoss(
        f"the loss is {loss} at step {step} (epoch {epoch + 1}, learning rate {lr:.3g}); it first appeared "
        f"in {first_layer(model, inputs)}; the last checkpoint is from before it: lower the rate"
    )
