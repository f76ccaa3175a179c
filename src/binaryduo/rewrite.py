"""Small edits of a traced graph, for where a user's own forward() must change."""

from typing import Any

from torch import fx, nn


def has_literal(node: fx.Node, value: int) -> bool:
    """Whether a number is written out among a node's arguments: the 2048 of x.view(-1, 2048)."""
    found: list[Any] = []
    fx.node.map_aggregate(
        (node.args[1:], dict(node.kwargs)), lambda a: found.append(a) if _is(a, value) else None
    )
    return bool(found)


def replace_literal(node: fx.Node, before: int, after: int) -> None:
    """Write another number in its place."""

    def swap(argument: Any) -> Any:
        return after if _is(argument, before) else argument

    node.args = fx.node.map_aggregate(node.args, swap)
    node.kwargs = fx.node.map_aggregate(dict(node.kwargs), swap)


def _is(argument: Any, value: int) -> bool:
    return isinstance(argument, int) and not isinstance(argument, bool) and argument == value


def restore_dropout(graph: fx.Graph, model: nn.Module) -> None:
    """A traced F.dropout has its `training` flag fixed: make it a module that follows the model's mode."""
    kinds = {nn.functional.dropout: nn.Dropout, nn.functional.dropout2d: nn.Dropout2d}
    for number, node in enumerate(list(graph.nodes)):
        if node.op == "call_function" and node.target in kinds:
            p = node.kwargs.get("p", node.args[1] if len(node.args) > 1 else 0.5)
            source = node.args[0] if node.args else node.kwargs["input"]
            model.add_module(f"dropout_{number}", kinds[node.target](p))
            with graph.inserting_after(node):
                new = graph.call_module(f"dropout_{number}", (source,))
            node.replace_all_uses_with(new)
            graph.erase_node(node)


def to_module(model: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """The model with a changed graph in place of its forward(), in the same modes and under the same name."""
    restore_dropout(graph, model)
    modes = {name: module.training for name, module in model.named_modules()}
    result = fx.GraphModule(model, graph, class_name=type(model).__name__)
    for name, module in result.named_modules():
        module.training = modes.get(name, model.training)
    return result
