"""The largest or smallest values along one dimension, as `torch.max(x, dim)[0]` and `torch.min(x, dim)[0]` give them.

Not `torch.amax`: where several values are equal, as bits are, that one shares the gradient out among them.
"""

import torch
from torch import Tensor


@torch.fx.wrap
def largest(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """The largest values along a dimension, without their places.

    >>> largest(torch.tensor([[1.0, 3.0], [5.0, 2.0]]), 1).tolist()
    [3.0, 5.0]
    """
    return torch.max(x, dim, keepdim).values


@torch.fx.wrap
def smallest(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """The smallest values along a dimension, without their places.

    >>> smallest(torch.tensor([[1.0, 3.0], [5.0, 2.0]]), 1).tolist()
    [1.0, 2.0]
    """
    return torch.min(x, dim, keepdim).values
