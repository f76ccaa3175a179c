"""The record of a run of a user's own model: what is known of it, and nothing that is not.

recipe.yaml   the model's class and what is quantized in it, the task, the stages and the loop as they were; no data set
model.json    beside the checkpoints: class, shape of one example, parameters, and the model's own cost, layer by layer
"""

import inspect
from dataclasses import asdict
from itertools import groupby
from typing import Any

import torch
from torch import nn

from binaryduo.data import LoaderSplit, Split
from binaryduo.errors import ArgumentError
from binaryduo.nn import QuantAct, is_binary_weight
from binaryduo.training.batches import mapped
from binaryduo.training.identity import FREE, Settings, differences, with_later
from binaryduo.training.optimizing import MakeOptimizer
from binaryduo.training.recipe import Loop, Stage, to_dict
from binaryduo.training.schedule import Scheduler
from binaryduo.training.task import Task, name_of
from binaryduo.transform.costing import cost


def own_recipe(
    verb: str,
    model: nn.Module,
    task: Task,
    optimizer: MakeOptimizer | None,
    stages: dict[str, Stage],
    loop: Loop,
    train: Split,
    test: Split | None,
    scheduler: Scheduler | None = None,
) -> dict[str, Any]:
    """What recipe.yaml says: settings that had no effect are left out."""
    unused = set() if task.loss is None else {"label_smoothing"}
    if optimizer is not None:
        unused |= {"optimizer", "lr", "weight_decay"}
    if scheduler is not None:
        if not callable(scheduler) or not _takes_two(scheduler):
            raise ArgumentError(
                f"scheduler must be a function of (step, all steps) that gives what the rate is multiplied by, which "
                f"{name_of(scheduler)} is not: torch's schedulers count by themselves, and a run could not be "
                "continued with them at any step"
            )
        unused |= {"schedule", "warmup", "drops", "gamma"}
    for stage in stages.values():
        if task.loss is not None and stage.label_smoothing:
            raise ArgumentError(
                "label_smoothing belongs to the cross-entropy: with loss= smooth the labels in your own loss"
            )
    described = {"class": type(model).__qualname__, "quantized": _quantized(model)}
    found: dict[str, Any] = {"name": verb, "model": described}
    found["task"] = {**task.record(), "optimizer": None if optimizer is None else name_of(optimizer)}
    if scheduler is not None:
        found["task"]["scheduler"] = name_of(scheduler)
    for name, stage in stages.items():
        without = unused if stage.minutes is None else unused | {"epochs"}
        found[name] = {key: value for key, value in to_dict(stage).items() if key not in without}
    absent = {"batch"} if isinstance(train, LoaderSplit) else set()
    absent |= {"test_batch"} if test is None or isinstance(test, LoaderSplit) else set()
    absent |= {"monitor", "direction"} | (set() if verb == "duo" else {"decouple_from"})
    found["loop"] = {key: value for key, value in to_dict(loop).items() if key not in absent}
    return found


def _quantized(model: nn.Module) -> str:
    """What is quantized, in the order of the model's modules: no shape of a weight tells it.

    >>> from binaryduo.nn import BinaryLinear
    >>> _quantized(nn.Sequential(QuantAct(3), nn.Linear(2, 2), QuantAct(3), BinaryLinear(2, 2), QuantAct()))
    "2 × QuantAct(levels=3, ste='relu1'), BinaryLinear, QuantAct(levels=2, ste='relu1')"
    """
    kinds = [
        repr(m) if isinstance(m, QuantAct) else type(m).__name__
        for m in model.modules()
        if isinstance(m, QuantAct) or is_binary_weight(m)
    ]
    runs = [(kind, len(list(some))) for kind, some in groupby(kinds)]
    return ", ".join(kind if count == 1 else f"{count} × {kind}" for kind, count in runs)


def _takes_two(function: Any) -> bool:
    """Whether a function can be called with two arguments; one that does not tell may be able to."""
    try:
        inspect.signature(function).bind(0, 1)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def own_settings(recipe: dict[str, Any]) -> Settings:
    """The settings that decide such a run, by their dotted names.

    >>> own_settings({"name": "fit", "model": {"class": "Net"}, "loop": {"seed": 0, "tensorboard": True}})
    {'model.class': 'Net', 'loop.seed': 0}
    """
    return {
        f"{part}.{key}": value
        for part, values in recipe.items()
        if isinstance(values, dict)
        for key, value in values.items()
        if f"{part}.{key}" not in FREE
    }


def refuse_other_settings(before: Settings, now: Settings, origin: object) -> None:
    """Refuse to continue a run with other settings than it began with, also with an argument more or less than then.

    >>> refuse_other_settings({"model.class": "Net", "model.widths": "fill"}, {"model.class": "Net"}, "recipe.yaml")
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: the run of recipe.yaml was started with widths='fill', and this call does not give \
it: a run is resumed with the settings it began with; add widths=
    """
    again = "a run is resumed with the settings it began with"
    whole = "model.class" in before  # earlier versions recorded other keys for a model of one's own
    for key, (there, here) in differences(with_later(before, now), now).items():
        part, _, name = key.partition(".")
        if key in before and key in now:
            raise ArgumentError(
                f"{origin} is another recipe ({key} is {there!r} there and {here!r} here): {again}"
            )
        if whole and part in ("model", "task"):  # what stands there only if it was given
            if key in before:
                found, hint = (
                    f"was started with {name}={there!r}, and this call does not give it",
                    f"add {name}=",
                )
            else:
                found, hint = (
                    f"was started without {name}=, and this call gives {here!r}",
                    f"leave out {name}=",
                )
            raise ArgumentError(f"the run of {origin} {found}: {again}; {hint}")


def describe_model(model: nn.Module, inputs: Any) -> dict[str, Any]:
    """What model.json says; the cost is left out, with the reason, where it cannot be computed.

    >>> found = describe_model(nn.Linear(4, 2), torch.zeros(8, 4))
    >>> found["class"], found["input"], found["cost"]["macs"]
    ('Linear', [4], 8)
    """
    kind = type(model)
    found: dict[str, Any] = {
        "class": kind.__qualname__,
        "module": kind.__module__,
        "input": mapped(inputs, lambda tensor: list(tensor.shape[1:])),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    try:
        with torch.random.fork_rng(devices=[]):
            counted = cost(model, mapped(inputs, lambda tensor: tensor[:1]))
    except Exception as error:  # whatever a user's forward() raises: the training goes on without
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return {**found, "cost_unknown": reason}
    names = ("param_bits", "ops", "macs", "binary_macs")
    totals = {name: getattr(counted, name) for name in names}
    return {**found, "cost": {**totals, "layers": [asdict(layer) for layer in counted.layers]}}
