"""The learning rate as a pure function of the step, so that nothing about it has to be saved."""

import math
from collections.abc import Callable

from binaryduo.errors import ArgumentError
from binaryduo.training.recipe import Stage

Scheduler = Callable[[int, int], float]  # (step from 0 on, all steps) -> what the rate is multiplied by


def rate(stage: Stage, step: int, total: int, epoch: int) -> float:
    """The learning rate of a 0-based step out of `total`, in a 0-based epoch.

    step: multiplied by gamma when a (1-based) epoch of `drops` begins. cosine: half a cosine down to 0.
    onecycle: a line up over the warm-up, then a line down to 0. `warmup` is a share of all steps.

    >>> stage = Stage(lr=1.0, schedule="step", drops=(121, 161))
    >>> [round(rate(stage, 0, 1, epoch), 3) for epoch in (0, 119, 120, 160)]
    [1.0, 1.0, 0.1, 0.01]
    >>> [rate(Stage(lr=1.0, schedule="onecycle", warmup=0.2), step, 10, 0) for step in (0, 1, 2, 6)]
    [0.5, 1.0, 1.0, 0.5]
    """
    ramp = stage.warmup * total
    factor = min(1.0, (step + 1) / ramp) if ramp > 0 else 1.0
    if stage.schedule == "step":
        return stage.lr * factor * stage.gamma ** sum(epoch + 1 >= drop for drop in stage.drops)
    if stage.schedule == "constant" or step < ramp:
        return stage.lr * factor
    past = (step - ramp) / max(total - ramp, 1)
    return stage.lr * ((1 + math.cos(math.pi * past)) / 2 if stage.schedule == "cosine" else 1 - past)


def user_rate(scheduler: Scheduler, stage: Stage, step: int, total: int) -> float:
    """The rate where a user's own function gives its factor.

    >>> user_rate(lambda step, total: 1 - step / total, Stage(lr=0.5), 1, 4)
    0.375
    """
    factor = scheduler(step, total)
    try:
        value = float(factor)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ArgumentError(
            f"scheduler gives {factor!r} for step {step} of {total}: a factor of 0 or more is needed, for example "
            "lambda step, total: 1 - step / total"
        )
    return stage.lr * value


def check_both(train: Stage, finetune: Stage | None) -> None:
    """Both stages before the first begins: the second may be hours away."""
    check(train, "train")
    if finetune is not None:
        check(finetune, "finetune")


def check(stage: Stage, place: str = "") -> None:
    """Refuse what cannot be meant before any time is spent; `place` is the stage's name in a recipe.

    >>> check(Stage(lr=-1.0), "finetune")
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: finetune.lr must be positive, got -1.0
    """
    for name, good, wanted in (
        ("lr", stage.lr > 0, "positive"),
        ("epochs", stage.epochs > 0, "positive"),
        ("minutes", stage.minutes is None or stage.minutes > 0, "positive"),
        ("weight_decay", stage.weight_decay >= 0, "0 or more"),
        ("warmup", 0 <= stage.warmup < 1, "a share from 0 to below 1"),
        ("label_smoothing", 0 <= stage.label_smoothing < 1, "a share from 0 to below 1"),
        ("gamma", stage.gamma >= 0, "0 or more"),
        (
            "drops",
            list(stage.drops) == sorted(set(stage.drops)) and min(stage.drops, default=1) >= 1,
            "epochs in ascending order, each once, from 1 on",
        ),
    ):
        if not good:
            key = f"{place}.{name}" if place else name
            raise ArgumentError(f"{key} must be {wanted}, got {getattr(stage, name)!r}")
    if stage.schedule == "step" and stage.minutes is not None:
        key = f"{place}.schedule" if place else "schedule"
        raise ArgumentError(
            f"{key} step drops the rate at given epochs and cannot be fitted to minutes: use onecycle or cosine"
        )
