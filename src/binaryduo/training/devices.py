"""Processes and devices: one process by itself, or one of many under torchrun."""

import atexit
import os
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision

from binaryduo._common.progress import say
from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.training.fast.convolution import tiles_are_undescribed
from binaryduo.training.recipe import Loop

PRECISIONS: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed"}

# What gloo and NCCL say when the process at the other end is gone.
LOST = ("connection closed", "connection reset", "broken pipe", "timed out", "nccl", "gloo")


# The most that oneDNN, PyTorch's library for products on CPUs, uses where it may not use AMX. It reads this once.
MAX_ISA = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"


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
    if avoid_undescribed_tiles() and loop.precision == "bf16":
        say(
            f"this machine has AMX without a description of its tiles, on which PyTorch's bfloat16 fails: {MAX_ISA} is "
            "set. If an illegal instruction ends the run all the same, set it before Python starts"
        )
    fabric = Fabric(
        accelerator=loop.accelerator,
        devices=local,
        num_nodes=world // local,
        strategy="ddp" if world > 1 else "auto",
        precision=PRECISIONS.get(loop.precision),
        plugins=[Float64()] if loop.precision == "64" else None,
    )
    theirs = dist.is_available() and dist.is_initialized()
    fabric.launch()
    if world > 1 and not theirs:
        atexit.register(leave_group)
    return fabric


def avoid_undescribed_tiles() -> bool:
    """Tell oneDNN to do without AMX where its tiles are not described; whether that was necessary.

    Some hypervisors show AMX and leave out the size of its tiles. oneDNN then sets up none, and the first product in
    bfloat16 ends the process by an illegal instruction. A limit that the user has set stays.

    >>> avoid_undescribed_tiles() in (True, False)
    True
    """
    name, value = MAX_ISA.split("=")
    if (
        not tiles_are_undescribed()
        or name in os.environ
        or f"DNNL{name.removeprefix('ONEDNN')}" in os.environ
    ):
        return False
    os.environ[name] = value
    return True


def leave_group() -> None:
    """End the process group that `make_fabric` has joined, before the interpreter goes.

    Gloo's threads would otherwise be torn down with it: now and then that aborts a process whose work is done, and
    torchrun calls the whole run failed. (Fabric does the same, for NCCL only.)
    """
    if dist.is_initialized():
        dist.destroy_process_group()


def process_lost(error: RuntimeError) -> ProcessLost | None:
    """Our error, if this one means that another process of the run has gone."""
    text = str(error).lower()
    if not any(sign in text for sign in LOST):
        return None
    return ProcessLost(
        "another process of this run has ended, so this one stops too; its own message says why. Start the "
        f"same command again with --resume ({str(error).splitlines()[0]})"
    )


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
