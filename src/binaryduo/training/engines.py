"""How a step is computed: plainly, with this package's fast kernels, or compiled. Chosen by measuring.

eager     PyTorch as it is, channels_last
fast      3×3 convolutions, and BN with its activation, by this package's own kernels; float32 on CPUs
compile   torch.compile; needs a C++ compiler or a GPU, and half a minute to begin with
"""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo._common.allocator import keep_memory
from binaryduo._common.progress import say
from binaryduo.training.fast import convolution, fast, norm

COMPILE_PAYS_AFTER = 20 * 60  # seconds: a shorter run would spend too much of its time on compiling


@dataclass(frozen=True)
class Prepared:
    """A forward pass, and the context in which a step with it (forward and backward) is to be computed."""

    forward: nn.Module
    context: AbstractContextManager[Any]


def prepare(model: nn.Module, engine: str) -> Prepared:
    """A model under an engine; the parameters stay the model's own, and outside of a step so does the rest."""
    context: AbstractContextManager[Any] = nullcontext()
    if engine == "fast" and not (convolution.available() or norm.available()):
        say("the engine fast lacks its native part here; eager is used instead, equal up to rounding")
    elif engine == "fast":
        keep_memory()
        context = layers = fast(model)
        if not len(layers):
            say("engine fast: nothing in this network can use it")
    if engine == "compile":
        compiled = torch.compile(model, dynamic=False)
        assert isinstance(compiled, nn.Module)
        return Prepared(compiled, context)
    return Prepared(model, context)


def seconds_per_step(prepared: Prepared, step: Callable[[Callable[[Tensor], Tensor]], None]) -> float:
    """The median of three steps after one that does not count."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        with prepared.context:
            step(prepared.forward)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def measure(
    model: nn.Module, candidates: list[str], step: Callable[[Callable[[Tensor], Tensor]], None]
) -> dict[str, float]:
    """Seconds a step under each engine that works here; one that does not is named, with its reason.

    The model's parameters and buffers are put back, and its gradients removed.
    """
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found: dict[str, float] = {}
    for engine in candidates:
        try:
            found[engine] = seconds_per_step(prepare(model, engine), step)
        except Exception as error:  # a missing or broken compiler must not stop a run
            if engine == "eager":
                raise
            reason = (str(error).strip().splitlines() or ["no message"])[0][:200]
            say(f"engine {engine} is not used: {type(error).__name__}: {reason}")
        finally:
            with torch.no_grad():
                for name, tensor in model.state_dict().items():
                    tensor.copy_(before[name])
            model.zero_grad(set_to_none=True)
    return found
