"""Inputs, outputs and targets: a tensor, or tuples, lists, dictionaries and data classes of them."""

import copy
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

MOST_NAMED = 6  # parts of a structure that an error lists


def mapped(part: Any, change: Callable[[Tensor], Any]) -> Any:
    """The same structure with each tensor changed; what is no tensor stays as it is.

    >>> mapped({"a": torch.zeros(2, 3), "b": (torch.zeros(2), "x")}, lambda t: list(t.shape))
    {'a': [2, 3], 'b': ([2], 'x')}
    """
    if isinstance(part, Tensor):
        return change(part)
    if isinstance(part, dict):
        return {key: mapped(value, change) for key, value in part.items()}
    if isinstance(part, tuple) and hasattr(part, "_fields"):  # a named tuple takes its values one by one
        return type(part)(*(mapped(value, change) for value in part))
    if isinstance(part, tuple | list):
        return type(part)(mapped(value, change) for value in part)
    if is_dataclass(part) and not isinstance(part, type):
        made = copy.copy(part)
        for field in fields(part):  # also of a frozen one
            object.__setattr__(made, field.name, mapped(getattr(part, field.name), change))
        return made
    return part


def moved(part: Any, like: Tensor, images: bool = True) -> Any:
    """On the device of a parameter; real numbers in its type; indices and masks as they are.

    Bytes are pixels, and become numbers too, where the tensors are `images`; among targets they are labels.

    >>> [t.dtype for t in moved((torch.zeros(1).double(), torch.tensor([7])), torch.zeros(1))]
    [torch.float32, torch.int64]
    """

    def move(tensor: Tensor) -> Tensor:
        number = tensor.is_floating_point() or (images and tensor.dtype == torch.uint8)
        return tensor.to(like.device, like.dtype if number else tensor.dtype, non_blocking=True)

    return mapped(part, move)


def call(model: Callable[..., Any], inputs: Any) -> Any:
    """The model's output: several inputs are given one by one, those of a dictionary by their names."""
    if isinstance(inputs, dict):
        return model(**inputs)
    if isinstance(inputs, tuple | list):
        return model(*inputs)
    return model(inputs)


def rows(part: Any, keep: Tensor) -> Any:
    """Those examples of a batch that are kept: `keep` is a mask (N,)."""
    return mapped(part, lambda t: t[keep] if t.dim() and len(t) == len(keep) else t)


def described(part: Any) -> str:
    """A structure in words, for an error.

    >>> described((torch.zeros(2, 3), torch.zeros(2).long()))
    'a tuple of float32 (2, 3), int64 (2,)'
    """
    if isinstance(part, Tensor):
        return f"{str(part.dtype).removeprefix('torch.')} {tuple(part.shape)}"
    if isinstance(part, dict):
        return "a dict of " + ", ".join(f"{key!r}: {described(value)}" for key, value in part.items())
    if isinstance(part, tuple | list):
        more = f", … ({len(part)} in all)" if len(part) > MOST_NAMED else ""
        return f"a {type(part).__name__} of " + ", ".join(map(described, part[:MOST_NAMED])) + more
    return f"an object of type {type(part).__name__}"
