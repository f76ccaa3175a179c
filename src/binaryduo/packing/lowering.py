"""From an analysed model to a program: every call becomes part of an operation, or is refused by name.

The table of operations names the rule of each (`Operation.lower`): a function of `packing.layers`, `packing.moves` or
`packing.floats`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from binaryduo.engine.program import Code, Op, Program, Storage
from binaryduo.errors import GraphError
from binaryduo.graph.analysis import Analysis
from binaryduo.graph.operations import Call, Kind, nodes_in
from binaryduo.packing import floats, layers, moves
from binaryduo.packing.builder import Builder, Value

_UNLISTED = (
    "it is not in the list of operations that packed models have (docs/supported.md). bd.export_onnx may be able to "
    "write such a model"
)
Rule = Callable[[Builder, Call, Value], Value]


def rule_of(name: str) -> Rule:
    """The rule that the table names.

    >>> rule_of("max_pool").__name__
    'max_pool'
    """
    found: Rule = getattr(layers, name, None) or getattr(moves, name, None) or getattr(floats, name)
    return found


def lower(analysis: Analysis, half: bool = False, numbers: dict[fx.Node, Any] | None = None) -> Program:
    """The program of an analysed model; raises GraphError, with the module's name, on what cannot be packed.

    `numbers` are the values of what is no tensor, as sizes that forward() computes with.
    """
    builder = Builder(analysis, half, numbers)
    _refuse_modules(builder)
    outputs: list[Value] = []
    for node in analysis.graph.nodes:
        if node.op == "output":
            if any(n not in builder.values for n in nodes_in(node.args)):
                raise GraphError("an output of the model does not depend on its input: it cannot be packed")
            outputs = [builder.values[n] for n in nodes_in(node.args)]
        elif node.op == "placeholder":
            if analysis.info[node].kind is Kind.SCALAR:
                continue  # an argument that keeps its default
            if builder.values:
                raise GraphError("a model with more than one input cannot be packed")
            shape = builder.image_shape(node)
            builder.values[node] = Value(node, shape, stored=builder.tensor(node.name, Storage.FLOAT, shape))
        elif analysis.info[node].kind is not Kind.SCALAR:
            _visit(builder, node)
    _finish(builder, outputs)
    return builder.program


def _refuse_modules(builder: Builder) -> None:
    """Name a module with weights that cannot be packed, rather than a reshape in front of it."""
    for node in builder.analysis.of_kind(Kind.OTHER):
        call = builder.analysis.info[node].call
        weighted = call.module is not None and next(call.module.parameters(), None) is not None
        if weighted and call.operation.lower is None:
            raise builder.refuse(node, call.operation.instead or _UNLISTED)


def _finish(builder: Builder, outputs: list[Value]) -> None:
    """Store the outputs: one as the last tensor, several marked, each a tensor of its own."""
    program, taken = builder.program, {0}
    for position, output in enumerate(outputs, 1):
        number = builder.floats(output)
        last = number == len(program.tensors) - 1
        if number in taken or (len(outputs) == 1 and not last):
            source = number
            number = builder.tensor(f"output {position}", Storage.FLOAT, output.shape)
            op = Op(f"output {position}", Code.POINTWISE, source, channels=output.shape[0], out_float=number)
            program.ops.append(op)
        taken.add(number)
        if len(outputs) > 1:
            program.tensors[number].output = position


def _visit(builder: Builder, node: fx.Node) -> None:
    """Make a node a value of the program, or a constant where it does not depend on the input."""
    call = builder.analysis.info[node].call
    sources: list[Any] = [builder.values[n] for n in node.all_input_nodes if n in builder.values]
    if not sources:
        builder.constants[node] = _constant(builder, node)
    elif call.operation.name == "expand_as" and call.sources[0] in builder.constants:
        builder.constants[node] = builder.constants[call.sources[0]]
    elif call.operation.lower is None or (call.operation.name == "cast" and call.kind is Kind.OTHER):
        raise builder.refuse(node, call.operation.instead or _UNLISTED)
    else:
        builder.values[node] = rule_of(call.operation.lower)(builder, call, sources[0])


def _constant(builder: Builder, node: fx.Node) -> Tensor:
    """A parameter, or what forward() computes of parameters alone, in float64."""
    known = {**builder.numbers, **builder.constants}
    if node.op == "get_attr":
        path, _, attribute = str(node.target).rpartition(".")
        value: Any = getattr(builder.wide.get_submodule(path), attribute)
        return value.detach()  # type: ignore[no-any-return]
    if not node.all_input_nodes or any(n not in known for n in node.all_input_nodes):
        raise builder.refuse(node, "it does not work on the model's input")
    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: known[n])
    with torch.no_grad():
        if node.op == "call_module":
            found: Tensor = builder.wide.get_submodule(str(node.target))(*args, **kwargs)
        elif node.op == "call_method":
            found = getattr(args[0], str(node.target))(*args[1:], **kwargs)
        else:
            assert callable(node.target)
            found = node.target(*args, **kwargs)
    return found
