"""What a packed model is given: numbers in one finite array, or a sentence."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import binaryduo as bd
from binaryduo.engine import format as duo
from binaryduo.engine.runtime import PackedModel, load
from binaryduo.errors import ArgumentError, BinaryDuoError
from tests.engine.programs import load_program
from tests.engine.test_runtime import network

BUILDER, PROGRAM = network()
MODEL = load_program(PROGRAM, threads=1)
IMAGE = BUILDER.images(2)

WRONG = {
    "nothing": None,
    "an empty list": [],
    "text": "cat.png",
    "texts": np.full((1, 3, 16, 16), "1.5"),
    "bytes": b"1234",
    "ragged": [[1.0, 2.0], [3.0]],
    "objects": np.full((1, 3, 16, 16), None),
    "object numbers": IMAGE.astype(object),
    "complex": IMAGE.astype(np.complex64),
    "dates": np.zeros((1, 3, 16, 16), "M8[s]"),
    "structured": np.zeros((1, 3, 16, 16), [("a", "f4"), ("b", "i4")]),
    "a dictionary": {"images": IMAGE},
    "a huge integer": [[[[10**400]]]],
    "another shape": IMAGE[:, :2],
    "one dimension too many": IMAGE[None],
    "a tensor that wants gradients": torch.zeros(1, 3, 16, 16, requires_grad=True),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("verb", ["__call__", "predict", "trace", "profile"])
def test_what_is_no_batch_of_images_is_refused(what: str, verb: str) -> None:
    with pytest.raises(ArgumentError, match="images must"):
        getattr(MODEL, verb)(WRONG[what])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_what_is_not_finite_is_refused_and_the_image_named(value: float) -> None:
    images = np.repeat(IMAGE, 2, axis=0).astype(np.float64)
    images[2, 1, 3, 4] = value
    with pytest.raises(ArgumentError, match=r"image 2 holds a value that is not finite.*check_finite=False"):
        MODEL.predict(images)


def test_the_check_can_be_left_out(tmp_path) -> None:
    duo.write(PROGRAM, tmp_path / "net.duo")
    images = IMAGE.copy()
    images[0, 0, 0, 0] = np.nan
    lenient = load(tmp_path / "net.duo", check_finite=False)
    assert lenient(images).shape == (2, 10)
    np.testing.assert_array_equal(lenient(IMAGE), bd.load(tmp_path / "net.duo")(IMAGE))


@pytest.mark.parametrize("form", ["vector", "flat", "image"])
def test_an_empty_batch_gives_an_empty_answer(form: str, tmp_path) -> None:
    tail = {
        "vector": [torch.nn.Flatten(), torch.nn.Linear(128, 3)],
        "flat": [torch.nn.Flatten()],
        "image": [],
    }
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), bd.nn.QuantAct(), *tail[form]).eval()
    bd.pack(net, torch.randn(1, 1, 6, 6), tmp_path / "net.duo", verbose=False)
    model, one = bd.load(tmp_path / "net.duo"), np.zeros((1, 1, 6, 6), np.float32)
    assert model(one[:0]).shape == (0, *model(one).shape[1:])
    assert model.predict(one[:0]).shape[0] == 0


@pytest.mark.parametrize("threads", ["2", 2.0, True, 0, -1, 257, math.inf, None, [2], 10**30])
def test_threads_are_a_whole_number(threads: object) -> None:
    sections = duo.Sections(np.frombuffer(duo.to_bytes(PROGRAM), np.uint8), "it")
    if threads is None:
        assert PackedModel(sections, threads).threads >= 1
        return
    with pytest.raises(ArgumentError, match="threads must be a whole number from 1 to 256"):
        PackedModel(sections, threads)  # type: ignore[arg-type]
    assert PackedModel(sections, np.int64(2)).threads == 2


KINDS = st.one_of(
    arrays.floating_dtypes(), arrays.integer_dtypes(), arrays.boolean_dtypes(), arrays.unicode_string_dtypes()
)


@settings(max_examples=100, deadline=None)
@given(arrays.arrays(KINDS, arrays.array_shapes(min_dims=0, max_dims=5, max_side=4)))
def test_no_array_raises_anything_but_our_errors(values: np.ndarray) -> None:
    """Shapes are right only by chance; broadcasting makes them right, and then the types decide."""
    for given_values in (values, np.resize(values, (1, 3, 16, 16)) if values.size else values):
        try:
            found = MODEL(given_values)
        except BinaryDuoError:
            continue
        wanted = np.asarray(given_values, np.float32)
        assert np.isfinite(wanted).all()
        np.testing.assert_array_equal(found, MODEL(wanted))
