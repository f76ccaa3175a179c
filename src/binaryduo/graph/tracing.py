"""A model's graph by torch.fx, with its own module names, and the shape of every tensor in it."""

import copy
import inspect
import operator
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryduo.errors import GraphError
from binaryduo.graph.tracer import Tracer

_INPLACE_OPERATORS = (operator.iadd, operator.isub, operator.imul, operator.itruediv)


def unwrap(model: nn.Module) -> nn.Module:
    """The model itself where `torch.compile`, averaging or a data-parallel wrapper is around it: wrap the result again.

    >>> unwrap(nn.DataParallel(nn.ReLU()))
    ReLU()
    """
    inner = getattr(model, "_orig_mod", None)
    averaged = torch.optim.swa_utils.AveragedModel
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel | averaged):
        inner = model.module
    return unwrap(inner) if isinstance(inner, nn.Module) else model


def copied(model: nn.Module) -> nn.Module:
    """A deep copy of the model, out of its compiled wrapper; names the module that cannot be copied.

    >>> copied(nn.ReLU())
    ReLU()
    """
    model = unwrap(model)
    if isinstance(model, torch.jit.ScriptModule):
        raise GraphError(
            "a scripted model (torch.jit) cannot be traced by torch.fx: pass the model that it was scripted from"
        )
    try:
        return copy.deepcopy(model)
    except Exception as error:
        for name, module in model.named_modules():
            for key, value in vars(module).items():
                if isinstance(value, Tensor) and not value.is_leaf:
                    raise GraphError(
                        f"module {name!r} computes its {key!r} from other parameters (weight_norm, "
                        f"spectral_norm, pruning): remove that first, add it again to the result"
                    ) from error
        raise GraphError(f"{type(model).__name__} cannot be copied: {error}") from error


def defaults(model: nn.Module, given: int) -> dict[str, Any] | None:
    """The arguments of forward() behind the first `given` that have defaults, as torch.fx takes them; None for none."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        raise GraphError(
            f"forward() of {type(model).__name__} takes **{parameters[-1].name}, which cannot be followed: name its "
            f"arguments"
        )
    parameters = parameters[given:]
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty} or None


def trace(model: nn.Module, inputs: "int | tuple[Tensor, ...]" = 1) -> fx.Graph:
    """The model's graph, with its own module names; refuses what fx cannot follow, and says why.

    `inputs` are an example of the first arguments of forward(), whose sizes are then known, or how many there are; the
    others keep their defaults.

    >>> [n.op for n in trace(nn.Sequential(nn.ReLU())).nodes]
    ['placeholder', 'call_module', 'output']
    """
    given, examples = (inputs, ()) if isinstance(inputs, int) else (len(inputs), inputs)
    try:
        return Tracer(examples).trace(model, defaults(model, given))
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise GraphError(
            f"{type(model).__name__} cannot be traced by torch.fx: {first}. Control flow that depends on "
            f"data cannot be followed; move it out of forward(), or mark the helper with torch.fx.wrap"
        ) from error


def check_training_path(model: nn.Module, inputs: "int | tuple[Tensor, ...]") -> None:
    """Refuse layers that forward() calls in training only, which a trace of the evaluation does not see; warn of other
    operations that are left out where forward() has to be rewritten.

    >>> check_training_path(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), 1)
    """
    work = copied(model)
    seen = Counter((node.op, str(node.target)) for node in trace(work.eval(), inputs).nodes)
    try:
        graph = trace(work.train(), inputs)
    except GraphError:
        return  # data-dependent in training only: nothing can be said
    more: list[fx.Node] = []
    for node in graph.nodes:
        key = (node.op, str(node.target))
        seen[key] -= 1
        if seen[key] < 0 and node.op in ("call_module", "call_function", "call_method"):
            more.append(node)
    for node in more:
        weighted = node.op == "call_module" and any(
            True for _ in work.get_submodule(str(node.target)).parameters()
        )
        if weighted:
            raise GraphError(
                f"module {node.target!r} runs in training only, so its channels cannot be followed: call it outside of "
                f"forward(), or in evaluation too"
            )
    if more:
        warnings.warn(
            f"forward() of {type(model).__name__} does more in training ({more[0].name!r}) than in evaluation; where "
            "it has to be rewritten, only what it does in evaluation is kept",
            stacklevel=3,
        )


def as_inputs(example_input: Any) -> tuple[Tensor, ...]:
    """The example as a tuple of tensors; a tensor alone becomes a tuple of one.

    >>> len(as_inputs(torch.zeros(1, 3)))
    1
    """
    inputs = tuple(example_input) if isinstance(example_input, tuple | list) else (example_input,)
    if not inputs or not all(isinstance(t, Tensor) for t in inputs):
        raise GraphError("example_input must be a tensor (or a tuple of tensors) as the model takes it")
    if any(0 in t.shape for t in inputs):
        raise GraphError(
            f"example_input is empty, of the shape {tuple(inputs[0].shape)}: give one example or more"
        )
    return inputs


class _Recorder(fx.Interpreter):
    """Runs the graph and keeps the shape of every tensor; names the node where it fails."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        super().__init__(module, garbage_collect_values=True, graph=graph)
        self.extra_traceback = False
        self.shapes: dict[fx.Node, tuple[int, ...] | None] = {}
        self.numbers: dict[fx.Node, Any] = {}  # sizes and the like

    def run_node(self, n: fx.Node) -> Any:
        try:
            value = super().run_node(n)
        except Exception as error:
            where = f"module {n.target!r}" if n.op == "call_module" else f"operation {n.name!r}"
            raise GraphError(f"the example input does not go through {where}: {error}") from error
        tensors = next(tensors_in(value), None) is not None
        self.shapes[n] = tuple(value.shape) if isinstance(value, Tensor) else () if tensors else None
        if self.shapes[n] is None:
            self.numbers[n] = value
        return value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples, lists, dictionaries and data classes, in order.

    >>> len(list(tensors_in({"a": (torch.zeros(1), 2)})))
    1
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | tuple | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name))


def is_record(node: Any) -> bool:
    """Whether a node only puts the model's outputs together, into a named tuple or a data class.

    >>> from collections import namedtuple
    >>> is_record(fx.Graph().call_function(namedtuple("Found", "label box")))
    True
    """
    if not isinstance(node, fx.Node) or node.op != "call_function" or not isinstance(node.target, type):
        return False
    return is_dataclass(node.target) or (issubclass(node.target, tuple) and hasattr(node.target, "_fields"))


def run_shapes(
    module: nn.Module, graph: fx.Graph, inputs: tuple[Tensor, ...]
) -> tuple[dict[fx.Node, Any], dict[fx.Node, Any]]:
    """The shape of every tensor when the model is run on the inputs (() for a tuple of tensors, None for what is no
    tensor at all), and the values of what is no tensor, such as sizes."""
    recorder = _Recorder(module, graph)
    with torch.no_grad():
        recorder.run(*inputs)
    return recorder.shapes, recorder.numbers


def functionalise(graph: fx.Graph, model: nn.Module) -> None:
    """Let whoever reads a tensor after it was changed in place read the change's result instead, so that a
    conversion inserted before the change does not hide it from them."""
    place = {node: at for at, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        if not node.args or not isinstance(node.args[0], fx.Node) or not _in_place(node, model):
            continue
        for user in list(node.args[0].users):
            if place[user] > place[node]:
                user.replace_input_with(node.args[0], node)


def out_of_place(graph: fx.Graph, model: nn.Module) -> None:
    """Make functions and methods that work in place plain ones; a graph that was functionalised needs no others.

    >>> graph = fx.Graph()
    >>> node = graph.call_method("relu_", (graph.placeholder("x"),))
    >>> out_of_place(graph, nn.Module())
    >>> node.target
    'relu'
    """
    for node in graph.nodes:
        if node.op == "call_module" or not _in_place(node, model):
            continue
        if node.op == "call_method":
            node.target = str(node.target).removesuffix("_")
        elif node.target in _INPLACE_OPERATORS:
            node.target = getattr(operator, node.target.__name__.removeprefix("i"))
        elif "inplace" in node.kwargs:
            node.kwargs = {**node.kwargs, "inplace": False}


def modules_out_of_place(model: nn.Module) -> None:
    """Tell the model's modules not to work in place, so that the value of every node can be kept.

    >>> model = nn.Sequential(nn.ReLU(inplace=True))
    >>> modules_out_of_place(model)
    >>> model[0].inplace
    False
    """
    for module in model.modules():
        if getattr(module, "inplace", False) is True:
            module.inplace = False  # type: ignore[assignment]


def _in_place(node: fx.Node, model: nn.Module) -> bool:
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    if node.op == "call_function":
        name = getattr(node.target, "__name__", "")
        written = node.target in _INPLACE_OPERATORS or (name.endswith("_") and not name.endswith("__"))
        return written or node.kwargs.get("inplace") is True
    return (
        node.op == "call_module" and getattr(model.get_submodule(str(node.target)), "inplace", False) is True
    )
