"""From an analysed model to a program: every call becomes part of an operation, or is refused by name.

The table of operations names the rule of each (`Operation.lower`): a function of `packing.layers` or `packing.moves`.
"""

from collections.abc import Callable
from typing import Any

from torch import fx

from binaryduo.engine.program import Code, Op, Program, Storage
from binaryduo.errors import GraphError
from binaryduo.graph.analysis import Analysis
from binaryduo.graph.operations import Call, Kind
from binaryduo.graph.table import TABLE
from binaryduo.packing import layers, moves
from binaryduo.packing.builder import Builder, Value

Rule = Callable[[Builder, Call, Value], Value]


def rule_of(name: str) -> Rule:
    """The rule that the table names.

    >>> rule_of("max_pool").__name__
    'max_pool'
    """
    found: Rule = getattr(layers, name, None) or getattr(moves, name)
    return found


def parts() -> str:
    """What can be packed, by the names of the table."""
    return ", ".join(row.name.replace("_", " ") for row in TABLE if row.lower is not None)


def lower(analysis: Analysis, half: bool = False) -> Program:
    """The program of an analysed model; raises GraphError, with the module's name, on what cannot be packed."""
    builder = Builder(analysis, half)
    output: Value | None = None
    for node in analysis.graph.nodes:
        if node.op == "output":
            if not isinstance(node.args[0], fx.Node):
                raise GraphError("a model with more than one output cannot be packed")
            output = builder.values[node.args[0]]
        elif node.op == "placeholder":
            if analysis.info[node].kind is Kind.SCALAR:
                continue  # an argument that keeps its default
            if builder.values:
                raise GraphError("a model with more than one input cannot be packed")
            shape = builder.image_shape(node)
            builder.values[node] = Value(node, shape, stored=builder.tensor(node.name, Storage.FLOAT, shape))
        elif analysis.info[node].kind is not Kind.SCALAR:
            builder.values[node] = _visit(builder, node)
    assert output is not None
    last = builder.floats(output)
    program = builder.program
    if last != len(program.tensors) - 1 or not program.ops:  # the output is the last tensor
        out = builder.tensor("output", Storage.FLOAT, output.shape)
        program.ops.append(Op("output", Code.POINTWISE, last, channels=output.shape[0], out_float=out))
    return program


def _visit(builder: Builder, node: fx.Node) -> Value:
    call = builder.analysis.info[node].call
    sources: list[Any] = [builder.values[n] for n in node.all_input_nodes if n in builder.values]
    if not sources or node.op == "get_attr":
        raise builder.refuse(node, "it does not work on the model's input")
    if call.operation.lower is None or (call.operation.name == "cast" and call.kind is Kind.OTHER):
        raise builder.refuse(node, f"the operations that can be packed are {parts()}")
    return rule_of(call.operation.lower)(builder, call, sources[0])
