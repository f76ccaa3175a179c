"""Batches from memory: independent of the number of processes, complete, and cut where they should be."""

import numpy as np
import pytest
import torch

from binaryduo.data import MemorySplit, Plan
from binaryduo.data.in_memory import crop_and_flip, normalise
from binaryduo.errors import ArgumentError, DataError


def split(n: int = 23, pad: int = 2, flip: bool = True) -> MemorySplit:
    random = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (n, 6, 5, 3), dtype=torch.uint8, generator=random)
    return MemorySplit(images, torch.arange(n), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), pad, flip)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_processes_share_the_global_batch(world: int) -> None:
    data = split()
    whole = list(data.batches(Plan(batch=8, train=True, seed=3, epoch=2)))
    parts = [
        list(data.batches(Plan(batch=8, train=True, seed=3, epoch=2, rank=r, world=world)))
        for r in range(world)
    ]
    assert len(whole) == 2
    for step, batch in enumerate(whole):
        assert torch.equal(batch.images, torch.cat([part[step].images for part in parts]))
        assert torch.equal(batch.labels, torch.cat([part[step].labels for part in parts]))


@pytest.mark.parametrize("world", [1, 2, 8])
def test_a_test_pass_sees_every_image_once(world: int) -> None:
    plans = [Plan(batch=8, train=False, rank=r, world=world) for r in range(world)]
    labels = torch.cat([b.labels for plan in plans for b in split(n=17).batches(plan)])
    assert sorted(labels.tolist()) == list(range(17))


def test_start_continues_a_pass() -> None:
    whole = list(split().batches(Plan(batch=4, train=True, seed=5, epoch=1)))
    rest = list(split().batches(Plan(batch=4, train=True, seed=5, epoch=1, start=3)))
    assert len(rest) == len(whole) - 3
    assert all(torch.equal(a.images, b.images) for a, b in zip(whole[3:], rest, strict=True))


def test_epochs_and_seeds_differ() -> None:
    def first(seed: int, epoch: int) -> list[int]:
        return next(split().batches(Plan(batch=8, train=True, seed=seed, epoch=epoch))).labels.tolist()

    assert first(0, 0) != first(0, 1) != first(1, 0)


def test_crop_and_flip_against_slicing() -> None:
    images = torch.arange(3 * 7 * 8 * 2, dtype=torch.int64).view(3, 7, 8, 2)
    top, left, flip = torch.tensor([0, 2, 1]), torch.tensor([3, 0, 1]), torch.tensor([False, True, True])
    out = crop_and_flip(images, (5, 5), top, left, flip)
    for i in range(3):
        window = images[i, top[i] : top[i] + 5, left[i] : left[i] + 5]
        assert torch.equal(out[i], window.flip(1) if flip[i] else window)


def test_normalise_is_channels_last_and_right() -> None:
    images = torch.randint(
        0, 256, (2, 4, 4, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    out = normalise(images, mean, std)
    assert out.is_contiguous(memory_format=torch.channels_last)
    expected = (images.numpy() / 255 - np.array(mean)) / np.array(std)
    np.testing.assert_allclose(out.permute(0, 2, 3, 1).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ArgumentError, match="batch of 9 cannot be shared equally by 2"):
        Plan(batch=9, train=True, world=2)
    with pytest.raises(DataError, match="uint8"):
        MemorySplit(torch.zeros(2, 3, 3, 1), torch.zeros(2), (0.0,), (1.0,))
