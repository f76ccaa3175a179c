"""A network and images so small that a step takes a millisecond."""

import torch
from torch import Tensor, nn

from binaryduo.data import MemorySplit
from binaryduo.nn import BinaryConv2d, QuantAct
from binaryduo.training import Loop, Stage

STAGE = Stage(epochs=3, lr=0.01, weight_decay=0.1, schedule="onecycle", warmup=0.3)
LOOP = Loop(batch=8, test_batch=16, engine="eager", tensorboard=False, log_steps=1, accelerator="cpu")


def network(levels: int = 3, seed: int = 0, dropout: float = 0.2, binary: bool = True) -> nn.Module:
    """Convolution, BN, activation, (binary) convolution, pool, BN, activation, dropout, dense."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        QuantAct(levels),
        (BinaryConv2d if binary else nn.Conv2d)(6, 6, 3, padding=1, bias=False),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(6),
        QuantAct(levels),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(6 * 16, 4),
    )


def split(n: int = 44, seed: int = 0) -> MemorySplit:
    """Four classes of images that differ in which quarter is bright."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 4
    images = torch.randint(0, 120, (n, 8, 8, 1), dtype=torch.uint8, generator=random)
    for i, label in enumerate(labels.tolist()):
        images[i, 4 * (label // 2) :, 4 * (label % 2) :][:4, :4] += 80
    return MemorySplit(images, labels, (0.3,), (0.2,), pad=1)


def same(a: nn.Module, b: nn.Module) -> bool:
    """Whether two models agree bit for bit, buffers included."""
    mine, theirs = a.state_dict(), b.state_dict()
    return all(torch.equal(mine[name], theirs[name]) for name in [*mine, *theirs])


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]
