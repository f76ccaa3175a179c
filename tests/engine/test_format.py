"""The file: what is written comes back, and nothing that is altered gets through."""

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binaryduo.engine import _native, reference
from binaryduo.engine import format as duo
from binaryduo.engine.program import Code, Flag, Program, Storage
from binaryduo.engine.runtime import PackedModel, load
from binaryduo.engine.weight_layout import pack_bits
from binaryduo.errors import PackedFormatError
from tests.engine.programs import Builder


def build():
    b = Builder(5, 6, 6, seed=1)
    listed = b.tensor(Storage.FLOAT, 6, 6, 6)
    b.add(Code.MEAN_COPIES, 0, out_float=listed, copies=2, weights=np.arange(12, dtype=np.uint32) % 5)
    signs = b.conv(listed, 5)
    b.program.ops[-1].weights = pack_bits(b.program.ops[-1].weights > 0)
    b.program.ops[-1].flags |= Flag.BIT_WEIGHTS
    stream = b.conv(signs, 10, copies=2, out="both")
    x = b.conv(b.binarize(b.program.ops[-1].out_float), 10, copies=2, out="both", residual=stream - 1)
    x = b.pool(x, Code.MAX_POOL, flip=True)
    return b, b.finish(b.conv(x, 4, (3, 3), padding=(0, 0)))


BUILDER, PROGRAM = build()
CONTENT = duo.to_bytes(PROGRAM)


def open_bytes(content):
    return PackedModel(duo.Sections(np.frombuffer(bytes(content), np.uint8), "test"), threads=1)


def test_round_trip(tmp_path):
    path = tmp_path / "net.duo"
    assert duo.write(PROGRAM, path) == len(CONTENT)
    again = duo.read(path)
    assert duo.to_bytes(again) == CONTENT
    images = BUILDER.images(3)
    np.testing.assert_allclose(load(path)(images), reference.logits(PROGRAM, images), rtol=1e-4, atol=1e-4)


def test_arrays_are_views_of_the_mapped_file(tmp_path):
    path = tmp_path / "net.duo"
    duo.write(PROGRAM, path)
    for op in duo.read(path).ops:
        for _, array in op.arrays():
            assert not array.flags.owndata
            assert not array.flags.writeable


def test_every_byte_is_covered():
    """Flipping any one bit anywhere is noticed."""
    for position in range(len(CONTENT)):
        changed = bytearray(CONTENT)
        changed[position] ^= 1 << (position % 8)
        with pytest.raises(PackedFormatError):
            open_bytes(changed)


@pytest.mark.parametrize("length", [0, 1, 8, 100, 191, 192, 500, len(CONTENT) - 1])
def test_truncated(length, tmp_path):
    path = tmp_path / "net.duo"
    path.write_bytes(CONTENT[:length])
    with pytest.raises(PackedFormatError, match=r"net\.duo"):
        load(path)


def test_not_a_file(tmp_path):
    with pytest.raises(PackedFormatError, match="cannot be read"):
        load(tmp_path / "missing.duo")
    with pytest.raises(PackedFormatError):
        load(tmp_path)


def test_appended_and_other_versions():
    with pytest.raises(PackedFormatError, match="header says"):
        open_bytes(CONTENT + b"\0")
    other = bytearray(CONTENT)
    assert other[8] == 1  # what needs nothing newer is written so that older releases read it
    other[8:12] = struct.pack("<I", duo.VERSION + 1)
    with pytest.raises(PackedFormatError, match=f"version {duo.VERSION + 1}"):
        open_bytes(sealed(other))


def sealed(content):
    """The same bytes with all checksums made right again, as a forger would."""
    content = bytearray(content)
    for i in range(4):
        at = duo.HEADER.size + i * duo.SECTION.size
        tag, _, offset, length, used = duo.SECTION.unpack_from(content, at)
        crc = zlib.crc32(content[offset : offset + length])
        duo.SECTION.pack_into(content, at, tag, crc, offset, length, used)
    content[188:192] = struct.pack("<I", zlib.crc32(content[:188]))
    return content


def test_listed_channels_must_exist():
    """Both readers refuse a list that names a channel beyond the input's, whatever the checksums say."""
    forged = Program(BUILDER.program.tensors, [replace(op) for op in BUILDER.program.ops])
    forged.ops[0].weights = np.full(12, 5, np.uint32)
    content = duo.to_bytes(forged)
    sections = duo.Sections(np.frombuffer(content, np.uint8), "test")
    with pytest.raises(PackedFormatError, match="channels that its input does not have"):
        duo.parse(sections)
    with pytest.raises(ValueError, match="channels that its input does not have"):
        _native.Model(sections.content, 1)


@pytest.mark.parametrize("binary", [False, True])
def test_a_small_file_stays_small_in_memory(binary):
    """Operations that lay the same bits out anew again and again are refused before memory is taken."""
    b, count = Builder(64, 8, 8), 40
    x = b.binarize(0) if binary else 0
    skipped = len(b.program.ops)
    for i in range(count):
        if binary:
            x = b.conv(x, 64, out="bits", integer=True)
            op = b.program.ops[-1]
        else:
            x = b.conv(x, 64)
            op = b.program.ops[-1]
            op.flags |= Flag.BIT_WEIGHTS
        op.weights = pack_bits(np.ones(64 * 64 * 9)) if i == 0 else None
    content = bytearray(duo.to_bytes(b.finish(b.conv(x, 1) if binary else x)))
    _, _, ops, _, _ = duo.SECTION.unpack_from(content, duo.HEADER.size + duo.SECTION.size)
    ops += duo.OP.size * skipped
    for i in range(count):  # all of them at the first one's place
        content[ops + duo.OP.size * i + 64 : ops + duo.OP.size * i + 72] = content[ops + 64 : ops + 72]
    with pytest.raises(PackedFormatError, match="shares its weights with another"):
        open_bytes(sealed(content))


TABLES = range(24, duo.SECTION.unpack_from(CONTENT, duo.HEADER.size + 3 * duo.SECTION.size)[2])
INTERESTING = [0, 1, 2, 3, 7, 8, 63, 64, 127, 128, 255]


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(TABLES), st.sampled_from(INTERESTING)), min_size=1, max_size=4))
def test_forged_tables_never_crash(changes):
    """Tables altered behind right checksums are refused, or describe another valid program that runs."""
    content = bytearray(CONTENT)
    for position, value in changes:
        content[position] = value
    try:
        model = open_bytes(sealed(content))
    except PackedFormatError:
        return
    if model.workspace_bytes < 1 << 22:
        model(np.zeros((1, *model.input_shape), np.float32))
        model.describe()
