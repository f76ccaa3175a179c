"""Processes and devices: one process by itself, or one of many under torchrun."""

import os
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision
from torch import nn

from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.training.recipe import Loop, Stage

MOMENTUM = 0.9  # of "sgd"
PRECISIONS: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed"}

# What gloo and NCCL say when the process at the other end is gone.
LOST = ("connection closed", "connection reset", "broken pipe", "timed out", "nccl", "gloo")


class ProcessLost(BinaryDuoError):
    """Another process of a distributed run has ended, so this one cannot go on."""


class Float64(DoublePrecision):
    """Float64 throughout: Fabric's own turns the network's output back into float32."""

    def convert_output(self, data: Any) -> Any:
        return data


def make_fabric(loop: Loop) -> Fabric:
    """Fabric for this process; under torchrun it is one of WORLD_SIZE with DDP, else alone on one device."""
    world, local = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(loop.accelerator, True):
        raise ArgumentError(
            f"loop.accelerator is {loop.accelerator}, and there is none here: use auto or cpu instead"
        )
    fabric = Fabric(
        accelerator=loop.accelerator,
        devices=local,
        num_nodes=world // local,
        strategy="ddp" if world > 1 else "auto",
        precision=PRECISIONS.get(loop.precision),
        plugins=[Float64()] if loop.precision == "64" else None,
    )
    fabric.launch()
    return fabric


def process_lost(error: RuntimeError) -> ProcessLost | None:
    """Our error, if this one means that another process of the run has gone."""
    text = str(error).lower()
    if not any(sign in text for sign in LOST):
        return None
    return ProcessLost(
        "another process of this run has ended, so this one stops too; its own message says why. Start the "
        f"same command again with --resume ({str(error).splitlines()[0]})"
    )


def make_optimizer(model: nn.Module, stage: Stage) -> torch.optim.Optimizer:
    """AdamW (decoupled decay), Adam or SGD with momentum (L2 decay); vectors (biases, BN) are not decayed."""
    parameters = [p for p in model.parameters() if p.requires_grad]
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


def called_optimizer(make: Callable[[Any], Any], model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that a user's function makes of the parameters that are trained."""
    found = make([p for p in model.parameters() if p.requires_grad])
    if not isinstance(found, torch.optim.Optimizer):
        raise ArgumentError(
            f"optimizer= must be a function of the parameters that gives a torch optimizer, and gave one of type "
            f"{type(found).__name__}: for example lambda p: torch.optim.SGD(p, lr=0.1)"
        )
    if isinstance(found, torch.optim.LBFGS):
        raise ArgumentError("LBFGS computes the loss several times a step, which this loop does not do")
    return found


def agreed(fabric: Fabric, wish: bool) -> bool:
    """Whether any process wishes it; every process gets the same answer."""
    if fabric.world_size == 1:
        return wish
    return mean_over_processes(fabric, float(wish)) > 0


def mean_over_processes(fabric: Fabric, value: float) -> float:
    """The mean of a number over all processes."""
    mean = fabric.all_reduce(torch.tensor(value, device=fabric.device), reduce_op="mean")
    assert isinstance(mean, torch.Tensor)
    return float(mean)
