"""A split too large for memory: images are decoded, cropped and mirrored in worker processes.

The random crop of an image depends on the seed, the epoch and the image's index alone, not on the worker
that decodes it, so the same run sees the same pixels with any number of workers or processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from binaryduo._common.images import decode_image
from binaryduo.data.in_memory import IGNORED, Batch, normalise
from binaryduo.data.order import Plan, derived_seed
from binaryduo.errors import DataError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TOLERATED = 0.01  # of a pass's images; more unreadable ones than that are no accident

# What reading and decoding a damaged file raise; anything else is a bug and is not hidden.
DAMAGED = (OSError, EOFError, DataError)


class Files(Protocol):
    """Encoded images with labels: class folders and tar shards both look like this."""

    labels: Tensor

    def __len__(self) -> int: ...
    def read(self, index: int) -> bytes: ...
    def name(self, index: int) -> str: ...
    def order(self, plan: Plan) -> Tensor: ...


def random_window(width: int, height: int, random: np.random.Generator) -> tuple[float, float, float, float]:
    """A box of 8 to 100 % of the area and an aspect of 3/4 to 4/3, as (left, top, right, bottom)."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        aspect = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round(float(np.sqrt(area * aspect))), round(float(np.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(random.integers(0, width - w + 1)), int(random.integers(0, height - h + 1))
            return left, top, left + w, top + h
    return centre_window(width, height, 1.0)


def centre_window(width: int, height: int, share: float) -> tuple[float, float, float, float]:
    """The central square whose side is `share` of the shorter side.

    >>> centre_window(200, 100, 0.5)
    (75.0, 25.0, 125.0, 75.0)
    """
    side = min(width, height) * share
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def decode(raw: bytes, size: int, random: np.random.Generator | None) -> np.ndarray:
    """One image as (size, size, 3) uint8: random resized crop and flip to train, else resize and centre crop.

    The centre crop is 224 of 256 pixels of the shorter side, done as one resize of the window that remains.
    """
    rgb = decode_image(raw, "the image", DataError, draft=2 * size)
    if random is None:
        window = centre_window(*rgb.size, share=224 / 256)
    else:
        window = random_window(*rgb.size, random)
    pixels = np.asarray(rgb.resize((size, size), Image.Resampling.BILINEAR, box=window))
    if random is not None and random.random() < 0.5:
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


@dataclass
class _Decoder(Dataset[tuple[np.ndarray, int, str]]):
    """What a worker does with an index."""

    files: Files
    size: int
    plan: Plan

    def __getitem__(self, index: int) -> tuple[np.ndarray, int, str]:
        random = None
        if self.plan.train:
            random = np.random.default_rng(derived_seed(self.plan.seed, self.plan.epoch, 2, index))
        try:
            return decode(self.files.read(index), self.size, random), int(self.files.labels[index]), ""
        except DAMAGED:
            grey = np.full((self.size, self.size, 3), 118, np.uint8)
            return grey, IGNORED, self.files.name(index)


def _collate(samples: list[tuple[np.ndarray, int, str]]) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    images = torch.from_numpy(np.stack([image for image, _, _ in samples]))
    labels = torch.tensor([label for _, label, _ in samples])
    return images, labels, tuple(name for _, _, name in samples if name)


@dataclass(eq=False)
class DecodedSplit:
    """Images from files, decoded by `workers` processes (0: in this one) to size × size pixels.

    An image that cannot be read becomes a grey one whose label the loss ignores, and its name is handed
    on with the batch, to be counted and reported.
    """

    files: Files
    size: int = 224
    workers: int = 4

    def __len__(self) -> int:
        return len(self.files)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image as the network sees it."""
        return 3, self.size, self.size

    def to(self, device: torch.device) -> "DecodedSplit":
        """Itself: batches are moved one at a time."""
        return self

    def steps(self, plan: Plan) -> int:
        """How many batches one pass has."""
        return plan.steps(len(self))

    def batches(self, plan: Plan) -> Iterator[Batch]:
        """One pass, or what is left of it from `plan.start`."""
        order, steps = self.files.order(plan), range(plan.start, plan.steps(len(self)))
        shares = [plan.share(order[step * plan.batch : (step + 1) * plan.batch]).tolist() for step in steps]
        loader = DataLoader(
            _Decoder(self.files, self.size, plan),
            batch_sampler=[share for share in shares if share],
            num_workers=self.workers,
            collate_fn=_collate,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator().manual_seed(
                0
            ),  # the order is ours: draw nothing from the global state
        )
        lost = 0
        for images, labels, unreadable in loader:
            lost += len(unreadable)
            if lost > max(10, TOLERATED * len(self) / plan.world):
                raise DataError(
                    f"{lost} images of one pass could not be read, the last {unreadable[-1]}: "
                    "this is too many to go on: check the disk or copy the data set again"
                )
            yield Batch(normalise(images, MEAN, STD), labels, unreadable)
