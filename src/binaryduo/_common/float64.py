"""Everything in float64, also where a model casts by itself."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_NARROWER = (torch.float32, torch.float16, torch.bfloat16)


class AllFloat64(TorchDispatchMode):
    """Within it a cast to a narrower floating type, as `x.float()` in a forward(), is one to float64.

    >>> with AllFloat64():
    ...     torch.ones(1, dtype=torch.float64).float().dtype
    torch.float64
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
            args = tuple(_widest(value) for value in args)
            kwargs = {key: _widest(value) for key, value in kwargs.items()}
            # The cast of a tensor to the type it has is the tensor itself: a change in place is seen by both.
            if args[0].dtype == torch.float64 and {**kwargs, "dtype": None} == dict.fromkeys(
                ("dtype", *kwargs)
            ):
                return args[0]
        return func(*args, **kwargs)


def _widest(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROWER else value
