"""Float weights on bits: against the reference on every instruction set, and in the order of additions that
csrc/engine/select_conv.h promises, to the last bit."""

import numpy as np
import pytest

from binaryduo.engine import _native
from binaryduo.engine.program import Flag
from binaryduo.engine.weight_layout import from_blocks
from tests.engine.programs import Builder, load_program
from tests.engine.test_kernels import check

SETS = _native.available().split()


@pytest.fixture(params=SETS)
def isa(request, monkeypatch):
    monkeypatch.setenv("BINARYDUO_ISA", request.param)
    return request.param


def kernels(model):
    return [layer.kernel.split()[-1] for layer in model.describe() if layer.operation == "float conv"]


@pytest.mark.parametrize("outputs", [1, 15, 16, 17, 45, 64, 65, 130])
@pytest.mark.parametrize("inputs", [4, 7, 8, 12, 45, 64])
@pytest.mark.parametrize("copies", [1, 2])
def test_widths(isa, inputs, outputs, copies):
    b = Builder(inputs, 6, 7, seed=inputs * 1000 + outputs)
    x = b.conv(b.binarize(0, copies), outputs, copies=2, out="both", binary=False, relu=outputs % 2 == 1)
    assert kernels(check(b, x)[0]) == ["select"]


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 2)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 1)])
@pytest.mark.parametrize("pad", [0, 1])
def test_windows(isa, kernel, stride, pad):
    padding = tuple(min(pad, k - 1) for k in kernel)
    b = Builder(45, 25, 23, seed=1)  # more pixels than one item has
    residual = b.conv(0, 33, kernel, stride, padding)
    x = b.conv(b.binarize(0, 2), 33, kernel, stride, padding, out="both", binary=False, residual=residual)
    assert kernels(check(b, x)[0]) == ["6×32" if isa.startswith(("avx512", "amx")) else "6×16", "select"]


@pytest.mark.parametrize("narrow", ["half", "one bit"])
def test_weights_that_are_widened(isa, narrow):
    b = Builder(24, 7, 7, seed=2)
    x = b.conv(b.binarize(0), 20, binary=False, half=narrow == "half")
    if narrow == "one bit":
        op = b.program.ops[-1]
        op.flags |= Flag.BIT_WEIGHTS
        op.weights = np.packbits(op.weights > 0, bitorder="little")
    assert kernels(check(b, x)[0]) == ["select"]


def test_what_a_table_would_not_pay_for(isa):
    """Few pixels, or few bits in a byte."""
    for inputs, size in ((64, 4), (3, 9)):
        b = Builder(inputs, size, size, seed=3)
        assert kernels(check(b, b.conv(b.binarize(0), 20, binary=False))[0]) != ["select"]


def in_order(bits, weights, copies):
    """Σ over (ky, kx, four channels at a time) of (w0 + w1) + (w2 + w3) of those whose bit is set, in float32.

    bits: (H, W, C) with its frame; weights: (O, kh, kw, C); stride 1.
    """
    outputs, height, width, channels = weights.shape
    of_copy = channels // copies
    fill = [(0, 0)] * 3 + [(0, -of_copy % 8)]
    bits = np.pad(bits.reshape(*bits.shape[:2], copies, of_copy), fill)
    weights = np.pad(weights.reshape(outputs, height, width, copies, of_copy), [(0, 0), *fill])
    rows, columns = bits.shape[0] - height + 1, bits.shape[1] - width + 1
    total = np.zeros((rows, columns, outputs), np.float32)
    for ky, kx, copy, c in np.ndindex(height, width, copies, bits.shape[3] // 4):
        window = bits[ky : ky + rows, kx : kx + columns, copy, 4 * c : 4 * c + 4, None]
        four = np.where(window, weights[:, ky, kx, copy, 4 * c : 4 * c + 4].T, np.float32(0))
        total += (four[:, :, 0] + four[:, :, 1]) + (four[:, :, 2] + four[:, :, 3])
    return total


@pytest.mark.parametrize("inputs", [13, 45, 64])
def test_every_set_adds_in_the_same_order(isa, inputs):
    b = Builder(inputs, 9, 8, seed=inputs)
    x = b.conv(b.binarize(0, 2), 37, binary=False)
    op = b.program.ops[-1]
    op.scale = op.bias = None
    program = b.finish(x)
    traced = load_program(program).trace(b.images())
    bits = np.pad(traced[op.input][0], [(1, 1), (1, 1), (0, 0)])
    weights = from_blocks(op.weights, 37, 16).reshape(37, 3, 3, 2 * inputs)
    np.testing.assert_array_equal(traced[x][0], in_order(bits, weights, copies=2))


def test_threads_and_batches_change_nothing(isa):
    b = Builder(30, 19, 17, seed=5)
    x = b.conv(b.binarize(0, 2), 70, copies=2, out="bits", binary=False)
    x = b.conv(x, 40, (3, 3), (2, 2), out="float", binary=False)
    program = b.finish(x)
    images = b.images(7)
    wanted = np.concatenate([load_program(program)(image[None]) for image in images])
    for threads in (1, 3):
        np.testing.assert_array_equal(load_program(program, threads)(images), wanted)
