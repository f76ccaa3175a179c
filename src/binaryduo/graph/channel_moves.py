"""Operations that only move channels about: slices, orders, rolls. Which channels come out is found by trying.

A tensor whose values are the numbers of its channels goes through the operation; what comes out says which channel
stands where. So every way of writing a selection is understood by one rule.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx

from binaryduo.graph.operations import Call, Kind, nodes_in

NUMBERS = "numbers"  # in a node's meta: what sizes that forward() computes for it are with the example


def move_kind(call: Call) -> Kind:
    """SELECT where channels alone are picked, POOL where pixels are, OTHER where images are or nothing can be said."""
    before, after = call.shapes[0], call.shape
    known = call.node.meta.get(NUMBERS, {})
    if len(before) < 2 or len(after) < 2 or any(n not in known for n in nodes_in([*call.arguments.values()])):
        return Kind.OTHER
    if len(after) != len(before) and not _keeps_first_two(call.arguments.get("index"), len(before)):
        return Kind.OTHER
    images, channels = _moved_along(call, 0, 1), _moved_along(call, 1)
    if images is None or channels is None or images != list(range(before[0] + 1)):
        return Kind.OTHER
    if _moved_along(call, 1, 1) == list(range(before[1] + 1)):
        return Kind.POOL
    return Kind.SELECT if _pixels_stay(call) else Kind.OTHER


def index_parts(index: Any, ndim: int) -> list[Any]:
    """x[index] with a part for each dimension: dots and what is left out are whole slices.

    >>> index_parts((Ellipsis, 0), 3)
    [slice(None, None, None), slice(None, None, None), 0]
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    missing = [slice(None)] * (ndim - sum(part is not None and part is not Ellipsis for part in parts))
    at = next((at for at, part in enumerate(parts) if part is Ellipsis), None)
    return [*parts, *missing] if at is None else [*parts[:at], *missing, *parts[at + 1 :]]


def _keeps_first_two(index: Any, ndim: int) -> bool:
    """Whether x[index] takes images and channels as they are: x[:, :, 0] or x[..., 0].

    >>> _keeps_first_two((Ellipsis, 0), 4), _keeps_first_two((slice(None), 0), 4)
    (True, False)
    """
    parts = index_parts(index, ndim)
    return len(parts) > 2 and all(isinstance(part, slice) and part == slice(None) for part in parts[:2])


def selected_channels(call: Call) -> list[int]:
    """Which channel of its input stands in each channel of a SELECT's result.

    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> node = graph.call_function(torch.roll, (x, 1, 1))
    >>> from binaryduo.graph.table import recognise
    >>> selected_channels(recognise(node, nn.Module(), {x: (2, 3, 4, 4), node: (2, 3, 4, 4)}))
    [2, 0, 1]
    """
    found = _moved_along(call, 1)
    assert found is not None
    return found


def _moved_along(call: Call, dim: int, more: int = 0) -> list[int] | None:
    """Which entry of a dimension each entry of the result comes from; None where that differs inside of one.

    `more` entries than in the example tell whether it would take all of any number: x[:1] takes all of one.
    """
    shape = list(call.shapes[0])
    shape[0] = shape[0] if dim == 0 else 1  # what is done to one image's channels is done to all
    shape[dim] += more
    numbers = torch.arange(shape[dim], dtype=torch.int32)
    result = run(call, numbers.view([-1 if d == dim else 1 for d in range(len(shape))]).expand(shape))
    if result.dim() <= dim or result.numel() == 0:
        return None
    lines = result.movedim(dim, 0).flatten(1)
    return lines[:, 0].tolist() if bool((lines == lines[:, :1]).all()) else None


def _pixels_stay(call: Call) -> bool:
    shape = call.shapes[0]
    if call.shape[2:] != shape[2:]:
        return False
    pixels = torch.arange(math.prod(shape[2:]), dtype=torch.int32).view(1, 1, *shape[2:])
    return bool((run(call, pixels.expand(1, *shape[1:])) == pixels).all())


def run(call: Call, value: Tensor) -> Tensor:
    """The operation on another tensor, on the CPU wherever the model is."""
    if call.module is None:
        return apply(call.node, value, call.node.meta.get(NUMBERS, {}))
    found: Tensor = copy.deepcopy(call.module).cpu()(value)
    return found


def apply(node: fx.Node, value: Tensor, numbers: Mapping[fx.Node, Any]) -> Tensor:
    """The function or method of a node on another tensor; `numbers` are what forward() computes of its arguments."""
    rest, more = fx.node.map_arg((node.args[1:], dict(node.kwargs)), lambda n: numbers[n])
    if node.op == "call_method":
        name = "reshape" if node.target == "view" else str(node.target)  # of a tensor that is expanded
        return getattr(value, name)(*rest, **more)  # type: ignore[no-any-return]
    assert callable(node.target)
    return node.target(value, *rest, **more)  # type: ignore[no-any-return]
