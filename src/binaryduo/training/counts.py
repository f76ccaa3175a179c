"""Running sums of loss, accuracies and a user's metrics: what an epoch has measured so far."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Counts:
    """Running sums over images. Kept in checkpoints, so that an epoch's means survive.

    `accuracy` is False where the targets are no class labels: then there is no top1 and no top5. `sums` are of the
    user's metrics that are means over a batch; `computed` is what objects with `compute` said of a whole test.
    """

    loss: float = 0.0
    top1: int = 0
    top5: int = 0
    images: int = 0
    unreadable: int = 0
    accuracy: bool = True
    sums: dict[str, float] = field(default_factory=dict)
    computed: dict[str, float] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        """Loss, accuracies in percent, and the user's metrics.

        >>> Counts(loss=3.0, top1=1, top5=2, images=2).means()
        {'loss': 1.5, 'top1': 50.0, 'top5': 100.0}
        >>> Counts(loss=3.0, images=2, accuracy=False, sums={"mae": 1.0}).means()
        {'loss': 1.5, 'mae': 0.5}
        """
        n = max(self.images, 1)
        means = {"loss": self.loss / n}
        if self.accuracy:
            means |= {"top1": 100 * self.top1 / n, "top5": 100 * self.top5 / n}
        return {**means, **{name: value / n for name, value in self.sums.items()}, **self.computed}

    def reduced(self) -> "Counts":
        """The sums over all processes."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return self
        cuda = torch.distributed.get_backend() == "nccl"
        own = [self.loss, self.top1, self.top5, self.images, self.unreadable, *self.sums.values()]
        values = torch.tensor(own, dtype=torch.float64, device="cuda" if cuda else "cpu")
        torch.distributed.all_reduce(values)
        loss, *others = values.tolist()
        top1, top5, images, unreadable = (int(v) for v in others[:4])
        sums = dict(zip(self.sums, others[4:], strict=True))
        return Counts(loss, top1, top5, images, unreadable, self.accuracy, sums, dict(self.computed))


def correct(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """How many labels are the largest logit, and among the five largest; ignored labels never are.

    >>> [int(n) for n in correct(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))]
    [1, 2]
    """
    hits = logits.topk(min(5, logits.shape[1]), dim=1).indices == labels[:, None]
    return hits[:, 0].sum(), hits.sum()
