"""A split that fits in memory: uint8 images, augmented and normalised a whole batch at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from binaryduo.data.order import Plan, generator
from binaryduo.errors import DataError

IGNORED = -100  # the label of an image that could not be read; the loss and the metrics leave it out


class Batch(NamedTuple):
    """Normalised images (N, C, H, W) in channels_last memory, labels (N,), and files that were unreadable."""

    images: Tensor
    labels: Tensor
    unreadable: tuple[str, ...] = ()


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 (N, H, W, C) to float (N, C, H, W), channels_last, with the given mean and deviation a channel.

    >>> round(normalise(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8), (0.5,), (0.25,)).item(), 6)
    2.0
    """
    scale = torch.tensor([1 / (255 * s) for s in std], device=images.device)
    offset = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=images.device)
    return torch.addcmul(offset, images.to(scale.dtype), scale).permute(0, 3, 1, 2)


def crop_and_flip(images: Tensor, size: tuple[int, int], top: Tensor, left: Tensor, flip: Tensor) -> Tensor:
    """Cut one window out of each image and mirror some of them, in a single gather.

    images (N, H, W, C), top, left, flip (N,) -> (N, *size, C).

    >>> image = torch.arange(4).view(1, 2, 2, 1)
    >>> zero = torch.zeros(1, dtype=torch.long)
    >>> crop_and_flip(image, (1, 2), zero, zero, torch.tensor([True])).flatten().tolist()
    [1, 0]
    """
    n, (height, width) = torch.arange(len(images), device=images.device), size
    rows = top[:, None] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(len(images), width)
    columns = left[:, None] + torch.where(flip[:, None], width - 1 - columns, columns)
    return images[n[:, None, None], rows[:, :, None], columns[:, None, :]]


@dataclass(eq=False)
class MemorySplit:
    """Images (N, H, W, C) uint8 and labels (N,) int64, with the normalisation that belongs to them.

    To train, each image is padded with zeros by `pad`, cut back at a random place and mirrored where
    `flip` allows it. The random numbers are drawn for the global batch, so that every number of processes
    sees the same images.

    >>> split = MemorySplit(torch.zeros(6, 4, 4, 1, dtype=torch.uint8), torch.arange(6), (0.5,), (0.5,))
    >>> [batch.images.shape[0] for batch in split.batches(Plan(batch=4, train=False))]
    [4, 2]
    """

    images: Tensor
    labels: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0
    flip: bool = False

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.dim() != 4 or len(self.images) != len(self.labels):
            raise DataError(
                f"images must be uint8 (N, H, W, C) with a label each, not {self.images.dtype} "
                f"{tuple(self.images.shape)} with {len(self.labels)} labels"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image as the network sees it."""
        _, height, width, channels = self.images.shape
        return channels, height, width

    def to(self, device: torch.device) -> "MemorySplit":
        """The same split on another device: small sets are moved once, not a batch at a time."""
        return MemorySplit(
            self.images.to(device), self.labels.to(device), self.mean, self.std, self.pad, self.flip
        )

    def steps(self, plan: Plan) -> int:
        """How many batches one pass has."""
        return plan.steps(len(self))

    def batches(self, plan: Plan) -> Iterator[Batch]:
        """One pass, or what is left of it from `plan.start`."""
        order = plan.order(len(self))
        for step in range(plan.start, plan.steps(len(self))):
            indices = order[step * plan.batch : (step + 1) * plan.batch]
            if len(plan.share(indices)):  # the last batch of a test may not reach every process
                random = generator(plan.seed, plan.epoch, 1, step) if plan.train else None
                yield self._batch(indices, plan, random)

    def _batch(self, indices: Tensor, plan: Plan, random: torch.Generator | None) -> Batch:
        device, count = self.images.device, len(indices)
        mine = plan.share(indices).to(device)
        images, labels = self.images[mine], self.labels[mine]
        if random is not None and (self.pad or self.flip):
            offsets = torch.randint(0, 2 * self.pad + 1, (2, count), generator=random)
            mirrored = torch.rand(count, generator=random) < (0.5 if self.flip else 0.0)
            top, left = (plan.share(o).to(device) for o in offsets)
            size = (images.shape[1], images.shape[2])
            padded = torch.nn.functional.pad(images, (0, 0, self.pad, self.pad, self.pad, self.pad))
            images = crop_and_flip(padded, size, top, left, plan.share(mirrored).to(device))
        return Batch(normalise(images, self.mean, self.std), labels)
