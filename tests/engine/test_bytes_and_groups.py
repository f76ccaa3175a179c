"""Version 3 of the format, on every instruction set against the NumPy reference: bytes, 8-bit weights, groups."""

import numpy as np
import pytest

from binaryduo.engine import _native
from binaryduo.engine import format as duo
from binaryduo.engine.program import Storage
from binaryduo.errors import PackedFormatError
from tests.engine.programs import Builder, load_program
from tests.engine.test_kernels import check

WINDOWS = [
    ((3, 3), (1, 1), (1, 1)),
    ((7, 7), (2, 2), (3, 3)),
    ((1, 1), (1, 1), (0, 0)),
    ((2, 3), (1, 2), (0, 1)),
]


@pytest.fixture(params=_native.available().split())
def isa(request, monkeypatch):
    monkeypatch.setenv("BINARYDUO_ISA", request.param)
    return request.param


@pytest.mark.parametrize("outputs", [1, 15, 16, 17, 31, 33, 48, 64, 65, 130])
@pytest.mark.parametrize("window", WINDOWS)
def test_images_of_bytes(isa, outputs, window):
    """The frame has values of its own, and sums are the same whole numbers on every set."""
    b = Builder(3, 11, 13, seed=outputs, kind=Storage.BYTES)
    x = b.conv(0, outputs, *window, copies=2, out="both", small=True, relu=outputs % 2 == 1)
    check(b, x, rtol=1e-6)


@pytest.mark.parametrize("inputs", [1, 7, 45, 64, 90])
@pytest.mark.parametrize("outputs", [1, 33, 64, 100])
def test_bits_times_bytes(isa, inputs, outputs):
    b = Builder(inputs, 6, 5, seed=inputs * 100 + outputs)
    x = b.conv(b.binarize(0, copies=2), outputs, out="float", small=True)
    x = b.conv(b.binarize(x), 20, (6, 5), padding=(0, 0), small=True)
    check(b, x, rtol=1e-6)


def test_floats_times_bytes(isa):
    b = Builder(10, 6, 5, seed=1)
    check(b, b.conv(0, 21, small=True))


def test_the_largest_sums_do_not_overflow(isa):
    b = Builder(20, 56, 55, kind=Storage.BYTES)
    x = b.conv(0, 2, (56, 55), padding=(0, 0), small=True)
    b.program.ops[0].weights[:] = -128
    b.program.ops[0].scale[:], b.program.ops[0].bias[:] = 1, 0
    model = load_program(b.finish(x))
    assert model(np.full((1, 20, 56, 55), 255, np.uint8)).tolist() == [[-255.0 * 128 * 20 * 56 * 55] * 2]


def test_tables(isa):
    b = Builder(4, 3, 5, seed=2, kind=Storage.BYTES)
    model, image, _ = check(b, b.lookup(), rtol=0)
    table = b.program.ops[0].weights.reshape(4, 256)
    np.testing.assert_array_equal(model(image)[0, 2], table[2][image[0, 2]])


GROUPS = [  # inputs and outputs of a group, groups
    (1, 1, 5),
    (1, 1, 64),
    (1, 1, 130),
    (1, 3, 30),
    (2, 2, 40),
    (4, 8, 9),
    (8, 5, 7),
    (9, 8, 3),
    (16, 24, 4),
    (45, 33, 2),
    (64, 64, 2),
]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(("inputs", "outputs", "groups"), GROUPS)
@pytest.mark.parametrize("window", WINDOWS)
def test_binary_groups(isa, inputs, outputs, groups, copies, window):
    if inputs * groups % copies:
        inputs *= 2
    b = Builder(inputs * groups // copies, 8, 9, seed=inputs * 1000 + groups)
    x = b.binarize(0, copies)
    y = b.conv(x, outputs * groups, *window, copies=2, out="bits", integer=True, groups=groups)
    b.conv(x, outputs * groups, *window, out="both", groups=groups)
    check(b, y, rtol=1e-6)


@pytest.mark.parametrize(("inputs", "outputs", "groups"), GROUPS)
@pytest.mark.parametrize("on_bits", [False, True])
def test_float_groups(isa, inputs, outputs, groups, on_bits):
    b = Builder(inputs * groups, 7, 6, seed=groups)
    source = b.binarize(0) if on_bits else 0
    x = b.conv(source, outputs * groups, out="both", groups=groups, binary=False)
    b.conv(source, outputs * groups, out="float", groups=groups, binary=False, half=True)
    check(b, x)


def test_a_deep_window_of_bits_in_groups(isa):
    """More products than a byte holds, all of one sign."""
    b = Builder(8, 20, 20, seed=3)
    x = b.conv(b.binarize(0), 8, (15, 15), padding=(7, 7), groups=1, out="float")
    y = b.conv(b.binarize(0), 16, (15, 15), padding=(7, 7), groups=8, out="float")
    for op in b.program.ops:
        if op.groups:
            op.weights[:] = 255
    b.program.ops[0].threshold[:] = -np.inf
    check(b, max(x, y), rtol=1e-6)


def test_threads_and_batches_change_nothing(isa):
    b = Builder(24, 17, 19, seed=4)
    x = b.conv(b.binarize(0), 48, groups=24, out="bits", integer=True)
    x = b.conv(x, 32, groups=2, out="bits", integer=True)
    program = b.finish(b.conv(x, 10, (17, 19), padding=(0, 0), small=True))
    images = b.images(5)
    one = load_program(program)
    wanted = np.concatenate([one(image[None]) for image in images])
    np.testing.assert_array_equal(load_program(program, threads=2)(images), wanted)


def test_old_programs_keep_their_version():
    plain = Builder(3, 4, 4)
    assert duo.version_of(plain.finish(plain.conv(plain.binarize(0), 5))) == 1
    for fields in ({"groups": 3}, {"small": True}):
        b = Builder(3, 4, 4)
        assert duo.version_of(b.finish(b.conv(0, 6, **fields))) == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: setattr(p.ops[0], "groups", 5), "not a multiple of its groups"),
        (lambda p: setattr(p.ops[0], "flags", 32 | 2), "do not go together"),
        (lambda p: setattr(p.ops[0], "flags", 0), "as if they were floats|past the end"),
        (lambda p: setattr(p.tensors[1], "kind", Storage.BYTES), "only the input|another kind"),
    ],
)
def test_what_is_not_as_it_should_be_is_refused(change, sentence):
    b = Builder(3, 4, 4, kind=Storage.BYTES)
    program = b.finish(b.conv(0, 6, small=True))
    load_program(program)
    change(program)
    with pytest.raises(PackedFormatError, match=sentence):
        load_program(program)
