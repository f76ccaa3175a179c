"""`pack`: a trained network with binary activations becomes one small file that runs without PyTorch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from binaryduo._common.files import write_synced
from binaryduo.engine import format as duo
from binaryduo.engine.program import Program
from binaryduo.errors import ArgumentError, GraphError, PackedFormatError
from binaryduo.graph.analysis import analyse_graph
from binaryduo.graph.canonical import canonicalise
from binaryduo.graph.operations import nodes_in
from binaryduo.graph.tracing import as_inputs, copied, modules_out_of_place, run_shapes, trace
from binaryduo.packing import verify
from binaryduo.packing.engine_forms import engine_forms
from binaryduo.packing.learned_thresholds import fix_thresholds
from binaryduo.packing.lowering import lower

RANDOM_IMAGES = 1


@dataclass(frozen=True)
class Packed:
    """What `pack` wrote and what it checked; prints as one line."""

    path: Path
    bytes: int
    model_bytes: int
    checked: verify.Checked

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.bytes:,} bytes, was {self.model_bytes:,} in PyTorch "
            f"({self.model_bytes / self.bytes:.1f} times smaller); "
            f"{self.checked.operations} operations agree, "
            f"{self.checked.close} of {self.checked.bits:,} bits differ by rounding"
        )


def pack(
    model: nn.Module,
    example_input: Any,
    path: str | Path,
    float_weights: str = "float32",
    verbose: bool = True,
    meta: dict[str, str] | None = None,
) -> Packed:
    """Write the packed form of a model whose activations are binary; the model is left as it was.

    One-bit layers become bits, BN and activation one threshold a channel, max pooling of bits an OR. Layers
    with float weights stay float: `float_weights="float16"` halves them on disk. Before the file is written
    the program is compared with the model, operation by operation, on the example and on random images.
    `meta` is kept in the file: text of the caller's, as class names.

    >>> import tempfile; from binaryduo.nn import QuantAct, BinaryLinear
    >>> net = nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), QuantAct(), BinaryLinear(32, 3)).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack(net, torch.rand(1, 4), Path(folder) / "net.duo", verbose=False).checked.close
    0
    """
    if float_weights not in ("float32", "float16"):
        raise ArgumentError(f"float_weights must be 'float32' or 'float16', not {float_weights!r}")
    inputs = as_inputs(example_input)
    if len(inputs) != 1 or inputs[0].dim() not in (2, 3, 4):
        raise ArgumentError("a packed model has one input of the shape (N, C, H, W), (N, C, T) or (N, C)")
    half = float_weights == "float16"
    work = copied(model).cpu().float().eval()
    fix_thresholds(work)
    image = inputs[0][:1].detach().cpu().float()
    noise = torch.Generator().manual_seed(0)
    others = torch.randn((RANDOM_IMAGES, *image.shape[1:]), generator=noise)
    size = _model_bytes(work)
    program, graph = _lower(work, image, half)
    verify.check_graph(model, work, graph, torch.cat([image, others]))
    program.meta |= meta or {}
    content = duo.to_bytes(program)
    tolerance = verify.HALF_ROUNDING if half else verify.FLOAT32_ROUNDING
    checked = verify.Checked()
    for sample in (image, *(other.unsqueeze(0) for other in others)):
        found = verify.check(program, work, graph, sample, tolerance)
        checked.operations += found.operations
        checked.bits += found.bits
        checked.close += found.close
        verify.check_native(program, _trace_native(content, sample.numpy()))
    path = Path(path)
    write_synced(path, content)
    packed = Packed(path, len(content), size, checked)
    if verbose:
        print(packed)
    return packed


def _lower(work: nn.Module, image: torch.Tensor, half: bool) -> tuple[Program, torch.fx.Graph]:
    graph = trace(work)
    shapes = canonicalise(graph, work, (image,))
    modules_out_of_place(work)  # now that whoever reads a changed tensor reads the change's result
    engine_forms(graph, work, shapes)
    shapes, numbers = run_shapes(work, graph, (image,))
    analysis = analyse_graph(work, graph, shapes)
    program = lower(analysis, half, numbers)
    program.meta["model"] = type(work).__name__
    outputs = [source for node in graph.nodes if node.op == "output" for source in nodes_in(node.args)]
    forms = {2: "flat", 3: "sequence", 4: "image"}
    program.meta["input"] = forms[image.dim()]
    program.meta["output"] = " ".join(forms[len(analysis.info[output].shape)] for output in outputs)
    return program, graph


def _trace_native(content: bytes, image: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    from binaryduo.engine.runtime import PackedModel

    sections = duo.Sections(np.frombuffer(content, np.uint8), "the packed model")
    try:
        return PackedModel(sections, threads=1).trace(image)
    except PackedFormatError as error:
        raise GraphError(f"the model cannot be packed: {error}") from error


def _model_bytes(model: nn.Module) -> int:
    tensors = [*model.parameters(), *model.buffers()]
    return sum(t.numel() * t.element_size() for t in tensors)
