"""What a network costs to store and to run, counted as in the paper's Table 2.

Parameters: 1 bit for a binary weight, 32 bits for everything else, BN's weight and bias and the classifier's
bias included. Operations: full-precision multiply-accumulates plus binary ones divided by 64. A
multiply-accumulate is binary where weight and activation are both one bit.
"""

import math
from dataclasses import dataclass
from typing import Any

from torch import nn

from binaryduo import nn as bnn
from binaryduo.graph.analysis import Analysis, analyse
from binaryduo.graph.operations import Kind
from binaryduo.graph.tracing import unwrap


@dataclass(frozen=True)
class LayerCost:
    """The cost of one module: parameters once, multiply-accumulates for one image."""

    name: str
    kind: str
    params: int
    param_bits: int
    macs: int
    binary: bool  # weight and activation are both one bit


@dataclass(frozen=True)
class Cost:
    """The cost of a network for one image; prints as a table.

    `uncounted` names modules and operations that compute something whose multiply-accumulates are not known.
    """

    layers: tuple[LayerCost, ...]
    uncounted: tuple[str, ...] = ()

    @property
    def params(self) -> int:
        return sum(layer.params for layer in self.layers)

    @property
    def param_bits(self) -> int:
        return sum(layer.param_bits for layer in self.layers)

    @property
    def macs(self) -> int:
        """All multiply-accumulates, binary or not."""
        return sum(layer.macs for layer in self.layers)

    @property
    def binary_macs(self) -> int:
        return sum(layer.macs for layer in self.layers if layer.binary)

    @property
    def ops(self) -> float:
        """Full-precision multiply-accumulates + binary ones / 64: Table 2's "Comp."."""
        return self.macs - self.binary_macs + self.binary_macs / 64

    def conventions(self) -> dict[str, float]:
        """The same network as others count it: compare numbers only under the same name.

        >>> sorted(cost(nn.Linear(4, 2), torch.zeros(1, 4)).conventions())[0]
        'BOPs: 2 x binary MACs'
        """
        floats = self.macs - self.binary_macs
        return {
            "FLOPs + BOPs/64, MAC as one (Bi-Real-Net, Table 2)": self.ops,
            "MACs, binary or not": float(self.macs),
            "FLOPs: 2 x full-precision MACs": 2.0 * floats,
            "BOPs: 2 x binary MACs": 2.0 * self.binary_macs,
            "OPs = FLOPs + BOPs/64, MAC as two (ReActNet)": 2.0 * floats + 2.0 * self.binary_macs / 64,
        }

    def __str__(self) -> str:
        head = ("module", "kind", "parameters", "bits", "MACs", "binary")
        rows = [
            (c.name, c.kind, f"{c.params:,}", f"{c.param_bits:,}", f"{c.macs:,}", "yes" if c.binary else "")
            for c in self.layers
        ]
        rows.append(("total", "", f"{self.params:,}", f"{self.param_bits:,}", f"{self.macs:,}", ""))
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(w) if i < 2 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in [head, *rows]
        ]
        lines.insert(1, "-" * len(lines[0]))
        lines.insert(-1, "-" * len(lines[0]))
        lines.append(
            f"{_short(self.param_bits)}bit of parameters, {_short(self.ops)}operations per image "
            f"(binary multiply-accumulates / 64)"
        )
        if self.uncounted:
            lines.append(f"Operations that are not counted: {', '.join(self.uncounted)}.")
        return "\n".join(line.rstrip() for line in lines)


def _short(number: float) -> str:
    """A number with a unit that leaves some digits of it.

    >>> _short(33_300_000), _short(1_234)
    ('33.3 M', '1.2 k')
    """
    for size, unit in ((1e5, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / (1e6 if unit == 'M' else 1e3):.1f} {unit}"
    return f"{number:.0f} "


def cost(model: nn.Module, example_input: Any) -> Cost:
    """The parameters and operations of a model, layer by layer, for one image.

    >>> net = nn.Sequential(nn.Linear(4, 8), bnn.QuantAct(), bnn.BinaryLinear(8, 64, bias=False))
    >>> c = cost(net, torch.zeros(1, 4))
    >>> c.param_bits, c.macs, c.binary_macs, c.ops
    (1792, 544, 512, 40.0)
    """
    model = unwrap(model)
    if next(model.children(), None) is None:
        model = nn.Sequential(model)  # a layer alone
    analysis = analyse(model, example_input)
    macs, binary, uncounted = _operations(analysis)
    layers = []
    counted: set[int] = set()
    for name, module in analysis.model.named_modules():
        params = [(n, p) for n, p in module.named_parameters(recurse=False) if id(p) not in counted]
        counted.update(id(p) for _, p in params)
        if not params and name not in macs:
            continue
        one_bit = bnn.is_binary_weight(module)
        bits = sum(p.numel() * (1 if one_bit and n == "weight" else 32) for n, p in params)
        total = sum(p.numel() for _, p in params)
        label = name if name else "(model)"
        layers.append(LayerCost(label, type(module).__name__, total, bits, macs.get(name, 0), name in binary))
    layers += [
        LayerCost(name, "function", 0, 0, count, False)
        for name, count in macs.items()
        if name not in dict(analysis.model.named_modules())
    ]
    return Cost(tuple(layers), tuple(uncounted))


def _operations(analysis: Analysis) -> tuple[dict[str, int], set[str], list[str]]:
    """Each layer's multiply-accumulates for one image, the layers whose multiplications are binary, and what computes
    something that is not known here."""
    macs: dict[str, int] = {}
    binary: set[str] = set()
    uncounted: list[str] = []
    images = next(
        (analysis.info[n].shape[0] for n in analysis.of_kind(Kind.INPUT) if analysis.info[n].shape), 1
    )
    for node in analysis.of_kind(Kind.LAYER, Kind.OTHER):
        call = analysis.info[node].call
        if call.operation.name in ("conv_function", "linear_function"):
            weight, out = call.shapes[1], call.shape
            dim = len(out) - 1 if call.operation.name == "linear_function" else 1
            places = math.prod(n for d, n in enumerate(out) if d != dim) // max(images, 1)
            macs[node.name] = math.prod(weight) * places
            continue
        if node.op != "call_module":
            if call.operation.name == "product":
                uncounted.append(call.written)
            continue
        module, name = analysis.module(node), analysis.names[analysis.module(node)]
        if not isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
            if any(p.dim() > 1 for p in module.parameters()):
                uncounted.append(call.written)
            continue
        source = analysis.info[analysis.tensor_inputs(node)[0]]
        # A transposed convolution uses its weights once for each place of its input, others of the output.
        transposed = isinstance(module, nn.modules.conv._ConvTransposeNd)
        shape = source.shape if transposed else analysis.info[node].shape
        dim = len(shape) - 1 if isinstance(module, nn.Linear) else 1
        places = math.prod(n for d, n in enumerate(shape) if d != dim) // max(images, 1)
        macs[name] = macs.get(name, 0) + module.weight.numel() * places
        if bnn.is_binary_weight(module) and analysis.binary(analysis.tensor_inputs(node)[0]):
            binary.add(name)
    return macs, binary, uncounted
