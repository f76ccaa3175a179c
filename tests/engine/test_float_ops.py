"""Float operations that are no convolution, and several outputs: native against reference, and hostile files."""

from dataclasses import replace

import numpy as np
import pytest

from binaryduo.engine import _native, reference
from binaryduo.engine import format as duo
from binaryduo.engine.program import Code, Curve, Join, Storage
from binaryduo.errors import PackedFormatError
from tests.engine.programs import Builder, load_program
from tests.engine.test_kernels import check


def every_float_op():
    """A small program with each of these operations and two outputs."""
    b = Builder(6, 4, 5, seed=9)
    x = b.resample(b.curve(0, Curve.PRELU), 6, 3)
    gate = b.curve(b.pool(x, Code.AVERAGE_POOL, (6, 3), (1, 1)), Curve.SIGMOID)
    x = b.join(x, gate, Join.PRODUCT)
    b.program.tensors[x].output = 2
    program = b.finish(b.normalise(b.curve(x, Curve.CLAMP), 3))
    program.tensors[-1].output = 1
    return b, program


@pytest.mark.parametrize("function", list(Curve))
def test_curves(function):
    b = Builder(33, 5, 7, seed=int(function))
    _, image, found = check(b, b.curve(0, function))
    assert found[1].shape == (1, 5, 7, 33)
    assert not np.array_equal(found[1], np.moveaxis(image, 1, -1))


@pytest.mark.parametrize("function", list(Join))
@pytest.mark.parametrize("other", ["same", "one pixel", "one channel"])
def test_joins(function, other):
    b = Builder(9, 5, 4, seed=2)
    a = b.conv(0, 9)
    if other == "same":
        second = b.conv(0, 9)
    else:
        second = b.pool(a, Code.AVERAGE_POOL, (5, 4), (1, 1)) if other == "one pixel" else b.conv(0, 1)
    check(b, b.join(a, second, function), rtol=1e-4)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 9), (10, 8), (4, 1)])
def test_resampling(height, width):
    b = Builder(17, 5, 4, seed=3)
    check(b, b.resample(0, height, width))


@pytest.mark.parametrize("groups", [1, 3, 12])
@pytest.mark.parametrize(("every", "affine"), [(False, True), (True, True), (False, False)])
def test_normalisation(groups, every, affine):
    b = Builder(12, 5, 4, seed=4)
    check(b, b.normalise(0, groups, every, affine))


@pytest.mark.parametrize("threads", [1, 2])
def test_several_outputs_of_many_images(threads):
    b, program = every_float_op()
    images = b.images(70)  # more than go through the program together
    found = load_program(program, threads).outputs(images)
    values = reference.run(program, images)
    assert len(found) == 2
    for array, number in zip(found, program.outputs, strict=True):
        wanted = np.moveaxis(values[number], -1, 1)
        assert array.shape == wanted.shape
        np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-4)


def test_round_trip_and_version():
    _, program = every_float_op()
    content = duo.to_bytes(program)
    assert content[8] == 2
    again = duo.parse(duo.Sections(np.frombuffer(content, np.uint8), "test"))
    assert duo.to_bytes(again) == content
    assert again.outputs == program.outputs


HOSTILE = {
    "an unknown function": {"code": Code.CURVE, "function": 99},
    "no function": {"code": Code.JOIN, "function": 0},
    "groups that do not divide": {"code": Code.NORMALISE, "groups": 4},
    "no groups": {"code": Code.NORMALISE, "groups": 0},
    "no epsilon": {"code": Code.NORMALISE, "weights": None},
    "no parameters": {"code": Code.CURVE, "weights": None},
    "no shares": {"code": Code.RESAMPLE, "scale": None},
    "pixels that are not there": {"code": Code.RESAMPLE, "weights": np.full(18, 5, np.uint32)},
    "a second input": {"code": Code.CURVE, "residual": 0},
    "a second input that is not there": {"code": Code.JOIN, "residual": -1},
    "a later tensor": {"code": Code.JOIN, "residual": 6},
    "another shape": {"code": Code.NORMALISE, "out_float": 2},
    "bits": {"code": Code.RESAMPLE, "out_bits": 1, "out_float": -1},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_operations_are_refused(case):
    changes = dict(HOSTILE[case])
    _, program = every_float_op()
    at = next(i for i, op in enumerate(program.ops) if op.code == changes["code"])
    program.ops[at] = replace(program.ops[at], **changes)
    with pytest.raises(ValueError, match="operation"):
        _native.Model(np.frombuffer(duo.to_bytes(program), np.uint8), 1)


@pytest.mark.parametrize("marks", [(1, 1), (1, 3), (2, 0), (65, 0), (4_000_000_000, 1)])
def test_outputs_are_numbered_without_a_gap(marks):
    _, program = every_float_op()
    for number, mark in zip(program.outputs, marks, strict=True):
        program.tensors[number] = replace(program.tensors[number], output=mark)
    with pytest.raises(PackedFormatError):
        load_program(program)
    with pytest.raises(ValueError, match="output"):
        _native.Model(np.frombuffer(duo.to_bytes(program), np.uint8), 1)


def test_an_output_is_written_and_float():
    b = Builder(3, 2, 2)
    b.finish(b.binarize(0))
    for number in (0, 1):  # the input, a tensor of bits
        tensors = [replace(t, output=int(i == number)) for i, t in enumerate(b.program.tensors)]
        assert {t.kind for t in tensors} == {Storage.FLOAT, Storage.BITS}
        with pytest.raises(PackedFormatError, match="output"):
            load_program(replace(b.program, tensors=tensors))
