"""`export_qonnx`: a model in QONNX, the dialect of ONNX with quantizers that FINN and hls4ml read.

A one-bit layer's weights are BipolarQuant of their signs, with the layer's scale. An activation with L levels is one
Quant of scale 1/(L - 1) that rounds halves up, since a value on a threshold reaches its level.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from binaryduo.errors import MissingExtraError
from binaryduo.nn import QuantAct, binarize_weight
from binaryduo.packing.onnx import checked_example, standard_modules, write

DOMAIN = "qonnx.custom_op.general"


def export_qonnx(model: nn.Module, example_input: Any, path: str | Path) -> None:
    """Write the model, coupled, decoupled or baseline, as QONNX for one image at a time.

    The first layer and others with float weights stay as they are: how many bits they and the images get is for the
    tool that takes over to choose. The model is left as it was.
    """
    if not hasattr(torch.onnx, "ops"):
        raise MissingExtraError(
            f"export_qonnx needs PyTorch 2.8 or newer, not {torch.__version__}: "
            "pip install --upgrade 'binaryduo[onnx]'"
        )
    example = checked_example(model, example_input, path)
    write(standard_modules(model, _quantizers), example[:1], path)


def _node(name: str, inputs: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
    """A node of QONNX whose output is like its first input; it has no values outside of an export."""
    first = inputs[0]
    out: Tensor = torch.onnx.ops.symbolic(
        f"{DOMAIN}::{name}", inputs, attributes, dtype=first.dtype, shape=first.shape, version=1
    )
    return out


class _Quant(nn.Module):
    def __init__(self, act: QuantAct) -> None:
        super().__init__()
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        assert self.act.levels is not None
        steps = self.act.levels - 1
        if self.act.interval is None:  # evenly spaced: one quantizer
            if steps & (steps + 1):  # its bits could hold more levels than there are
                x = x.clamp(max=1.0)
            return self._quant(x, 1 / steps, steps.bit_length())
        bits = [self._quant(x - step + 0.5, 1.0, 1) for step in self.act.steps(x.dim())]
        total = bits[0]
        for bit in bits[1:]:
            total = total + bit
        return total / steps if steps > 1 else total

    @staticmethod
    def _quant(x: Tensor, scale: float, bits: int) -> Tensor:
        numbers = [torch.tensor(float(value)) for value in (scale, 0, bits)]
        return _node("Quant", [x, *numbers], {"signed": 0, "narrow": 0, "rounding_mode": "HALF_UP"})


class _Bipolar(nn.Module):
    """A one-bit layer whose weight is a BipolarQuant."""

    signs: Tensor
    scale: Tensor

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        assert isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear)
        weight = binarize_weight(layer.weight.detach())
        self.register_buffer("signs", torch.where(weight >= 0, 1.0, -1.0))
        self.register_buffer("scale", weight.abs().max())
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        weight = _node("BipolarQuant", [self.signs, self.scale], {})
        layer = self.layer
        if isinstance(layer, nn.Linear):
            return functional.linear(x, weight, layer.bias)
        assert isinstance(layer, nn.Conv1d | nn.Conv2d)
        out: Tensor = layer._conv_forward(x, weight, layer.bias)
        return out


def _quantizers(module: nn.Module) -> nn.Module:
    if isinstance(module, QuantAct):
        return nn.ReLU() if module.levels is None else _Quant(module)
    return _Bipolar(module)
