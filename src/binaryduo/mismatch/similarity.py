"""How alike two gradients are: the cosine of each layer and of all layers together.

Paper: Algorithm 1, last lines.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from binaryduo.errors import ArgumentError


def cosine(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> dict[str, float]:
    """The cosine of each layer's two gradients, and "total" for all layers strung together.

    A gradient that is zero everywhere has no direction: its cosine is NaN, never a number that looks good.

    >>> one, two = {"fc1": torch.tensor([[1.0, 0.0]])}, {"fc1": torch.tensor([[1.0, 1.0]])}
    >>> {name: round(value, 4) for name, value in cosine(one, two).items()}
    {'fc1': 0.7071, 'total': 0.7071}
    """
    if list(a) != list(b):
        raise ArgumentError(f"the gradients have different layers: {', '.join(a)} and {', '.join(b)}")
    flat_a = {name: torch.as_tensor(g).detach().double().flatten() for name, g in a.items()}
    flat_b = {name: torch.as_tensor(g).detach().double().flatten() for name, g in b.items()}
    for name in a:
        if torch.as_tensor(a[name]).shape != torch.as_tensor(b[name]).shape:
            raise ArgumentError(
                f"layer {name!r} has gradients of shapes {tuple(a[name].shape)} and {tuple(b[name].shape)}"
            )
    out = {name: direction_cosine(flat_a[name], flat_b[name]) for name in a}
    out["total"] = direction_cosine(torch.cat(list(flat_a.values())), torch.cat(list(flat_b.values())))
    return out


def direction_cosine(a: Tensor, b: Tensor) -> float:
    """⟨a, b⟩/(|a||b|) of two vectors, NaN where one of them is zero.

    >>> round(direction_cosine(torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])), 6)
    0.96
    """
    if not (a.any() and b.any()):
        return float("nan")
    a, b = a / a.abs().max(), b / b.abs().max()  # squares of tiny numbers would underflow
    return float((torch.dot(a, b) / (a.norm() * b.norm())).clamp(-1, 1))
