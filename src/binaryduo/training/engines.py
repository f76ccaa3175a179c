"""How a step is computed: plainly, with this package's fast kernels, or compiled. Chosen by measuring.

eager     PyTorch as it is, channels_last
compile   torch.compile; needs a C++ compiler or a GPU, and half a minute to begin with
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from binaryduo._common.allocator import keep_memory
from binaryduo._common.progress import console
from binaryduo.training.fast import convolution, norm

COMPILE_PAYS_AFTER = 20 * 60  # seconds: a shorter run would spend too much of its time on compiling


def say(text: str) -> None:
    """A line on stderr, beside the progress bar."""
    console.print(text, markup=False, highlight=False)


def fast_applies(model: nn.Module, device: torch.device) -> bool:
    """Whether the engine "fast" has anything to offer for this model on this device."""
    return (
        device.type == "cpu"
        and convolution.available()
        and any(convolution.suits(m) for m in model.modules())
    )


def remove_fast(model: nn.Module) -> None:
    """The model as it computes by itself again."""
    convolution.remove(model)
    norm.remove(model)


def prepare(model: nn.Module, engine: str) -> nn.Module:
    """The forward pass of the model under an engine; the parameters stay the model's own."""
    if engine == "fast" and not convolution.available():
        say("engine fast: its native part is not installed here; eager is used, equal to rounding")
    elif engine == "fast":
        keep_memory()
        if not convolution.install(model) + norm.install(model):
            say("engine fast: nothing in this network can use it")
    if engine == "compile":
        compiled = torch.compile(model, dynamic=False)
        assert isinstance(compiled, nn.Module)
        return compiled
    return model


def seconds_per_step(
    forward: Callable[[Tensor], Tensor], step: Callable[[Callable[[Tensor], Tensor]], None]
) -> float:
    """The median of three steps after one that does not count."""
    step(forward)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        step(forward)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


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
            remove_fast(model)
            with torch.no_grad():
                for name, tensor in model.state_dict().items():
                    tensor.copy_(before[name])
            model.zero_grad(set_to_none=True)
    return found
