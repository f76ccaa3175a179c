"""The validation split: disjoint from what is trained on, the same in every run, for all kinds of splits."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import binaryduo as bd
from binaryduo.data import MemorySplit, Plan, load
from binaryduo.data.decoded import DecodedSplit
from binaryduo.data.held_out import SomeFiles, held_out, hold_out


@given(st.integers(3, 400), st.floats(0.05, 0.9))
def test_both_parts_together_are_the_training_images(size: int, share: float) -> None:
    if not 0 < round(share * size) < size:
        return
    kept, apart = held_out(size, share)
    assert len(apart) == round(share * size)
    assert sorted(kept.tolist() + apart.tolist()) == list(range(size))
    again = held_out(size, share)
    assert torch.equal(again[1], apart)


def test_validation_images_are_not_augmented_and_not_trained_on() -> None:
    data = load("fashion-mnist-small", validation=0.1)
    assert isinstance(data.train, MemorySplit)
    assert isinstance(data.validation, MemorySplit)
    assert (len(data.train), len(data.validation), len(data.test)) == (9000, 1000, 2000)
    assert data.tested is data.validation
    whole = load("fashion-mnist-small")
    assert isinstance(whole.train, MemorySplit)
    kept, apart = held_out(10_000, 0.1)
    assert torch.equal(data.train.images, whole.train.images[kept])
    assert torch.equal(data.validation.images, whole.train.images[apart])
    first, again = (next(data.validation.batches(Plan(50, False))).images for _ in range(2))
    assert torch.equal(first, again)
    assert (data.train.pad, data.validation.pad, data.validation.flip) == (whole.train.pad, 0, False)


class _Counted:
    """Files whose content is their number, in an order of their own."""

    labels = torch.arange(20)

    def __len__(self) -> int:
        return 20

    def read(self, index: int) -> bytes:
        return str(index).encode()

    def name(self, index: int) -> str:
        return f"file {index}"

    def order(self, plan: Plan) -> torch.Tensor:
        return torch.arange(20).flip(0)


def test_files_are_held_out_in_the_order_in_which_they_would_be_read() -> None:
    rest, validation = hold_out(DecodedSplit(_Counted()), 0.25)
    assert isinstance(rest, DecodedSplit)
    assert isinstance(rest.files, SomeFiles)
    assert (len(rest), len(validation)) == (15, 5)
    read = [int(rest.files.read(int(i))) for i in rest.files.order(Plan(5, True))]
    assert read == sorted(read, reverse=True)
    assert torch.equal(rest.files.labels[rest.files.order(Plan(5, True))], torch.tensor(read))


@pytest.mark.parametrize("share", [1e-9, 0.99999, 1.0, -0.1])
def test_a_share_that_leaves_nothing_is_refused(share: float) -> None:
    with pytest.raises(bd.BinaryDuoError, match=r"validation"):
        hold_out(
            MemorySplit(torch.zeros(10, 2, 2, 1, dtype=torch.uint8), torch.zeros(10), (0.5,), (0.5,)), share
        )
