"""3×3 convolutions in training, float32 or bfloat16 (autocast): by Winograd's method, or by AMX tiles in bfloat16 where
the CPU has them.

Only training uses them: in evaluation every module computes as PyTorch does. Results differ from PyTorch's own
convolution by rounding (in float32 some 1e-6 of the largest output), as those of any other order of summation.
In bfloat16 inputs, weights and outputs are rounded to it as PyTorch's autocast does, and sums are float32.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from binaryduo._common.native import optional

_convolution = optional("binaryduo.training.fast._convolution")

SMALLEST = 16  # channels; below that the transforms of Winograd's method cost more than they save


def available() -> bool:
    """Whether the native part is installed."""
    return _convolution is not None


def tiles_available() -> bool:
    """Whether bfloat16 convolutions are by AMX tiles: the native part, the CPU, and the system's leave."""
    return _convolution is not None and _convolution.kernels() == "amx"


def tiles_are_undescribed() -> bool:
    """Whether the CPU has AMX and does not say how large its tiles are, as under some hypervisors."""
    return _convolution is not None and _convolution.tiles_are_undescribed()


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


class _Convolution(torch.autograd.Function):
    """x (N, Ci, H, W), weight (Co, Ci, 3, 3) -> (N, Co, H, W); stride 1, padding 1; on the CPU.

    The weight is float32; x, the output and their gradients are float32 or bfloat16.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        x, w = _channels_last(x.detach()), _channels_last(weight.detach())
        ctx.save_for_backward(x, w)
        return _run(x, w, weight.shape[0], turned=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, w = ctx.saved_tensors
        grad = _channels_last(grad)
        dx = _run(grad, w, x.shape[1], turned=True) if ctx.needs_input_grad[0] else None
        dw = None
        if ctx.needs_input_grad[1]:
            dw = torch.empty_like(w)
            n, ci, height, width = x.shape
            _convolution.weight_gradient(
                x.dtype == torch.bfloat16,
                x.data_ptr(),
                grad.data_ptr(),
                dw.data_ptr(),
                n,
                height,
                width,
                ci,
                grad.shape[1],
                torch.get_num_threads(),
            )
        return dx, dw


def _run(x: Tensor, w: Tensor, channels: int, turned: bool) -> Tensor:
    n, ci, height, width = x.shape
    size = (n, channels, height, width)
    y = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    places = (x.data_ptr(), w.data_ptr(), y.data_ptr())
    _convolution.forward(
        x.dtype == torch.bfloat16, *places, n, height, width, ci, channels, turned, torch.get_num_threads()
    )
    return y


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """The 3×3 convolution with stride 1 and padding 1; x float32 or bfloat16."""
    out: Tensor = _Convolution.apply(x, weight)  # type: ignore[no-untyped-call]
    return out


def suits(module: nn.Module) -> bool:
    """Whether a module is a convolution that this method computes; one with a way of its own is not.

    >>> suits(nn.Conv2d(64, 64, 3, padding=1)), suits(nn.Conv2d(64, 64, 3, stride=2))
    (True, False)
    """
    return (
        isinstance(module, nn.Conv2d)
        and type(module)._conv_forward is nn.Conv2d._conv_forward
        and "_conv_forward" not in module.__dict__
        and module.kernel_size == (3, 3)
        and module.stride == (1, 1)
        and module.padding in ((1, 1), "same")
        and module.dilation == (1, 1)
        and module.groups == 1
        and module.padding_mode == "zeros"
        and (min(module.in_channels, module.out_channels) >= SMALLEST or tiles_available())
    )


def rounds() -> bool:
    """Whether autocast asks for bfloat16 on the CPU right now."""
    return torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16


class Shadow:
    """A convolution's own `_conv_forward`, except in training on the CPU."""

    def __init__(self, module: nn.Conv2d) -> None:
        self.module = module
        self.wide = min(module.in_channels, module.out_channels) >= SMALLEST

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        plain = weight.dtype == torch.float32 and input.device.type == weight.device.type == "cpu"
        if not plain or not self.module.training or input.dim() != 4:
            return self._own(input, weight, bias)
        if rounds():
            if input.dtype not in (torch.float32, torch.bfloat16) or not (self.wide or tiles_available()):
                return self._own(input, weight, bias)
            out = convolve(input.to(torch.bfloat16), weight)
        elif input.dtype == torch.float32 and self.wide:
            out = convolve(input, weight)
        else:
            return self._own(input, weight, bias)
        return out if bias is None else out + bias.view(1, -1, 1, 1).to(out.dtype)

    def _own(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        own: Tensor = nn.Conv2d._conv_forward(self.module, input, weight, bias)
        return own
