"""Every instruction set against the NumPy reference, over sizes around the borders of bytes and blocks."""

import numpy as np
import pytest

from binaryduo.engine import _native, reference
from binaryduo.engine.program import Code, Flag, Storage
from binaryduo.engine.weight_layout import pack_bits
from tests.engine.programs import Builder, load_program

SETS = _native.available().split()
WIDTHS = [1, 3, 8, 31, 32, 33, 63, 64, 65, 90, 127, 128, 130, 180, 360]


@pytest.fixture(params=SETS)
def isa(request, monkeypatch):
    monkeypatch.setenv("BINARYDUO_ISA", request.param)
    return request.param


def check(builder, source, rtol=2e-5, threads=1):
    """Native and reference agree tensor by tensor, each operation fed with the native one's own inputs."""
    program = builder.finish(source)
    model = load_program(program, threads)
    image = builder.images()
    found = model.trace(image)
    np.testing.assert_array_equal(found[0], np.moveaxis(image, 1, -1))
    for op in program.ops:
        for number, wanted in reference.step(program, op, found).items():
            if program.tensors[number].kind == Storage.BITS:
                exact = op.code not in (Code.FLOAT_CONV,)
                wrong = np.mean(found[number] != wanted)
                assert wrong == 0 if exact else wrong < 1e-3, (op.name, program.tensors[number])
            else:
                np.testing.assert_allclose(found[number], wanted, rtol=rtol, atol=rtol * 10, err_msg=op.name)
    return model, image, found


@pytest.mark.parametrize("outputs", WIDTHS)
@pytest.mark.parametrize("inputs", [1, 31, 33, 64, 90, 130])
def test_binary_conv_widths(isa, inputs, outputs):
    b = Builder(inputs, 5, 7, seed=inputs * 1000 + outputs)
    x = b.conv(b.binarize(0), outputs, out="bits", integer=True)
    check(b, x)


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 5), (2, 3)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 2)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (0, 1)])
def test_binary_conv_windows(isa, kernel, stride, padding):
    padding = tuple(min(p, k - 1) for p, k in zip(padding, kernel, strict=True))
    b = Builder(20, 9, 8, seed=1)
    x = b.conv(b.binarize(0, copies=2), 45, kernel, stride, padding, copies=2, out="bits", integer=True)
    check(b, b.conv(x, 10, (1, 1), padding=(0, 0)))


@pytest.mark.parametrize("size", [(2, 1, 1), (512, 7, 7), (1024, 1, 1), (700, 3, 2)])
def test_binary_dense(isa, size):
    b = Builder(*size, seed=2)
    x = b.conv(b.binarize(0), 100, size[1:], padding=(0, 0), out="bits", integer=True)
    check(b, b.conv(x, 37, (1, 1), padding=(0, 0)))


def test_nothing_is_left_of_the_layer_before(isa):
    """A float layer's frame lies where the next layer's stream ends: its floats are no bits."""
    b = Builder(3, 40, 40, seed=12)
    x = b.conv(0, 11, (3, 3), (3, 3), copies=2, out="bits")
    check(b, b.conv(x, 24, (5, 5), (1, 1), (2, 2), out="bits", integer=True))


def test_more_inputs_than_sixteen_bits_compare(isa):
    b = Builder(1200, 6, 6, seed=3)  # 43,200 inputs: the 32-bit comparison
    check(b, b.conv(b.binarize(0), 40, (6, 6), padding=(0, 0), out="bits", integer=True))


def test_all_ones_and_all_zeros(isa):
    """The greatest count that a byte has to hold, in every lane."""
    for ones in (0, 1):
        b = Builder(512, 4, 4, seed=4)
        x = b.binarize(0)
        b.program.ops[-1].threshold[:] = -np.inf if ones else np.inf
        b.program.ops[-1].flip = None
        y = b.conv(x, 96)
        b.program.ops[-1].weights[:] = 255
        _, _, found = check(b, y)
        assert found[x].min() == found[x].max() == ones


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("outputs", [5, 16, 45, 64])
def test_residual_streams(isa, copies, outputs, relu):
    b = Builder(24, 6, 5, seed=5)
    stream = b.conv(0, outputs, copies=copies)
    x = b.conv(b.binarize(stream), outputs, copies=copies, out="both", residual=stream, relu=relu)
    check(b, b.conv(x, 7, (1, 1), padding=(0, 0)))


@pytest.mark.parametrize("outputs", [1, 15, 16, 17, 64, 70])
@pytest.mark.parametrize(
    "window", [((7, 7), (2, 2), (3, 3)), ((1, 1), (1, 1), (0, 0)), ((3, 3), (1, 1), (1, 1))]
)
@pytest.mark.parametrize("half", [False, True])
def test_float_conv(isa, outputs, window, half):
    b = Builder(3, 13, 11, seed=6)
    check(b, b.conv(0, outputs, *window, relu=True, half=half))


def test_float_weights_on_bits(isa):
    b = Builder(21, 6, 6, seed=7)
    x = b.conv(b.binarize(0, copies=2), 20, binary=False, out="bits")
    check(b, b.conv(x, 10, (6, 6), padding=(0, 0), binary=False), rtol=1e-4)


@pytest.mark.parametrize(
    "window", [((2, 2), (2, 2), (0, 0)), ((3, 3), (2, 2), (1, 1)), ((3, 3), (2, 2), (0, 0))]
)
@pytest.mark.parametrize("bits", [False, True])
def test_max_pool(isa, window, bits):
    b = Builder(37, 9, 9, seed=8)
    x = b.binarize(0, copies=2) if bits else 0
    check(b, b.pool(x, Code.MAX_POOL, *window, flip=bits))


def test_other_operations(isa):
    b = Builder(12, 6, 6, seed=9)
    x = b.pool(0, Code.AVERAGE_POOL, (2, 2), (2, 2))
    y = b.tensor(Storage.FLOAT, 6, 3, 3)
    b.add(Code.MEAN_COPIES, x, out_float=y, copies=2)
    z = b.tensor(Storage.FLOAT, 10, 3, 3)
    b.add(Code.PAD_CHANNELS, y, out_float=z, channels=1)
    w = b.tensor(Storage.FLOAT, 22, 3, 3)
    b.add(Code.CONCAT, z, residual=x, out_float=w)
    check(b, b.pool(w, Code.AVERAGE_POOL, (3, 3), (1, 1)))


def test_listed_channels(isa):
    b = Builder(12, 6, 6, seed=10)
    y = b.tensor(Storage.FLOAT, 5, 6, 6)
    b.add(Code.MEAN_COPIES, 0, out_float=y, copies=3, weights=b.rng.integers(0, 12, 15).astype(np.uint32))
    check(b, b.pool(y, Code.AVERAGE_POOL, (2, 2), (2, 2)))


@pytest.mark.parametrize("outputs", [1, 16, 37])
def test_one_bit_weights_on_floats(isa, outputs):
    b = Builder(7, 6, 6, seed=11)
    x = b.conv(0, outputs, binary=False)
    op = b.program.ops[-1]
    op.weights, op.flags = pack_bits(op.weights > 0), op.flags | Flag.BIT_WEIGHTS
    check(b, x)


def test_unknown_instruction_set(monkeypatch):
    from binaryduo.errors import ArgumentError

    b = Builder(4, 4, 4)
    program = b.finish(b.conv(0, 4))
    monkeypatch.setenv("BINARYDUO_ISA", "mmx")
    with pytest.raises(ArgumentError, match="this CPU runs one of"):
        load_program(program)
