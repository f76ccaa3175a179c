"""Who takes a number of channels from a tensor, and what becomes of it: x.shape[1], x.size(1), x.numel()."""

from collections.abc import Iterator

import torch
from torch import fx


def size_readers(tensor: fx.Node, scalars: set[fx.Node], dim: int, ndim: int) -> Iterator[fx.Node]:
    """The nodes that take the number of channels, or an unknown number, from a tensor: x.shape[1]."""
    for user in tensor.users:
        if user not in scalars:
            continue
        whole = user.target in (getattr, "size") and len(user.args) == (2 if user.target is getattr else 1)
        if user.target is getattr and user.args[1] != "shape":
            continue  # x.device, x.dtype
        if user.target in ("dim", "ndimension", "get_device"):
            continue
        if user.target == "size" and not whole:
            if isinstance(user.args[1], int) and user.args[1] % ndim != dim:
                continue
            yield user
        elif whole:
            for entry in user.users:
                at = entry.args[1] if len(entry.args) > 1 and entry in scalars else None
                span = range(ndim)[at] if isinstance(at, int | slice) else range(ndim)
                if dim in (span if isinstance(span, range) else [span]):
                    yield entry if entry in scalars else user
        else:
            yield user


def consumers(number: fx.Node, scalars: set[fx.Node]) -> set[fx.Node]:
    """The operations that a number goes into in the end, through arithmetic; an assertion is one of them."""
    if number not in scalars or number.target is torch._assert:
        return {number}
    return {end for user in number.users for end in consumers(user, scalars)}


def origins(number: fx.Node, scalars: set[fx.Node]) -> set[fx.Node]:
    """The tensors that a number was read from, through arithmetic."""
    if number not in scalars:
        return {number}
    return {start for source in number.all_input_nodes for start in origins(source, scalars)}
