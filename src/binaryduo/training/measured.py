"""What is decided by measuring before a run begins; kept in every checkpoint and never measured again."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from binaryduo._common.progress import say
from binaryduo.data import Plan
from binaryduo.errors import ArgumentError, CheckpointError, DataError
from binaryduo.graph.tracing import tensors_in
from binaryduo.training import engines
from binaryduo.training.batches import call, moved
from binaryduo.training.devices import mean_over_processes
from binaryduo.training.fast import fast
from binaryduo.training.recipe import from_dict

if TYPE_CHECKING:
    from binaryduo.training.loop import Trainer
    from binaryduo.training.state import RunState

TESTING_SHARE = 0.05  # of a budget


@dataclass(frozen=True)
class Measured:
    """The engine, the length of the run, how often it is tested, and what was measured to find them."""

    engine: Literal["eager", "fast", "compile"]
    total_steps: int
    test_every: int
    measured: dict[str, float]


def measure_open_settings(trainer: "Trainer") -> Measured:
    """Decide all that the recipe leaves open."""
    began = time.monotonic()
    loop, stage, per_epoch = trainer.loop, trainer.stage, trainer.per_epoch
    total = per_epoch * stage.epochs
    engine: str = loop.engine
    measured: dict[str, float] = {}
    if stage.minutes is not None or engine == "auto":
        engine, measured = _measure_engines(trainer, total)
    every = 1 if loop.test_every is None else loop.test_every
    if stage.minutes is not None:
        testing = _seconds_of_a_test(trainer)
        budget = 60 * stage.minutes - (time.monotonic() - began)
        total, every = fit_budget(budget, measured[engine], per_epoch, testing, loop.test_every)
        say(
            f"{trainer.title}: {measured[engine]:.3f} s per step, {testing:.1f} s per test: {total} steps "
            f"({total / per_epoch:.1f} epochs) in {stage.minutes:g} minutes, tested every {every} epochs"
        )
    return from_dict(
        Measured,
        {"engine": engine, "total_steps": total, "test_every": every, "measured": measured},
    )


def settled(trainer: "Trainer", state: "RunState", same: bool, origin: Path) -> Measured:
    """What a run that is continued goes on with: what was chosen when it began.

    As far as the recipe says it, it must say the same; with `same` False, settings were changed on purpose, and the
    new ones hold from here on.
    """
    loop, stage, chosen = trainer.loop, trainer.stage, state.chosen
    assert chosen is not None
    total = chosen.total_steps if stage.minutes is not None else trainer.per_epoch * stage.epochs
    every = chosen.test_every
    if loop.test_every is not None or stage.minutes is None:
        every = 1 if loop.test_every is None else loop.test_every
    wanted = replace(
        chosen,
        engine=chosen.engine if loop.engine == "auto" else loop.engine,
        total_steps=total,
        test_every=every,
    )
    if same and wanted != chosen:
        raise CheckpointError(
            f"{origin} is of a run of {chosen.total_steps} steps, tested every {chosen.test_every} epochs with the "
            f"engine {chosen.engine}, and the recipe with these images gives {wanted.total_steps} steps, "
            f"{wanted.test_every} epochs and {wanted.engine}: the images or the files have changed"
        )
    if state.step > wanted.total_steps:
        raise ArgumentError(
            f"{state.step} steps are trained already, and the run would now have {wanted.total_steps}: "
            "it can be made longer, not shorter than it is"
        )
    return wanted


def fit_budget(
    seconds: float, step: float, per_epoch: int, test: float, every: int | None = None
) -> tuple[int, int]:
    """(steps, epochs between tests) that fill a time: as many steps as it holds beside its tests.

    Unless `every` says otherwise, testing takes about 5 % of the time.

    >>> fit_budget(100.0, step=0.1, per_epoch=100, test=1.0)
    (950, 2)
    """
    epochs = seconds / (step * per_epoch)
    if every is None:
        allowed = max(1.0, TESTING_SHARE * seconds / max(test, 1e-9))
        every = max(1, math.ceil(epochs / allowed))
    tests = max(1, math.ceil(epochs / every))
    return max(1, round((seconds - tests * test) / step)), every


def _measure_engines(trainer: "Trainer", total: int) -> tuple[str, dict[str, float]]:
    """The fastest engine and the seconds a step that each took; the same answer in every process."""
    loop, stage, fabric = trainer.loop, trainer.stage, trainer.fabric
    engine: str = loop.engine
    if engine == "auto" and fabric.world_size > 1:
        engine = "eager"
    candidates = ["eager"] if engine == "auto" else [engine]
    if engine == "auto" and fabric.device.type == "cpu" and len(fast(trainer.model)):
        candidates.append("fast")
    if candidates == ["eager"] and stage.minutes is None and not _may_compile(fabric.device, total, None):
        return "eager", {}
    step = _trial_step(trainer)
    measured = engines.measure(trainer.model, candidates, step)
    if not measured:  # eager raises its own error
        raise ArgumentError(
            f"the engine {engine} does not work here, for the reason above: set loop.engine to eager, or to auto for "
            "the fastest one that works"
        )
    best = min(measured, key=lambda name: measured[name])
    seconds = total * measured[best] if stage.minutes is None else 60 * stage.minutes
    if engine == "auto" and _may_compile(fabric.device, total, seconds):
        measured |= engines.measure(trainer.model, ["compile"], step)
        best = min(measured, key=lambda name: measured[name])
    if fabric.world_size > 1:
        measured = {best: mean_over_processes(fabric, measured[best])}
    if len(measured) > 1:
        times = ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
        say(f"{trainer.title}: engine {best} (seconds per step: {times})")
    return best, measured


def _may_compile(device: torch.device, total: int, seconds: float | None) -> bool:
    """Whether compiling is worth a try: on a GPU always, on a CPU for a long run."""
    if device.type == "cuda":
        return True
    return total > 1000 if seconds is None else seconds > engines.COMPILE_PAYS_AFTER


def _trial_step(trainer: "Trainer") -> Callable[[Callable[[Tensor], Tensor]], None]:
    """Data, forward and backward pass of one step; no parameter changes."""
    plan = Plan(trainer.loop.batch, True, trainer.loop.seed, 0, 0, 0, trainer.fabric.world_size)
    batches = trainer.train.batches(plan)

    def step(forward: Callable[[Tensor], Tensor]) -> None:
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            batches = trainer.train.batches(plan)
            batch = next(batches)
        like = next(trainer.model.parameters())
        trainer.model.train()
        with trainer.fabric.autocast():
            output = call(forward, moved(batch.images, like))
            target = trainer.task.targets(output, moved(batch.labels, like, images=False))
            loss = trainer.task.training_loss(output, target)
        loss.backward()  # type: ignore[no-untyped-call]
        for parameter in trainer.model.parameters():
            parameter.grad = None
        loss.item()

    return step


def _seconds_of_a_test(trainer: "Trainer") -> float:
    """What one pass over the test split will take, from its second batch."""
    if trainer.test is None:
        return 0.0
    like = next(trainer.model.parameters())
    plan = Plan(trainer.loop.test_batch - trainer.loop.test_batch % trainer.fabric.world_size, False)
    times = []
    trainer.model.eval()
    with torch.no_grad():
        for number, batch in enumerate(trainer.test.batches(plan)):
            start = time.perf_counter()
            next(tensors_in(call(trainer.model, moved(batch.images, like)))).sum().item()
            times.append(time.perf_counter() - start)
            if number == 1:
                break
    try:
        batches = trainer.test.steps(plan)
    except DataError:  # to test, a loader needs no length
        batches = sum(1 for _ in trainer.test.batches(plan))
    return times[-1] * batches / trainer.fabric.world_size
