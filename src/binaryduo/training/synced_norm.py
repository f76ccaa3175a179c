"""Batch normalisation whose statistics are taken over all processes, on any device.

torch's own SyncBatchNorm refuses CPU tensors. Here the mean and variance come from two all-reduces whose
gradients are all-reduces too; the rest is ordinary arithmetic. Modules are converted in place by exchanging
their class, so parameter names, checkpoints and everything that asks for nn.BatchNorm2d stay as they were.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from binaryduo._common.progress import say
from binaryduo.nn.copies import CopiedBatchNorm1d, CopiedBatchNorm2d


class _SumOverProcesses(torch.autograd.Function):
    """The sum of a tensor over all processes; so is its gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone()
        dist.all_reduce(total)
        return total


def _sum(value: Tensor) -> Tensor:
    total: Tensor = _SumOverProcesses.apply(value)  # type: ignore[no-untyped-call]
    return total


def standardise(x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, float]:
    """x with mean 0 and variance 1 a channel over all processes' batches; also mean, variance and count.

    All in float32 at least: bfloat16 has no 17,424, and running statistics take no mean of another type.
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    dims = [d for d in range(x.dim()) if d != 1]
    shape = (1, -1) + (1,) * (x.dim() - 2)
    local = torch.tensor([x.numel() / x.shape[1]], dtype=torch.float64, device=x.device).to(x.dtype)
    sums = _sum(torch.cat([x.sum(dims), local]))
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centred = x - mean.view(shape)
    variance = _sum(centred.square().sum(dims)) / count
    return centred * torch.rsqrt(variance + eps).view(shape), mean, variance, float(count)


class _Synced(nn.modules.batchnorm._BatchNorm):
    """Forward of a synchronised BN; in evaluation, or alone, that of the class it was made from."""

    copies: int = 1

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and dist.is_initialized() and dist.get_world_size() > 1):
            return super().forward(input)
        out, mean, variance, count = standardise(input, self.eps)
        if self.track_running_stats and self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                assert self.num_batches_tracked is not None
                self.num_batches_tracked.add_(1)
                share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
                unbiased = variance * (count / (count - 1))
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
        if not self.affine:
            return out.to(input.dtype)
        shape = (1, -1) + (1,) * (input.dim() - 2)
        parts = zip(self.weight.chunk(self.copies), self.bias.chunk(self.copies), strict=True)
        copies = [out * weight.view(shape) + bias.view(shape) for weight, bias in parts]
        return torch.cat(copies, 1).to(input.dtype)


class SyncedBatchNorm1d(_Synced, nn.BatchNorm1d):
    """nn.BatchNorm1d over all processes."""


class SyncedBatchNorm2d(_Synced, nn.BatchNorm2d):
    """nn.BatchNorm2d over all processes."""


class SyncedBatchNorm3d(_Synced, nn.BatchNorm3d):
    """nn.BatchNorm3d over all processes."""


class SyncedCopiedBatchNorm1d(_Synced, CopiedBatchNorm1d):
    """CopiedBatchNorm1d over all processes."""


class SyncedCopiedBatchNorm2d(_Synced, CopiedBatchNorm2d):
    """CopiedBatchNorm2d over all processes."""


SYNCED: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: SyncedBatchNorm1d,
    nn.BatchNorm2d: SyncedBatchNorm2d,
    nn.BatchNorm3d: SyncedBatchNorm3d,
    CopiedBatchNorm1d: SyncedCopiedBatchNorm1d,
    CopiedBatchNorm2d: SyncedCopiedBatchNorm2d,
}


def synchronise(model: nn.Module) -> nn.Module:
    """Make every batch normalisation of the model take its statistics over all processes, in place.

    Those of classes that are not known here stay as they are, and are named.

    >>> type(synchronise(nn.Sequential(nn.BatchNorm2d(3)))[0]).__name__
    'SyncedBatchNorm2d'
    """
    for module in model.modules():
        if type(module) in SYNCED:
            module.__class__ = SYNCED[type(module)]
    norms = (m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm))
    left = {type(m).__name__ for m in norms if not isinstance(m, _Synced | nn.SyncBatchNorm)}
    if left and not (dist.is_initialized() and dist.get_rank()):
        say(
            f"loop.sync_bn does not know {', '.join(sorted(left))}: there each process takes the statistics of its own "
            "images"
        )
    return model


def restore(model: nn.Module) -> nn.Module:
    """Undo `synchronise`."""
    plain = {synced: own for own, synced in SYNCED.items()}
    for module in model.modules():
        if type(module) in plain:
            module.__class__ = plain[type(module)]
    return model
