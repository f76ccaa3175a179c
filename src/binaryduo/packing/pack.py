"""`pack`: a trained network with quantized activations becomes one small file that runs without PyTorch."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from binaryduo.nn import QuantAct
from binaryduo.packing import verify
from binaryduo.packing.choices import Choices, PerChannel, choose
from binaryduo.packing.engine_forms import engine_forms
from binaryduo.packing.learned_thresholds import fix_thresholds
from binaryduo.packing.lowering import lower

if TYPE_CHECKING:
    from binaryduo.engine.runtime import PackedModel

RANDOM_IMAGES = 1


@dataclass(frozen=True)
class Packed:
    """What `pack` wrote and what it checked; prints as one line."""

    path: Path
    bytes: int
    model_bytes: int
    checked: verify.Checked
    deviation: float = (
        0.0  # of the outputs for the example, where weights were rounded: of the largest output
    )
    version: int = 1  # of the format: the lowest that has what the file uses
    planes: int = 1  # the most bits of which one value is the mean: one fewer than levels

    def __str__(self) -> str:
        rounded = (
            f"; rounded weights change the example's outputs by up to {self.deviation:.2%} of the largest"
            if self.deviation
            else ""
        )
        planes = (
            f"; values of {self.planes + 1} levels are {self.planes} bits each" if self.planes > 1 else ""
        )
        return (
            f"{self.path}: {self.bytes:,} bytes, was {self.model_bytes:,} in PyTorch "
            f"({self.model_bytes / self.bytes:.1f} times smaller); "
            f"{self.checked.operations} operations agree, "
            f"{self.checked.close} of {self.checked.bits:,} bits differ by rounding{rounded}{planes}"
        )


def pack(
    model: nn.Module,
    example_input: Any,
    path: str | Path,
    float_weights: str = "float32",
    verbose: bool = True,
    meta: dict[str, str] | None = None,
    input: str = "float32",
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    first_layer: str | None = None,
) -> Packed:
    """Write the packed form of a model whose activations are quantized; the model is left as it was.

    One-bit layers become bits, BN and activation one threshold a channel, max pooling of bits an OR. An activation of
    L > 2 levels, as a coupled network has, becomes L − 1 bits whose mean it is: one-bit layers read all of them with
    one set of weights, other layers read the mean. Layers
    with float weights stay float: `float_weights="float16"` halves them on disk, `"int8"` quarters them. Before the
    file is written the program is compared with the model, operation by operation, on the example and on random images.
    `meta` is kept in the file: text of the caller's, as class names.

    With `input="uint8"` the packed model takes images as they are decoded, pixels from 0 to 255 of the type uint8, and
    normalises them by itself: (pixel / 255 − mean) / std, `mean` and `std` being numbers or one for each channel. The
    example may be such an image, or what the model itself takes. Zero padding stays zero after the normalisation, and
    the results are those of normalised float images. `first_layer="int8"` multiplies the pixels by 8-bit weights:
    faster, but each weight is off by up to 1/254 of its channel's largest. What rounded weights do to the outputs for
    the example is measured (`Packed.deviation`).

    >>> import tempfile; from binaryduo.nn import QuantAct, BinaryLinear
    >>> net = nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), QuantAct(), BinaryLinear(32, 3)).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack(net, torch.rand(1, 4), Path(folder) / "net.duo", verbose=False).checked.close
    0
    """
    inputs = as_inputs(example_input)
    if len(inputs) != 1 or inputs[0].dim() not in (2, 3, 4):
        raise ArgumentError("a packed model has one input of the shape (N, C, H, W), (N, C, T) or (N, C)")
    choices = choose(inputs[0].shape[1], input, mean, std, float_weights, first_layer)
    work = copied(model).cpu().float().eval()
    _check_finite(work)
    fix_thresholds(work)
    samples = _samples(inputs[0], choices)
    floats = [choices.pixels.normalise(sample) if choices.pixels else sample for sample in samples]
    size = _model_bytes(work)
    graph = _graph(work, floats[0])
    before = work if choices.exact else copied(work)  # lowering rounds the weights of `work`
    program = _lower(work, graph, floats[0], choices)
    wanted = verify.check_graph(model, before, graph, torch.cat(floats))
    program.meta |= meta or {}
    content = duo.to_bytes(program)
    tolerance = verify.HALF_ROUNDING if choices.half else verify.FLOAT32_ROUNDING
    checked = verify.Checked()
    for sample, image in zip(samples, floats, strict=True):
        found = verify.check(program, work, graph, image, tolerance, sample)
        checked.operations += found.operations
        checked.bits += found.bits
        checked.close += found.close
        verify.check_native(program, _loaded(content).trace(sample.numpy()))
    path = Path(path)
    write_synced(path, content)
    deviation = 0.0 if choices.exact else _deviation(_loaded(content), samples[0].numpy(), wanted)
    levels = [module.levels for module in work.modules() if isinstance(module, QuantAct)]
    planes = max((n - 1 for n in levels if n is not None), default=1)
    packed = Packed(path, len(content), size, checked, deviation, duo.version_of(program), planes)
    if verbose:
        print(packed)
    return packed


def _check_finite(work: nn.Module) -> None:
    """Refuse weights and statistics that are no numbers: a threshold would turn them into a confident answer."""
    statistics = [
        named for named in work.named_buffers() if named[0].endswith(("running_mean", "running_var"))
    ]
    for name, tensor in [*work.named_parameters(), *statistics]:
        if not bool(torch.isfinite(tensor).all()):
            raise GraphError(
                f"the model cannot be packed: {name} has values that are infinite or not numbers"
            )


def _samples(example: torch.Tensor, choices: Choices) -> list[torch.Tensor]:
    """The example's first image and random ones, each (1, …), as the packed model takes them."""
    noise = torch.Generator().manual_seed(0)
    image = example[:1].detach().cpu()
    if choices.pixels is None:
        others = torch.randn((RANDOM_IMAGES, *image.shape[1:]), generator=noise)
        return [image.float(), *(other.unsqueeze(0) for other in others)]
    others = torch.randint(0, 256, (RANDOM_IMAGES, *image.shape[1:]), generator=noise, dtype=torch.uint8)
    return [choices.pixels.pixels_of(image), *(other.unsqueeze(0) for other in others)]


def _deviation(packed: "PackedModel", image: np.ndarray[Any, Any], wanted: list[torch.Tensor]) -> float:
    """The largest difference of an output from the model's own, of the largest output."""
    pairs = [
        (found.ravel(), want[:1].numpy().ravel())
        for found, want in zip(packed.outputs(image), wanted, strict=True)
    ]
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs)


def _graph(work: nn.Module, image: torch.Tensor) -> torch.fx.Graph:
    """The model's graph in the engine's forms."""
    graph = trace(work, (image,))
    shapes = canonicalise(graph, work, (image,), resized=False)
    modules_out_of_place(work)  # now that whoever reads a changed tensor reads the change's result
    engine_forms(graph, work, shapes)
    return graph


def _lower(work: nn.Module, graph: torch.fx.Graph, image: torch.Tensor, choices: Choices) -> Program:
    shapes, numbers = run_shapes(work, graph, (image,))
    analysis = analyse_graph(work, graph, shapes)
    program = lower(analysis, choices, numbers)
    program.meta["model"] = type(work).__name__
    outputs = [source for node in graph.nodes if node.op == "output" for source in nodes_in(node.args)]
    forms = {2: "flat", 3: "sequence", 4: "image"}
    program.meta["input"] = forms[image.dim()]
    program.meta["output"] = " ".join(forms[len(analysis.info[output].shape)] for output in outputs)
    return program


def _loaded(content: bytes) -> "PackedModel":
    """The file's bytes as a model of one thread."""
    from binaryduo.engine.runtime import PackedModel

    sections = duo.Sections(np.frombuffer(content, np.uint8), "the packed model")
    try:
        return PackedModel(sections, threads=1)
    except PackedFormatError as error:
        raise GraphError(f"the model cannot be packed: {error}") from error


def _model_bytes(model: nn.Module) -> int:
    tensors = [*model.parameters(), *model.buffers()]
    return sum(t.numel() * t.element_size() for t in tensors)
