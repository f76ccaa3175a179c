"""What an operation means for channels where that depends on the call: its arguments, its module, its shapes."""

from typing import Any

import torch

from binaryduo.graph.operations import Call, Kind


def quant_kind(call: Call) -> Kind:
    return Kind.ELEMENTWISE if getattr(call.module, "levels", None) is None else Kind.QUANT


def average_kind(call: Call) -> Kind:
    """A constant stays a constant unless zeros around the image are averaged in, or the divisor is another."""
    padding = call["padding"]
    padded = any(padding) if isinstance(padding, tuple | list) else padding != 0
    return Kind.WEIGHTED if (padded and call["count_include_pad"]) or call["divisor_override"] else Kind.POOL


def pad_kind(call: Call) -> Kind:
    """Padding of the channels with zeros, or of the other dimensions with zeros or with what is there."""
    before, after = call.shapes[0], call.shape
    if len(after) != len(before) or after[:1] != before[:1]:
        return Kind.OTHER
    zeros = call["mode"] == "constant" and call["value"] in (None, 0)
    if after[1:2] != before[1:2]:
        return Kind.PAD if zeros and call.module is None else Kind.OTHER
    return Kind.WEIGHTED if zeros else Kind.POOL if call["mode"] != "constant" else Kind.OTHER


def read_pad(module: Any) -> dict[str, Any]:
    modes = {"Reflection": "reflect", "Replication": "replicate", "Circular": "circular"}
    mode = next((mode for name, mode in modes.items() if type(module).__name__.startswith(name)), "constant")
    return {"pad": module.padding, "mode": mode, "value": getattr(module, "value", 0)}


def cast_kind(call: Call) -> Kind:
    """A copy, another layout of memory or float32 numbers: the values are what they were."""
    options = [*call.node.args[1:], *call.node.kwargs.values()]
    kept = all(
        o is torch.float32 or isinstance(o, bool | torch.device | torch.memory_format) for o in options
    )
    return Kind.POOL if kept else Kind.OTHER


def join_kind(call: Call) -> Kind:
    """A tensor and a number; two tensors of one shape added; anything else that meets channel by channel."""
    if len(call.sources) == 1:
        return Kind.ELEMENTWISE
    plain = call.operation.name == "add" and call["alpha"] == 1 and len(set(call.sources)) == 2
    return Kind.ADD if plain and all(shape == call.shape for shape in call.shapes) else Kind.JOIN


def prelu_kind(call: Call) -> Kind:
    return Kind.ELEMENTWISE if getattr(call.module, "num_parameters", 1) == 1 else Kind.SCALED


def transposed_kind(call: Call) -> Kind:
    return Kind.LAYER if getattr(call.module, "groups", 1) == 1 else Kind.OTHER


def upsample_averages(call: Call) -> bool:
    return not str(call["mode"]).startswith("nearest")
