"""What a network returns, as one tensor: several outputs side by side, and back again for the loss."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, fx

from binaryduo.errors import ArgumentError
from binaryduo.graph.operations import nodes_in
from binaryduo.graph.tracing import is_record, tensors_in


def flat(output: Any) -> Tensor:
    """One tensor as it is; tensors in tuples, lists, dictionaries and data classes as (N, all their values).

    >>> flat({"label": torch.zeros(2, 3), "box": torch.ones(2, 2, 2)}).shape
    torch.Size([2, 7])
    """
    if isinstance(output, Tensor):
        return output
    tensors = list(tensors_in(output))
    images = {tensor.shape[:1] for tensor in tensors}
    if len(images) != 1 or () in images:
        raise ArgumentError(
            f"the model returns {type(output).__name__} without tensors that have one entry for each sample: wrap it "
            "so that it does"
        )
    return torch.cat([tensor.flatten(1) for tensor in tensors], 1)


def loss_of_flat(loss: Callable[[Any, Any], Tensor], output: Any) -> Callable[[Tensor, Any], Tensor]:
    """The loss as a function of the flat output, where the network returns outputs like this one.

    >>> output = (torch.rand(2, 3), torch.rand(2, 4, 5))
    >>> loss_of_flat(lambda found, _: found[1].sum(), output)(flat(output), None) == output[1].sum()
    tensor(True)
    """
    if isinstance(output, Tensor):
        return loss
    shapes = [tuple(tensor.shape[1:]) for tensor in tensors_in(output)]

    def restored(values: Tensor, targets: Any) -> Tensor:
        sizes = [torch.Size(shape).numel() for shape in shapes]
        parts = (
            p.view(len(p), *shape) for p, shape in zip(torch.split(values, sizes, 1), shapes, strict=True)
        )
        return loss(_like(output, parts), targets)

    return restored


def _like(output: Any, parts: Iterator[Tensor]) -> Any:
    """The same structure with other tensors, in the order in which `tensors_in` finds them."""
    if isinstance(output, Tensor):
        return next(parts)
    if isinstance(output, dict):
        return {name: _like(value, parts) for name, value in output.items()}
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return type(output)(*(_like(value, parts) for value in output))
    if isinstance(output, list | tuple):
        return type(output)(_like(value, parts) for value in output)
    if is_dataclass(output) and not isinstance(output, type):
        made = copy.copy(output)
        for field in fields(output):  # also of a frozen one
            object.__setattr__(made, field.name, _like(getattr(output, field.name), parts))
        return made
    return output


def flatten_graph(graph: fx.Graph) -> None:
    """Let a traced graph return its outputs as one tensor."""
    (end,) = (node for node in graph.nodes if node.op == "output")
    if not nodes_in(end.args[0]) or (isinstance(end.args[0], fx.Node) and not is_record(end.args[0])):
        return
    with graph.inserting_before(end):
        end.args = (graph.call_function(flat, (end.args[0],)),)
