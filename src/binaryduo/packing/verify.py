"""Does a program compute what its model computes? Checked operation by operation, before a file is written.

Every operation of the NumPy reference is fed with the float64 model's own tensors, and the native executor's
operations are compared with the reference's on the native executor's own tensors: so no error can hide behind
another one, and none can grow from layer to layer. A bit may differ only where the value that it was made
from lies within rounding of its threshold, which is 1/2 unless it is a plane of an activation of more levels.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from binaryduo._common.float64 import AllFloat64
from binaryduo.engine import program as ir
from binaryduo.engine import reference
from binaryduo.engine.program import Code, Flag, Op, Program, Storage
from binaryduo.errors import GraphError
from binaryduo.graph.tracing import copied, tensors_in
from binaryduo.nn import QuantAct
from binaryduo.packing.planes import plane_thresholds, planes_of_levels
from binaryduo.ste import thresholds

FLOAT32_ROUNDING = 1e-4  # relative to a tensor's largest value: sums of thousands of float32 products
FLOAT64_ROUNDING = 1e-9
HALF_ROUNDING = 5e-3  # float16 weights

Values = NDArray[Any]


@dataclass
class Checked:
    """How much was compared: `close` bits differ, all of them within rounding of their threshold."""

    operations: int = 0
    bits: int = 0
    close: int = 0


class Recorder(fx.Interpreter):
    """Keeps the value of every node."""

    def __init__(self, model: nn.Module, graph: fx.Graph) -> None:
        super().__init__(model, garbage_collect_values=False, graph=graph)
        self.kept: dict[str, Tensor] = {}
        self.sources: dict[str, str] = {}
        self.thresholds: dict[str, Values] = {}  # of each activation's planes, (L - 1, 1 or C)

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor):
            self.kept[n.name] = value
            if n.all_input_nodes:
                self.sources[n.name] = n.all_input_nodes[0].name
            act = self.submodules.get(str(n.target)) if n.op == "call_module" else None
            if isinstance(act, QuantAct) and act.levels is not None:
                self.thresholds[n.name] = plane_thresholds(act).cpu().numpy()
        return value

    def values(self, name: str, tensor: ir.Tensor) -> Values:
        """A node's values as a tensor of the program has them, (1, H, W, C); of planes, the value once."""
        size = (1, -1, tensor.height, tensor.width)
        return np.moveaxis(self.kept[name].detach().cpu().numpy().reshape(size), 1, -1)

    def bits(self, tensor: ir.Tensor) -> NDArray[np.uint8]:
        """The node that a tensor of bits is named after, as its bits."""
        values = self.values(tensor.name, tensor)
        return planes_of_levels(values, tensor.channels // values.shape[-1]).astype(np.uint8)

    def distances(self, tensor: ir.Tensor) -> tuple[Values, float]:
        """How far the values that an activation's bits are made of are from their thresholds; the largest value."""
        source = self.values(self.sources[tensor.name], tensor).astype(np.float64)
        at = self.thresholds.get(tensor.name, thresholds(tensor.channels // source.shape[-1] + 1))
        return np.concatenate([np.abs(source - t) for t in at], axis=-1), float(np.abs(source).max())


def check(
    program: Program,
    model: nn.Module,
    graph: fx.Graph,
    image: Tensor,
    tolerance: float,
    sample: Tensor | None = None,
) -> Checked:
    """Compare the reference with the float64 model on one image (1, …); raises GraphError where they part.

    `sample` is what the program takes where that is not the model's own input: its pixels.
    """
    recorder = Recorder(copy.deepcopy(model).double().eval(), graph)
    with AllFloat64(), torch.no_grad():
        recorder.run(image.double())

    def known(tensor: ir.Tensor) -> Values | None:
        if tensor.name not in recorder.kept:
            return None
        return recorder.bits(tensor) if tensor.kind == Storage.BITS else recorder.values(tensor.name, tensor)

    values = [known(tensor) for tensor in program.tensors]
    if program.tensors[0].kind == Storage.BYTES and sample is not None:
        c, h, w = program.tensors[0].shape
        values[0] = np.moveaxis(sample.numpy().reshape(1, c, h, w), 1, -1)
    return _compare(program, values, recorder, tolerance)


def check_graph(model: nn.Module, work: nn.Module, graph: fx.Graph, images: Tensor) -> list[Tensor]:
    """Refuse a model whose graph (on `work`), an image at a time, is not the model: float64, on a batch of images.
    Returns the model's outputs.

    What a trace misses shows here: a tensor changed in place under another name, an image that looks at others.
    """
    wide = copy.deepcopy(work).double().eval()
    with AllFloat64(), torch.no_grad():
        wanted = copied(model).cpu().double().eval()(images.double())
        parts = []
        for image in images.double():
            recorder = Recorder(wide, graph)
            parts.append(list(tensors_in(recorder.run(image.unsqueeze(0)))))
    found = [torch.cat(part) for part in zip(*parts, strict=True)]
    outputs = list(tensors_in(wanted))
    if not all(_alike(a, b) for a, b in zip(found, outputs, strict=True)):
        raise GraphError(
            f"{type(model).__name__} cannot be packed: its traced graph gives values that differ from the model's on a "
            "batch of images. Tensors changed in place under two names, and operations across images, cannot be "
            "followed. No file was written"
        )
    return outputs


def _alike(found: Tensor, wanted: Tensor) -> bool:
    size = max(1.0, float(wanted.abs().max()))
    return found.shape == wanted.shape and float((found - wanted).abs().max()) <= 1e-6 * size


def _compare(program: Program, values: list[Values | None], recorder: Recorder, tolerance: float) -> Checked:
    result = Checked()
    for op in program.ops:
        for number, found in reference.step(program, op, values).items():
            tensor, wanted = program.tensors[number], values[number]
            if wanted is None:  # a tensor that the model does not have, as a pool's input in bits
                values[number] = found
                continue
            result.operations += 1
            if tensor.kind == Storage.FLOAT:
                _same_floats(op, found, wanted, tolerance)
                continue
            result.bits += wanted.size
            wrong = found != wanted
            if not wrong.any():
                continue
            if tensor.name not in recorder.sources:
                raise _parted(op, f"{int(wrong.sum())} of {wanted.size} bits differ")
            distance, largest = recorder.distances(tensor)
            bound = tolerance * max(1.0, largest)
            if op.flags & Flag.INTEGER_THRESHOLD:
                bound = FLOAT64_ROUNDING
            if (distance[wrong] > bound).any():
                raise _parted(op, f"{int(wrong.sum())} of {wanted.size} bits differ, not all by rounding")
            result.close += int(wrong.sum())
    return result


def check_native(program: Program, traced: list[Values], tolerance: float = FLOAT32_ROUNDING) -> None:
    """Compare the native executor's tensors for one image with the reference, operation by operation."""
    for op in program.ops:
        for number, wanted in reference.step(program, op, list(traced)).items():
            found = traced[number]
            if program.tensors[number].kind == Storage.FLOAT:
                _same_floats(op, found, wanted, tolerance)
                continue
            wrong = found != wanted
            if wrong.any() and (_exact(op) or _beyond_rounding(program, op, traced, wrong, tolerance)):
                raise _parted(op, "the native kernel's bits differ from the reference's")


def _beyond_rounding(
    program: Program, op: Op, values: list[Values], wrong: NDArray[np.bool_], tolerance: float
) -> bool:
    """Whether an operation's bits differ where the float that they are made of is not close to its threshold."""
    assert op.threshold is not None
    beside = len(program.tensors)  # as if the floats were kept too
    sums = reference.step(program, replace(op, out_float=beside, out_bits=-1), list(values))[beside]
    distance = np.abs(sums.astype(np.float64) - op.threshold)
    return bool((distance[wrong] > tolerance * max(1.0, float(np.abs(sums).max()))).any())


def _exact(op: Op) -> bool:
    """Whether an operation's bits come from bits or integers alone, so that no rounding can turn them."""
    return bool(op.flags & Flag.INTEGER_THRESHOLD) or op.code == Code.MAX_POOL


def _same_floats(op: Op, found: Values, wanted: Values, tolerance: float) -> None:
    difference = float(np.abs(found.astype(np.float64) - wanted).max(initial=0))
    size = max(1.0, float(np.abs(wanted).max(initial=0)))
    if not difference <= tolerance * size:
        raise _parted(op, f"values up to {size:.3g} differ by {difference:.3g}")


def _parted(op: Op, what: str) -> GraphError:
    return GraphError(
        f"the packed form of {op.name!r} does not agree with the model: {what}. No file was written"
    )
