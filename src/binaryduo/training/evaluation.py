"""Loss, top-1 and top-5 over a split, summed over all processes."""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from binaryduo.data import Plan, Split
from binaryduo.data.in_memory import IGNORED


@dataclass
class Counts:
    """Running sums; `loss` is the sum over images. Kept in checkpoints, so that an epoch's means survive."""

    loss: float = 0.0
    top1: int = 0
    top5: int = 0
    images: int = 0
    unreadable: int = 0

    def means(self) -> dict[str, float]:
        """Loss and accuracies in percent.

        >>> Counts(loss=3.0, top1=1, top5=2, images=2).means()
        {'loss': 1.5, 'top1': 50.0, 'top5': 100.0}
        """
        n = max(self.images, 1)
        return {"loss": self.loss / n, "top1": 100 * self.top1 / n, "top5": 100 * self.top5 / n}

    def reduced(self) -> "Counts":
        """The sums over all processes."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return self
        cuda = torch.distributed.get_backend() == "nccl"
        values = torch.tensor(
            list(asdict(self).values()), dtype=torch.float64, device="cuda" if cuda else "cpu"
        )
        torch.distributed.all_reduce(values)
        loss, *whole = values.tolist()
        return Counts(loss, *(int(v) for v in whole))


def correct(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """How many labels are the largest logit, and among the five largest; ignored labels never are.

    >>> [int(n) for n in correct(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))]
    [1, 2]
    """
    hits = logits.topk(min(5, logits.shape[1]), dim=1).indices == labels[:, None]
    return hits[:, 0].sum(), hits.sum()


@torch.no_grad()
def evaluate(model: nn.Module, split: Split, batch: int = 500, rank: int = 0, world: int = 1) -> Counts:
    """Run the model in evaluation mode over a split; the model is left in the mode it was in."""
    like = next(model.parameters())
    was_training = model.training
    model.eval()
    counts = Counts()
    plan = Plan(batch=batch - batch % world, train=False, rank=rank, world=world)
    for images, labels, unreadable in split.batches(plan):
        images = images.to(like.device, like.dtype, non_blocking=True)
        labels = labels.to(like.device, non_blocking=True)
        logits = model(images)
        top1, top5 = correct(logits, labels)
        counts.loss += float(F.cross_entropy(logits, labels, reduction="sum"))
        counts.top1 += int(top1)
        counts.top5 += int(top5)
        counts.images += int((labels != IGNORED).sum())
        counts.unreadable += len(unreadable)
    model.train(was_training)
    return counts.reduced()
