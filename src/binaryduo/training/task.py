"""What a network is trained for: the loss, what else is measured, and which of it says what the best network is.

Task()                                                  class labels: cross-entropy, top-1 and top-5
Task(F.mse_loss, {"mae": F.l1_loss})                    a regression
Task(loss, {"f1": torchmetrics.F1Score(…)}, "f1", "max")   the best network is the one with the highest F1
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from binaryduo.data.in_memory import IGNORED
from binaryduo.errors import ArgumentError
from binaryduo.graph.tracing import tensors_in
from binaryduo.training.batches import described, rows
from binaryduo.training.counts import Counts, correct

Loss = Callable[[Any, Any], Tensor]
Metrics = Mapping[str, Any]

ACCURACIES = ("top1", "top5")
DIRECTIONS = {"loss": "min", "top1": "max", "top5": "max"}
TAKEN = ("loss", "epoch", "step")  # names that a line of metrics has already


def name_of(function: Any) -> str:
    """What to call a function or an object in a record.

    >>> name_of(F.mse_loss), name_of(torch.nn.L1Loss()), name_of(functools.partial(F.mse_loss, reduction="mean"))
    ('mse_loss', 'L1Loss', 'mse_loss')
    """
    if isinstance(function, functools.partial):
        return name_of(function.func)
    return str(getattr(function, "__qualname__", type(function).__name__)).rpartition(".<locals>.")[2]


class Task:
    """A loss (None: cross-entropy of class labels), metrics by name, and the one that decides.

    A metric is a function of (output, target) that gives the mean over a batch, or an object with update, compute and
    reset, as torchmetrics' are: these are measured on the test split only, over the whole of it.
    """

    def __init__(
        self,
        loss: Loss | None = None,
        metrics: Metrics | None = None,
        monitor: str | None = None,
        direction: str | None = None,
    ) -> None:
        metrics = {} if metrics is None else metrics
        if isinstance(loss, type):
            raise ArgumentError(f"loss is the class {loss.__name__}: give an object of it, {loss.__name__}()")
        if loss is not None and not callable(loss):
            raise ArgumentError(
                f"loss must be a function of (output, target), not of type {type(loss).__name__}: "
                "for example torch.nn.functional.mse_loss"
            )
        if not isinstance(metrics, Mapping):
            raise ArgumentError(
                f"metrics must be a dictionary of names and functions of (output, target), not of type "
                f"{type(metrics).__name__}"
            )
        self.loss, self.accuracy = loss, loss is None
        self.objects = {name: m for name, m in metrics.items() if _is_object(m)}
        self.functions = {name: m for name, m in metrics.items() if name not in self.objects}
        taken = (*TAKEN, *ACCURACIES) if self.accuracy else TAKEN
        for name, metric in metrics.items():
            if not isinstance(name, str) or not name or name in taken:
                raise ArgumentError(
                    f"a metric cannot be called {name!r}: " + ", ".join(taken) + " are there already"
                )
            if isinstance(metric, type):
                raise ArgumentError(
                    f"the metric {name!r} is the class {metric.__name__}: give an object of it, {metric.__name__}(…)"
                )
            if not callable(metric) and name not in self.objects:
                raise ArgumentError(
                    f"the metric {name!r} is of type {type(metric).__name__}: give a function of (output, target), or "
                    "an object with update, compute and reset"
                )
        self.monitor, self.direction = self._decided(monitor, direction)

    def _decided(self, monitor: str | None, direction: str | None) -> tuple[str, str]:
        """Which number decides what is best, and whether more or less of it is."""
        names = ["loss", *(ACCURACIES if self.accuracy else ()), *self.functions, *self.objects]
        if monitor is None:
            if direction is not None:
                raise ArgumentError(
                    f"loop.direction is {direction!r}, of nothing: name a metric in loop.monitor"
                )
            monitor = "top1" if "top1" in names else "loss"
        if monitor not in names and not any(monitor.startswith(f"{name}_") for name in self.objects):
            raise ArgumentError(
                f"loop.monitor is {monitor!r}, which is not measured: choose one of {', '.join(names)}"
            )
        usual = DIRECTIONS.get(monitor)
        if direction is None and usual is None:
            raise ArgumentError(
                f"loop.monitor is {monitor!r}: say with loop.direction whether more of it is better (max) or "
                "less (min)"
            )
        return monitor, str(usual if direction is None else direction)

    def check_tested(self, tested: bool) -> None:
        """Refuse what would never be measured, because there is no test split."""
        if self.objects and not tested:
            raise ArgumentError(
                f"the metric {next(iter(self.objects))!r} is measured on the test split, and there is none: give "
                "one, or a function of (output, target)"
            )

    def counts(self) -> Counts:
        """Sums to begin with."""
        return Counts(accuracy=self.accuracy, sums=dict.fromkeys(self.functions, 0.0))

    def targets(self, output: Any, target: Any) -> Any:
        """The targets as loss and metrics take them: class labels are checked and become int64 (N,)."""
        return class_labels(output, target) if self.loss is None else target

    def training_loss(self, output: Any, target: Any, smoothing: float = 0.0) -> Tensor:
        """The mean loss of a batch, a scalar to derive."""
        if self.loss is None:
            return F.cross_entropy(output, target, label_smoothing=smoothing, ignore_index=IGNORED)
        value = self.loss(output, target)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ArgumentError(
                f"the loss {name_of(self.loss)} gives {described(value)}, and one number is needed: its mean over "
                "the batch"
            )
        if torch.is_grad_enabled() and not value.requires_grad:
            raise ArgumentError(
                f"the loss {name_of(self.loss)} does not depend on the network by way of gradients: compute it with "
                "torch from the output as it is, without detach(), item() or torch.no_grad()"
            )
        return value.reshape(())

    def readable(self, output: Any, target: Any) -> tuple[Any, Any]:
        """Output and target without the images that could not be read, for a user's loss and metrics."""
        keep = target != IGNORED
        return rows(output, keep), target[keep]

    @torch.no_grad()
    def count(self, counts: tuple[Counts, ...], output: Any, target: Any, loss: float) -> None:
        """Add a batch to the sums; `loss` is its mean."""
        if self.loss is None:
            top1, top5 = (int(n) for n in correct(output, target))
            seen = int((target != IGNORED).sum())
        else:
            top1, top5, seen = 0, 0, examples(target, output)
        values = {name: self._value(name, metric(output, target)) for name, metric in self.functions.items()}
        for sums in counts:
            sums.loss += loss * seen
            sums.top1 += top1
            sums.top5 += top5
            sums.images += seen
            for name, value in values.items():
                sums.sums[name] += value * seen

    def _value(self, name: str, value: Any) -> float:
        """A metric of a batch as a number; anything else is refused, since a mean of it would be nothing."""
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise ArgumentError(
                f"the metric {name!r} gives {described(value)}, and one number is needed: the mean over the batch"
            ) from None
        if not math.isfinite(number):
            raise ArgumentError(
                f"the metric {name!r} is {number} on a batch: give a function that is a number for every batch, or "
                "an object with update, compute and reset, which is measured over the whole test split"
            )
        return number

    def better(self, tested: Mapping[str, float], best: Mapping[str, float] | None) -> bool:
        """Whether a test is better than the best so far.

        >>> Task().better({"top1": 50.0}, {"top1": 50.0}), Task(F.mse_loss).better({"loss": 0.1}, {"loss": 0.2})
        (False, True)
        """
        if self.monitor not in tested:
            raise ArgumentError(
                f"loop.monitor is {self.monitor!r}, and the test has measured {', '.join(tested)}"
            )
        if best is None or math.isnan(best[self.monitor]):
            return True
        new, old = tested[self.monitor], best[self.monitor]
        return new > old if self.direction == "max" else new < old

    def record(self) -> dict[str, Any]:
        """What a run's folder says of it."""
        metrics = {name: name_of(m) for name, m in {**self.functions, **self.objects}.items()}
        loss = "cross_entropy" if self.loss is None else name_of(self.loss)
        return {"loss": loss, "metrics": metrics, "monitor": self.monitor, "direction": self.direction}


def _is_object(metric: Any) -> bool:
    return not isinstance(metric, type) and all(
        callable(getattr(metric, name, None)) for name in ("update", "compute", "reset")
    )


def examples(target: Any, output: Any = None) -> int:
    """How many examples a batch has: the length of its first tensor that has one.

    >>> examples({"class": torch.zeros(5), "box": torch.zeros(5, 4)})
    5
    """
    return next((len(t) for t in [*tensors_in(target), *tensors_in(output)] if t.dim()), 1)


def class_labels(output: Any, target: Any) -> Tensor:
    """The targets as class labels (N,) int64, or (N, …) for an output (N, classes, …); anything else is refused.

    >>> class_labels(torch.zeros(3, 10), torch.tensor([[1], [2], [3]], dtype=torch.int32))
    tensor([1, 2, 3])
    >>> class_labels(torch.zeros(3, 10), torch.zeros(3, 10))
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: the network gives float32 (3, 10) and the targets are float32 (3, 10): these are \
no class labels for a cross-entropy; pass loss=, a function of (output, target), for example \
torch.nn.functional.mse_loss
    """
    hint = "pass loss=, a function of (output, target), for example torch.nn.functional.mse_loss"
    known = isinstance(output, Tensor) and output.dim() > 1 and isinstance(target, Tensor)
    if known and target.shape == (len(output), 1) and output.dim() == 2:
        target = target[:, 0]
    shape = (output.shape[0], *output.shape[2:]) if known else None
    whole = known and not (
        target.is_floating_point() or target.dtype == torch.bool or torch.is_complex(target)
    )
    if not whole or tuple(target.shape) != shape:
        raise ArgumentError(
            f"the network gives {described(output)} and the targets are {described(target)}: these are no class "
            f"labels for a cross-entropy; {hint}"
        )
    if output.shape[1] < 2:
        raise ArgumentError(
            f"the network gives {described(output)}, and the cross-entropy of one class is always 0: {hint} or "
            "torch.nn.functional.binary_cross_entropy_with_logits"
        )
    labels: Tensor = target.long()
    wrong = labels[((labels < 0) | (labels >= output.shape[1])) & (labels != IGNORED)]
    if len(wrong):
        raise ArgumentError(
            f"a label is {int(wrong[0])}, and the network has {output.shape[1]} classes, 0 to "
            f"{output.shape[1] - 1}"
        )
    return labels


def top1(output: Tensor, target: Tensor) -> float:
    """The share (percent) of labels that are the largest output: a metric for a loss of your own.

    >>> top1(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    50.0
    """
    labels = class_labels(output, target)
    return 100 * int(correct(output, labels)[0]) / max(int((labels != IGNORED).sum()), 1)
