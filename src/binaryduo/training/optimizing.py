"""The optimizer of one stage, and the rate of each of its groups at each step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from binaryduo.errors import ArgumentError
from binaryduo.training import schedule
from binaryduo.training.recipe import Stage

MOMENTUM = 0.9  # of "sgd"
MakeOptimizer = Callable[[Any], torch.optim.Optimizer]


class Optimizing:
    """The stage's optimizer, or a user's own; the rates are functions of the step, so that none has to be saved.

    >>> net = nn.Linear(2, 1)
    >>> ours = Optimizing(net, Stage(lr=0.5, schedule="cosine"))
    >>> [ours.set_rates(step, total=4, epoch=0) for step in (0, 2)]
    [0.5, 0.25]
    >>> own = Optimizing(net, Stage(), lambda p: torch.optim.SGD(p, lr=8.0), lambda step, total: 1 - step / total)
    >>> own.set_rates(1, total=4, epoch=0)
    6.0
    """

    def __init__(
        self,
        model: nn.Module,
        stage: Stage,
        make: MakeOptimizer | None = None,
        scheduler: schedule.Scheduler | None = None,
    ) -> None:
        self.stage, self.scheduler = stage, scheduler
        self.optimizer = make_optimizer(model, stage) if make is None else called_optimizer(make, model)
        self.stepping: Any = self.optimizer  # the same, once Fabric has wrapped it
        # Each group's rate at a schedule of 1: the stage's, or that which a user's optimizer was made with.
        self.rates = None if make is None else [group["lr"] for group in self.optimizer.param_groups]

    def set_rates(self, step: int, total: int, epoch: int) -> float:
        """Give each group its rate for a 0-based step out of `total`; returns that of the first."""
        stage = self.stage
        if self.scheduler is None:
            lr = schedule.rate(stage, step, total, epoch)
        else:
            lr = schedule.user_rate(self.scheduler, stage, step, total)
        groups = self.stepping.param_groups
        rates = [lr] * len(groups) if self.rates is None else [lr / stage.lr * rate for rate in self.rates]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        return rates[0]

    def step(self) -> None:
        """One step of the optimizer; its gradients are then gone."""
        self.stepping.step()
        self.stepping.zero_grad(set_to_none=True)


def at_half_rate(make: MakeOptimizer) -> MakeOptimizer:
    """The same optimizer with half of the rate in each group.

    >>> at_half_rate(torch.optim.SGD)(nn.Linear(2, 1).parameters()).param_groups[0]["lr"]
    0.0005
    """

    def made(parameters: Any) -> torch.optim.Optimizer:
        optimizer = make(parameters)
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] / 2
        return optimizer

    return made


def make_optimizer(model: nn.Module, stage: Stage) -> torch.optim.Optimizer:
    """AdamW (decoupled decay), Adam or SGD with momentum (L2 decay); vectors (biases, BN) are not decayed."""
    parameters = _trained(model)
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": stage.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
    if stage.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=stage.lr, momentum=MOMENTUM, fused=fused)
    kind = torch.optim.AdamW if stage.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=stage.lr, fused=fused)


def _trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained."""
    found = [p for p in model.parameters() if p.requires_grad]
    if not found:
        raise ArgumentError(
            f"no parameter of {type(model).__name__} is trained, because all have requires_grad=False: call "
            "model.requires_grad_() first"
        )
    return found


def called_optimizer(make: MakeOptimizer, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that a user's function makes of the parameters that are trained."""
    wanted = "optimizer= must be a function of the parameters that gives a torch optimizer"
    example = "for example lambda p: torch.optim.SGD(p, lr=0.1)"
    if not callable(make):
        raise ArgumentError(f"{wanted}, not an object of type {type(make).__name__}: {example}")
    found = make(_trained(model))
    if not isinstance(found, torch.optim.Optimizer):
        raise ArgumentError(f"{wanted}, and gave one of type {type(found).__name__}: {example}")
    if isinstance(found, torch.optim.LBFGS):
        raise ArgumentError("LBFGS computes the loss several times a step, which this loop does not do")
    return found
