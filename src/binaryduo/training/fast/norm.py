"""BN and the quantized activation after it as one operation in training; and BN that makes copies, by itself.

The normalised values are never stored: the forward pass writes levels, the backward pass computes the values
again from BN's input. The copies of a decoupled network share one set of statistics, and their gradients one
pass, also where no activation follows (a residual stream carries copies). Results differ from PyTorch's by rounding,
so a value within rounding of a threshold may fall on the other side of it.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from binaryduo._common.native import optional
from binaryduo.errors import GraphError
from binaryduo.graph.tracing import trace
from binaryduo.nn import QuantAct
from binaryduo.nn.copies import CopiedBatchNorm2d

_norm = optional("binaryduo.training.fast._norm")


def available() -> bool:
    """Whether the native part is installed."""
    return _norm is not None


def _addresses(*tensors: Tensor) -> Any:
    return [tensor.data_ptr() for tensor in tensors]


class _NormAct(torch.autograd.Function):
    """x (N, C, H, W) -> levels (N, copies * C, H, W), mean (C,), variance (C,); on the CPU.

    With `levels` 0 the normalised values themselves come out. x, the levels and their gradients are float32 or
    bfloat16, everything else is float32.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, copies: int, levels: int, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = x.detach().contiguous(memory_format=torch.channels_last)
        weight, bias = weight.detach().contiguous(), bias.detach().contiguous()
        n, channels, height, width = x.shape
        size = (n, copies * channels, height, width)
        # Of x's dtype and device, whatever the defaults are.
        out = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        mean, var = weight.new_empty(channels), weight.new_empty(channels)
        ctx.shape, ctx.eps, ctx.levels = (n * height * width, channels, copies), eps, levels
        before, after = _addresses(x, weight, bias), _addresses(mean, var, out)
        bf16 = x.dtype == torch.bfloat16
        _norm.forward(bf16, *before, eps, levels, *ctx.shape, *after, torch.get_num_threads())
        ctx.save_for_backward(x, weight, bias, mean, var)
        ctx.mark_non_differentiable(mean, var)
        return out, mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, var = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        dx, dweight, dbias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        before, after = _addresses(x, grad, weight, bias, mean, var), _addresses(dx, dweight, dbias)
        bf16, threads = x.dtype == torch.bfloat16, torch.get_num_threads()
        _norm.backward(bf16, *before, ctx.eps, ctx.levels, *ctx.shape, *after, threads)
        return dx, dweight, dbias, None, None, None


def normalise(
    x: Tensor, weight: Tensor, bias: Tensor, copies: int, levels: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise by the batch's own statistics and quantize, unless `levels` is 0; returns the mean and variance too."""
    out: tuple[Tensor, Tensor, Tensor] = _NormAct.apply(x, weight, bias, copies, levels, eps)  # type: ignore[no-untyped-call]
    return out


def kinds_fit(norm: nn.Module, act: nn.Module) -> bool:
    """Whether a normalisation and the activation after it are of the kinds that are computed together.

    >>> kinds_fit(nn.BatchNorm2d(8), QuantAct(3)), kinds_fit(nn.BatchNorm2d(8), QuantAct(2, ste="swishsign"))
    (True, False)
    """
    return (
        _norm_fits(norm)
        and type(act) is QuantAct
        and act.levels is not None
        and act.ste == "relu1"
        and act.slope in (None, 1.0)
        and not act.soft
        and act.interval is None  # learned thresholds have gradients that the kernel does not compute
    )


def _norm_fits(norm: nn.Module) -> bool:
    return (
        type(norm) in (nn.BatchNorm2d, CopiedBatchNorm2d)  # not a synchronised one
        and isinstance(norm, nn.BatchNorm2d)
        and norm.affine
        and norm.momentum is not None
    )


def suits_alone(norm: nn.Module) -> bool:
    """Whether a normalisation gains by itself: it makes copies, and has no forward of the user's own.

    >>> suits_alone(CopiedBatchNorm2d.of(nn.BatchNorm2d(8), 2)), suits_alone(nn.BatchNorm2d(8))
    (True, False)
    """
    return type(norm) is CopiedBatchNorm2d and _norm_fits(norm) and "forward" not in norm.__dict__


def suits(norm: nn.Module, act: nn.Module) -> bool:
    """Whether the two can be computed together: of these kinds, and without a forward of the user's own."""
    return kinds_fit(norm, act) and not any("forward" in module.__dict__ for module in (norm, act))


def pairs(model: nn.Module) -> list[tuple[nn.BatchNorm2d, QuantAct]]:
    """The normalisations of which an activation, and nothing else, reads the output in training.

    >>> net = nn.Sequential(nn.BatchNorm2d(4), QuantAct(), nn.BatchNorm2d(4), nn.ReLU())
    >>> pairs(net) == [(net[0], net[1])]
    True
    """
    modes = {module: module.training for module in model.modules()}
    try:
        graph = trace(model.train())
    except GraphError:
        return []
    finally:
        for module, mode in modes.items():
            module.training = mode
    calls = [node for node in graph.nodes if node.op == "call_module"]
    modules = {node: model.get_submodule(str(node.target)) for node in calls}
    used = Counter(id(module) for module in modules.values())
    found = []
    for node, norm in modules.items():
        reader = next(iter(node.users), None)
        act = modules.get(reader) if reader is not None and len(node.users) == 1 else None
        if act is not None and suits(norm, act) and used[id(norm)] == used[id(act)] == 1:
            found.append((norm, act))
    return found  # type: ignore[return-value]


def _watched(norm: nn.Module, act: nn.Module) -> bool:
    """Whether somebody's hook wants to see, or to change, what passes between the two."""
    mine = (norm._forward_hooks, norm._backward_hooks, norm._backward_pre_hooks)
    return any((*mine, act._forward_pre_hooks, act._backward_hooks, act._backward_pre_hooks))


def _in_training(norm: nn.BatchNorm2d, x: Tensor, levels: int) -> Tensor | None:
    """What a normalisation, and an activation of so many levels, make of CPU images (float32, bfloat16) in training.

    The running statistics move as PyTorch's do. None where it is another case, or where something is wrong with x.
    """
    tensors = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    plain = all(t is None or (t.dtype == torch.float32 and t.device.type == "cpu") for t in tensors)
    plain &= x.dtype in (torch.float32, torch.bfloat16) and x.device.type == "cpu"
    fits = plain and norm.training and x.dim() == 4 and x.shape[1] == norm.num_features
    rows = x.numel() // x.shape[1] if fits else 0
    if rows < 2:
        return None
    out, mean, var = normalise(x, norm.weight, norm.bias, getattr(norm, "copies", 1), levels, norm.eps)
    if norm.track_running_stats and norm.running_mean is not None and norm.running_var is not None:
        assert norm.momentum is not None
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(var * (rows / (rows - 1)), norm.momentum)
    return out


class Alone:
    """A normalisation that makes copies, without an activation of its own."""

    def __init__(self, norm: CopiedBatchNorm2d) -> None:
        self.norm = norm

    def normalise(self, x: Tensor) -> Tensor:
        """In place of the normalisation's forward."""
        out = _in_training(self.norm, x, 0) if _norm_fits(self.norm) else None
        return type(self.norm).forward(self.norm, x) if out is None else out


class Pair:
    """A normalisation and its activation: in training on CPU images (float32, bfloat16) the first computes both.

    `quantized` is what the first has just handed to the second.
    """

    def __init__(self, norm: nn.BatchNorm2d, act: QuantAct) -> None:
        self.norm, self.act = norm, act
        self.quantized: Tensor | None = None

    def normalise(self, x: Tensor) -> Tensor:
        """In place of the normalisation's forward."""
        norm, act = self.norm, self.act
        if kinds_fit(norm, act) and not _watched(norm, act):
            assert act.levels is not None
            self.quantized = _in_training(norm, x, act.levels)
            if self.quantized is not None:
                return self.quantized
        own: Tensor = type(norm).forward(norm, x)  # which also says what is wrong with x
        return own

    def activate(self, x: Tensor) -> Tensor:
        """In place of the activation's forward."""
        given, self.quantized = self.quantized, None
        return x if x is given else type(self.act).forward(self.act, x)
