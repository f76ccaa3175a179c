"""The list of published architectures: each entry makes a small one and an example input."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Make = Callable[[], tuple[nn.Module, Tensor]]


@dataclass(frozen=True)
class Architecture:
    """A network as its authors write it, small: `what` names what is particular about it."""

    name: str
    paper: str
    what: str
    make: Make


ARCHITECTURES: dict[str, Architecture] = {}


def published(name: str, paper: str, what: str) -> Callable[[Make], Make]:
    """Put a network on the list."""

    def put(make: Make) -> Make:
        ARCHITECTURES[name] = Architecture(name, paper, what, make)
        return make

    return put


def image(size: int, channels: int = 3, batch: int = 4) -> Tensor:
    return torch.randn(batch, channels, size, size)


def classifier(width: int, classes: int = 10) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
