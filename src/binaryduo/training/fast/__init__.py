"""The kernels that make a training step fast on CPUs, and the one way to use them: `with fast(model):`."""

from collections.abc import Callable
from types import TracebackType
from typing import Any

from torch import nn

from binaryduo.training.fast import convolution, norm


class Fast:
    """Within it, the model's suitable layers compute by this package's kernels in training.

    The modules stay what they are: only the methods that they would call are shadowed, on the instances, from
    entering to leaving, however that comes about. A method that the user has put on an instance or in a class
    is never shadowed, and one put there meanwhile is left. Looking for the layers is done once, when this is
    made; entering costs some microseconds, so that a step can be wrapped each time.
    """

    def __init__(self, model: nn.Module) -> None:
        found = model.modules() if convolution.available() else ()
        self.convolutions = [module for module in found if convolution.suits(module)]
        self.pairs = [norm.Pair(*two) for two in norm.pairs(model)] if norm.available() else []
        paired = {pair.norm for pair in self.pairs}
        others = [module for module in model.modules() if module not in paired] if norm.available() else []
        self.norms = [norm.Alone(module) for module in others if norm.suits_alone(module)]  # type: ignore[arg-type]
        self._shadows: list[tuple[nn.Module, str, Callable[..., Any]]] = []

    def __len__(self) -> int:
        """How many layers, or pairs of layers, are computed by other kernels."""
        return len(self.convolutions) + len(self.pairs) + len(self.norms)

    def __enter__(self) -> "Fast":
        if self._shadows:
            raise RuntimeError("this has been entered already")
        for module in self.convolutions:
            if convolution.suits(module):  # still: the user may have given it a method of its own
                self._shadow(module, "_conv_forward", convolution.Shadow(module))  # type: ignore[arg-type]
        for pair in self.pairs:
            if norm.suits(pair.norm, pair.act):
                self._shadow(pair.norm, "forward", pair.normalise)
                self._shadow(pair.act, "forward", pair.activate)
        for alone in self.norms:
            if norm.suits_alone(alone.norm):
                self._shadow(alone.norm, "forward", alone.normalise)
        return self

    def _shadow(self, module: nn.Module, name: str, method: Callable[..., Any]) -> None:
        module.__dict__[name] = method
        self._shadows.append((module, name, method))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._shadows:
            module, name, method = self._shadows.pop()
            if module.__dict__.get(name) is method:
                del module.__dict__[name]
        for pair in self.pairs:
            pair.quantized = None


def fast(model: nn.Module) -> Fast:
    """A context in which a training step of the model uses the fast kernels; it leaves no trace.

    >>> net = nn.Conv2d(16, 16, 3, padding=1)
    >>> with fast(net) as layers:
    ...     "_conv_forward" in vars(net), len(layers)
    (True, 1)
    >>> "_conv_forward" in vars(net)
    False
    """
    return Fast(model)
