"""`export_onnx`: a model as a file of standard ONNX operators, for other runtimes.

A quantized activation becomes the sum of its comparisons, Σ (x >= t_i)/(L - 1), so that no threshold is lost,
and a one-bit layer's weights are stored as sign · scale. The batch size stays free.
"""

import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo.errors import ArgumentError, GraphError, MissingExtraError
from binaryduo.graph.tracing import as_inputs, copied, tensors_in
from binaryduo.nn import QuantAct, binarize_weight, is_binary_weight

OPSET = 18


class _Levels(nn.Module):
    """A quantized activation in plain comparisons."""

    def __init__(self, act: QuantAct) -> None:
        super().__init__()
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = self.act.steps(x.dim())
        total = (x >= first).to(x.dtype)
        for step in rest:
            total = total + (x >= step).to(x.dtype)
        return total / (1 + len(rest)) if rest else total


class _Fields(nn.Module):
    """A model whose output is a data class, with the fields in a dictionary, which the exporter knows."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> dict[str, Any]:
        output = self.model(x)
        return {field.name: getattr(output, field.name) for field in fields(output)}


def export_onnx(model: nn.Module, example_input: Any, path: str | Path) -> None:
    """Write the model, coupled, decoupled or baseline, as ONNX (opset 18) with a free batch size.

    The model is left as it was. One output is called "logits"; those of a dictionary or a data class keep their names.
    Check the result with ONNX Runtime as the tests do: a value within rounding of a threshold may fall on its other
    side there, as anywhere.
    """
    example = checked_example(model, example_input, path)
    if len(example) == 1:  # the exporter would take a batch of one for a constant
        example = torch.cat([example, example])
    batch = torch.export.Dim("batch", min=1)
    write(standard_modules(model), example, path, ({0: batch},))


def checked_example(model: nn.Module, example_input: Any, path: str | Path) -> Tensor:
    """The example input of an export that can be done: the packages are there, and our layers can be replaced."""
    try:
        import onnxscript  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"export_onnx needs the package {error.name!r}: pip install 'binaryduo[onnx]'"
        ) from error
    if not Path(path).parent.is_dir() or Path(path).is_dir():
        raise ArgumentError(f"{path} cannot be written: its folder does not exist, or it is a folder itself")
    inputs = as_inputs(example_input)
    if len(inputs) != 1:
        raise ArgumentError(f"export_onnx takes a model with one input, not {len(inputs)}")
    example = _as_taken(copied(model).cpu().float().eval(), inputs[0].detach().cpu())
    with torch.no_grad():
        own = copied(model).cpu().float().eval()(example)
        pairs = zip(tensors_in(own), tensors_in(standard_modules(model)(example)), strict=True)
        if not all(torch.equal(a, b) for a, b in pairs):
            raise GraphError(
                f"{type(model).__name__} cannot be exported: with standard layers in place of ours it gives other "
                "values. A subclass of QuantAct, BinaryConv2d or BinaryLinear with a forward of its own, or a hook on "
                "one, is the usual reason"
            )
    return example


def _as_taken(model: nn.Module, example: Tensor) -> Tensor:
    """An example as the exported model takes it: float32, or whole numbers where the model works on them, as an
    embedding does.

    >>> whole = torch.tensor([[1, 2]])
    >>> _as_taken(nn.Embedding(5, 2), whole).dtype, _as_taken(nn.Linear(2, 1), whole).dtype
    (torch.int64, torch.float32)
    """
    if not example.is_floating_point():
        try:
            with torch.no_grad():
                model(example)
            return example
        except RuntimeError:  # a layer that multiplies takes no whole numbers
            pass
    return example.float()


def write(plain: nn.Module, example: Tensor, path: str | Path, dynamic_shapes: Any = None) -> None:
    """Export a model whose layers the exporter knows."""
    with torch.no_grad():
        output = plain(example)
        if is_dataclass(output):
            plain = _Fields(plain)
            output = plain(example)
    name = type(plain).__name__
    with _quiet():
        try:
            program = torch.onnx.export(
                plain,
                (example,),
                dynamo=True,
                opset_version=OPSET,
                input_names=["images"],
                output_names=_output_names(output),
                dynamic_shapes=dynamic_shapes,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            cause = error.__cause__ or error
            reason = next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
            raise GraphError(f"{name} cannot be exported: PyTorch's exporter says: {reason}") from error
    assert program is not None
    program.save(str(path))


def _output_names(output: Any) -> list[str]:
    """What the outputs are called: "logits" where there is one, a dictionary's own names, else by their numbers.

    >>> _output_names({"label": torch.zeros(1), "box": torch.zeros(1)}), _output_names((torch.zeros(1),) * 2)
    (['label', 'box'], ['output_0', 'output_1'])
    """
    count = len(list(tensors_in(output)))
    if count == 1:
        return ["logits"]
    if isinstance(output, dict) and len(output) == count:
        return [str(name) for name in output]
    return [f"output_{number}" for number in range(count)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's talk of packages that are not needed here, and of its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def standard_modules(
    model: nn.Module, replacement: Callable[[nn.Module], nn.Module] | None = None
) -> nn.Module:
    """A copy in evaluation mode in which our layers are replaced by plain ones that compute the same.

    >>> standard_modules(nn.Sequential(QuantAct(3)))(torch.tensor([0.2, 0.3, 0.8])).tolist()
    [0.0, 0.5, 1.0]
    """
    plain = copied(model).cpu().float().eval()
    replaced = replacement or _replacement
    if isinstance(plain, QuantAct):
        return replaced(plain)
    for module in list(plain.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, QuantAct) or is_binary_weight(child):
                setattr(module, name, replaced(child))
    return plain


def _replacement(module: nn.Module) -> nn.Module:
    if isinstance(module, QuantAct):
        return nn.ReLU() if module.levels is None else _Levels(module)
    plain = copy.deepcopy(module)
    assert isinstance(plain, nn.Conv1d | nn.Conv2d | nn.Linear)
    with torch.no_grad():
        plain.weight.copy_(binarize_weight(plain.weight.detach()))
    plain.__class__ = next(kind for kind in (nn.Conv1d, nn.Conv2d, nn.Linear) if isinstance(plain, kind))
    return plain
