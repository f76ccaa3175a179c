"""Loss, accuracies and metrics over a split, summed over all processes."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from binaryduo.data import LoaderSplit, Plan, Split
from binaryduo.data.in_memory import IGNORED
from binaryduo.errors import ArgumentError
from binaryduo.training.batches import call, described, moved
from binaryduo.training.counts import Counts
from binaryduo.training.task import Loss, Metrics, Task, examples


def as_split(data: "Split | Iterable[Any]") -> Split:
    """A split as it is; anything else is taken for a loader of (inputs, targets)."""
    return data if hasattr(data, "batches") else LoaderSplit(data)  # type: ignore[return-value]


def evaluate(
    model: nn.Module,
    split: "Split | Iterable[Any]",
    batch: int = 500,
    rank: int = 0,
    world: int = 1,
    loss: Loss | None = None,
    metrics: Metrics | None = None,
) -> Counts:
    """Run the model in evaluation mode over a split or a loader; the model is left in the mode it was in.

    >>> x = torch.rand(6, 4)
    >>> counts = evaluate(nn.Linear(4, 2), [(x[:4], x[:4, :2]), (x[4:], x[4:, :2])], loss=F.mse_loss)
    >>> counts.images, list(counts.means())
    (6, ['loss'])
    """
    return sums_over(model, as_split(split), Task(loss, metrics), batch, rank, world)


@torch.no_grad()
def sums_over(
    model: nn.Module, split: Split, task: Task, batch: int = 500, rank: int = 0, world: int = 1
) -> Counts:
    """The sums of a task over a split."""
    like = a_parameter(model)
    was_training = model.training
    model.eval()
    counts = task.counts()
    for metric in task.objects.values():
        metric.reset()
        if callable(getattr(metric, "to", None)):
            metric.to(like.device)
    plan = Plan(batch=batch - batch % world, train=False, rank=rank, world=world)
    for inputs, target, unreadable in split.batches(plan):
        output = call(model, moved(inputs, like))
        target = task.targets(output, moved(target, like, images=False))
        if task.loss is None:
            counts.loss += float(F.cross_entropy(output, target, reduction="sum", ignore_index=IGNORED))
        if unreadable and (task.loss is not None or task.functions or task.objects):
            output, target = task.readable(output, target)
        value = 0.0
        if task.loss is not None and examples(target, output):
            value = float(task.training_loss(output, target))
        task.count((counts,), output, target, value)
        for metric in task.objects.values():
            metric.update(output, target)
        counts.unreadable += len(unreadable)
    for name, metric in task.objects.items():
        counts.computed |= _numbers(name, metric.compute())
    model.train(was_training)
    return counts.reduced()


def a_parameter(model: nn.Module) -> Tensor:
    """One of the model's parameters, which says its device and type."""
    found = next(model.parameters(), None)
    if found is None:
        raise ArgumentError(f"{type(model).__name__} has no parameters: there is nothing to train or to test")
    return found


def _numbers(name: str, computed: Any) -> dict[str, float]:
    """What an object has computed: one number, or a dictionary of them as torchmetrics' collections give."""
    if isinstance(computed, dict):
        return {key: value for k, v in computed.items() for key, value in _numbers(f"{name}_{k}", v).items()}
    try:
        return {name: float(computed)}
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError(
            f"the metric {name!r} computes {described(computed)}, and one number is needed"
        ) from None
