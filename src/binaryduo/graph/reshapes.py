"""Where reshapes, means and pools put a tensor's channels."""

import math
from typing import Any

from binaryduo.graph.channel_moves import move_kind
from binaryduo.graph.operations import Call


def permutation(call: Call) -> list[int] | None:
    """The dimensions' new order for a permute or transpose with literal arguments."""
    ndim = len(call.shapes[0])
    if not call.literal(*call.arguments):
        return None
    if call.operation.name == "transpose":
        order = list(range(ndim))
        one, two = call["dim0"] % ndim, call["dim1"] % ndim
        order[one], order[two] = two, one
        return order
    dims = [d % ndim for d in call["dims"]]
    return dims if len(dims) == ndim else None


def channels_after_reshape(call: Call, dim: int) -> tuple[int, int] | None:
    """Where a RESHAPE puts the channels, and how many values of each channel it lays side by side there.

    None where channels are torn apart or mixed with the batch.
    """
    before, after, name = call.shapes[0], call.shape, call.operation.name
    ndim = len(before)
    if name in ("permute", "transpose"):
        order = permutation(call)
        return (order.index(dim), 1) if order is not None and order[0] == 0 else None
    if name == "unsqueeze":
        at = call["dim"] % (ndim + 1) if isinstance(call["dim"], int) else 0
        return (dim + (at <= dim), 1) if at > 0 else None
    if name == "squeeze":
        wanted: Any = list(range(ndim)) if call["dim"] is None else call["dim"]
        several = [wanted] if isinstance(wanted, int) else list(wanted)
        gone = [d % ndim for d in several if isinstance(d, int) and before[d] == 1]
        return (dim - sum(d < dim for d in gone), 1) if dim not in gone and 0 not in gone else None
    if name == "flatten":
        first, last = call["start_dim"], call["end_dim"]
        if not isinstance(first, int) or not isinstance(last, int) or first % ndim < dim:
            return None
        return dim, math.prod(before[dim + 1 : last % ndim + 1]) if first % ndim == dim else 1
    if ndim == 1 and math.prod(after) == max(after) == before[0]:  # a parameter: bias.view(1, -1, 1, 1)
        return after.index(before[0]), 1
    if dim == 1 and min(len(after), ndim) >= 2 and after[0] == before[0]:
        if after[1] == before[1]:
            return 1, 1
        if len(after) == 2:
            return 1, math.prod(before[2:])
    return None


def channel_dim_after_pool(call: Call, dim: int) -> int | None:
    """Where a tensor's channels are after a POOL or WEIGHTED call; None where it mixes or moves them."""
    ndim, name = len(call.shapes[0]), call.operation.name
    if name in ("identity", "cast") or (name == "dropout" and spatial_dims(call) is None):
        return dim
    if "keepdim" in call.arguments:  # a mean, a sum, the largest or smallest value
        dims = reduced_dims(call)
        if not dims or dim in dims or 0 in dims:
            return None
        return dim if call["keepdim"] is True else dim - sum(d < dim for d in dims)
    wanted = spatial_dims(call)  # a pool takes a tensor with one dimension less for a single image
    fits = ndim >= 3 and (wanted is None or ndim == wanted + 2)
    moves = call.operation.kind is move_kind
    return 1 if dim == 1 and (fits or moves) else None


def reduced_dims(call: Call) -> list[int]:
    """Over which dimensions a mean, sum or maximum goes; none where that is not written as numbers."""
    dims = call["dim"]
    several = list(dims) if isinstance(dims, tuple | list) else [dims]
    if not all(isinstance(d, int) for d in several) or not isinstance(call["keepdim"], bool):
        return []
    return [d % len(call.shapes[0]) for d in several]


def spatial_dims(call: Call) -> int | None:
    """1 or 2 for operations called …1d and …2d, None for others."""
    target = call.node.target
    name = type(call.module).__name__ if call.module is not None else getattr(target, "__name__", str(target))
    return {"1d": 1, "2d": 2, "3d": 3}.get(name[-2:])
