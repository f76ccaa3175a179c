"""Writes the attacks that were made by hand: `python -m tests.engine.attacks.make`. README.md says what each one tries.

Every checksum and length is right, unless that is the attack: the deep reader has to find it.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from binaryduo.engine import format as duo
from binaryduo.engine.program import Code, Flag, Op, Program, Storage, Tensor
from tests.engine.programs import Builder

HERE = Path(__file__).parent


def plain(channels: int = 9, seed: int = 0) -> Program:
    """Floats -> bits -> a binary convolution -> its floats."""
    b = Builder(channels, 3, 3, seed=seed)
    return b.finish(b.conv(b.binarize(0), 5, padding=(0, 0)))


def parts_of(content: bytes) -> list[bytes]:
    return [part.tobytes() for part in duo.Sections(np.frombuffer(content, np.uint8), "an attack").parts]


def joined(parts: list[bytes]) -> bytes:
    """A file of these sections, with right lengths and checksums."""
    table, body = b"", b""
    for tag, part in zip(duo.TAGS, parts, strict=True):
        padded = part + bytes(-len(part) % duo.ALIGNMENT)
        offset = duo.HEADER_BYTES + len(body)
        table += duo.SECTION.pack(tag, zlib.crc32(padded), offset, len(padded), len(part))
        body += padded
    return with_header(duo.HEADER.pack(duo.MAGIC, duo.VERSION, 4, duo.HEADER_BYTES + len(body)) + table, body)


def with_header(header: bytes, body: bytes) -> bytes:
    header += bytes(duo.HEADER_BYTES - 4 - len(header))
    return header + struct.pack("<I", zlib.crc32(header)) + body


def altered(section: int, place: int, value: bytes, program: Program | None = None) -> bytes:
    """The plain file with bytes of a section replaced."""
    parts = parts_of(duo.to_bytes(plain() if program is None else program))
    parts[section] = parts[section][:place] + value + parts[section][place + len(value) :]
    return joined(parts)


def word(value: int) -> bytes:
    return struct.pack("<I", value & 0xFFFF_FFFF)


def long(value: int) -> bytes:
    return struct.pack("<Q", value)


TENSORS, OPS, META = 0, 1, 2
CONVOLUTION = 128  # where the second operation of the plain file begins


def writes_its_input() -> bytes:
    program = Program([Tensor(name, Storage.FLOAT, 4, 2, 2) for name in "xy"])
    program.ops.append(Op("a", Code.POINTWISE, 0, out_float=0, channels=4))
    program.ops.append(Op("b", Code.POINTWISE, 0, out_float=1, channels=4))
    return duo.to_bytes(program)


def shared_weights() -> bytes:
    """Forty layers that widen the same 16-bit weights: a small file that would be large in memory."""
    b = Builder(16, 3, 3)
    for _ in range(40):
        b.conv(len(b.program.tensors) - 1, 16, half=True)
    content = duo.to_bytes(b.program)
    parts = parts_of(content)
    first = struct.unpack_from("<Q", parts[OPS], 64)[0]
    records = [parts[OPS][i : i + 128] for i in range(0, len(parts[OPS]), 128)]
    parts[OPS] = b"".join(r[:64] + long(first) + b"\xff" * 32 + r[104:] for r in records)
    parts[3] = parts[3][: first + 16 * 16 * 9 * 2 + 64]
    return joined(parts)


def giants() -> bytes:
    """Sixteen tensors below the limit of each, above that of all."""
    program = Program([Tensor("x", Storage.FLOAT, 4, 8191, 8191) for _ in range(16)])
    for i in range(15):
        program.ops.append(Op(f"op{i}", Code.POINTWISE, i, out_float=i + 1, channels=4))
    return duo.to_bytes(program)


def names(meta: bytes) -> bytes:
    parts = parts_of(duo.to_bytes(plain()))
    return joined([*parts[:2], meta, parts[3]])


def listed(channels: list[int]) -> bytes:
    b = Builder(4, 2, 2)
    out = b.tensor(Storage.FLOAT, 2, 2, 2)
    b.add(Code.MEAN_COPIES, 0, out_float=out, copies=2, weights=np.array(channels, np.uint32))
    return duo.to_bytes(b.program)


def special_numbers() -> bytes:
    """NaN, infinities, the smallest and the largest numbers in every float array."""
    special = np.array([np.nan, np.inf, -np.inf, 1e-45, -0.0, 3.4e38], np.float32)
    b = Builder(3, 4, 4, seed=3)
    stream = b.conv(0, 5, copies=2, out="both") - 1
    x = b.conv(stream, 17, relu=True)
    program = b.finish(b.pool(x, Code.MAX_POOL))
    for op in program.ops:
        for name in ("weights", "scale", "bias", "threshold"):
            values = getattr(op, name)
            if values is not None and values.dtype == np.float32:
                values.reshape(-1)[::5] = np.resize(special, values.reshape(-1)[::5].size)
    return duo.to_bytes(program)


def extreme_thresholds() -> bytes:
    b = Builder(70, 3, 3, seed=4)
    x = b.conv(b.binarize(0), 67, copies=2, out="bits", integer=True)
    ends = np.array([-(2**31), 2**31 - 1, -32769, 32768, -1, 0], np.int32)
    b.program.ops[-1].threshold = np.resize(ends, 134).astype(np.int32)
    return duo.to_bytes(b.finish(b.conv(x, 3, padding=(0, 0))))


def extreme_groups() -> bytes:
    """The same in groups, whose sums are compared as floats; few inputs and many."""
    b = Builder(36, 3, 3, seed=6)
    ends = np.array([-(2**31), 2**31 - 1, -65536, 65536, -1, 0], np.int32)
    for groups in (36, 3):
        b.conv(b.binarize(0), 72, copies=2, out="bits", integer=True, groups=groups)
        b.program.ops[-1].threshold = np.resize(ends, 144).astype(np.int32)
    return duo.to_bytes(b.finish(b.conv(len(b.program.tensors) - 1, 3, padding=(0, 0))))


def frame_in_the_guard() -> bytes:
    """The pixel around an image of bytes, which lies after the weights, would be read where the data ends."""
    b = Builder(3, 3, 3, kind=Storage.BYTES)
    out = b.tensor(Storage.FLOAT, 5, 5, 5)
    window = {"kernel": (3, 3), "padding": (2, 2), "flags": Flag.BYTE_WEIGHTS, "channels": 5}
    b.add(Code.FLOAT_CONV, 0, out_float=out, weights=np.ones(5 * 4 * 9, np.int8), **window)
    return duo.to_bytes(b.program)


def overlapping() -> bytes:
    """Scales, biases and thresholds are the same bytes, which are weights as well."""
    b = Builder(40, 3, 3, seed=5)
    parts = parts_of(duo.to_bytes(b.finish(b.conv(b.binarize(0), 33, out="both"))))
    record = bytearray(parts[OPS][128:256])
    record[72:96] = record[64:72] * 3
    return joined([parts[0], parts[OPS][:128] + bytes(record) + parts[OPS][256:], *parts[2:]])


def sections_that_overlap() -> bytes:
    content = bytearray(duo.to_bytes(plain()))
    first = duo.HEADER.size + 8
    content[first + 32 : first + 40] = content[first : first + 8]
    return with_header(bytes(content[: duo.HEADER_BYTES - 4]), bytes(content[duo.HEADER_BYTES :]))


def section_that_wraps() -> bytes:
    content = bytearray(duo.to_bytes(plain()))
    last = duo.HEADER.size + 3 * duo.SECTION.size + 16
    content[last : last + 8] = long(2**64 - 64)
    return with_header(bytes(content[: duo.HEADER_BYTES - 4]), bytes(content[duo.HEADER_BYTES :]))


def many_inputs() -> bytes:
    """A binary layer with 65,536 inputs: its counts would leave 16 bits."""
    b = Builder(16, 1, 4096)
    x = b.binarize(0)
    out = b.tensor(Storage.FLOAT, 1, 1, 1)
    window = {"kernel": (1, 4096), "stride": (1, 1), "padding": (0, 0)}
    b.add(Code.BINARY_CONV, x, out_float=out, channels=1, weights=np.zeros(8192, np.uint8), **window)
    return duo.to_bytes(b.program)


def planes(count: int, channels: int = 5, size: tuple[int, int] = (3, 3), layers: int = 1) -> Program:
    """Layers with weights of one plane for all planes of their input."""
    b = Builder(channels, *size, seed=8)
    x = b.binarize(0, count)
    for _ in range(layers):
        b.conv(x, 33, size, padding=(0, 0), shared=True)
    return b.finish(len(b.program.tensors) - 1)


def planes_again() -> bytes:
    """Forty layers that lay the same weights out for 32 planes each: a small file that would be large in memory."""
    parts = parts_of(duo.to_bytes(planes(32, layers=40)))
    records = [parts[OPS][i : i + 128] for i in range(0, len(parts[OPS]), 128)]
    first = struct.unpack_from("<Q", records[1], 64)[0]
    parts[OPS] = records[0] + b"".join(r[:64] + long(first) + b"\xff" * 32 + r[104:] for r in records[1:])
    parts[3] = parts[3][: first + 33 * 9 + 64]
    return joined(parts)


def plane_in_the_guard() -> bytes:
    """The weights of one plane end where the data has ended."""
    program = planes(2)
    parts = parts_of(duo.to_bytes(program))
    first = struct.unpack_from("<Q", parts[OPS], CONVOLUTION + 64)[0]
    record = parts[OPS][CONVOLUTION : CONVOLUTION + 128]
    record = record[:64] + long(first) + b"\xff" * 32 + record[104:]
    return joined([parts[0], parts[OPS][:CONVOLUTION] + record, parts[2], parts[3][: first + 33 * 9 + 60]])


ESCAPES = {
    "tensors": ["\x1b[2J\x1b]0;owned\x07", "\u202egnp.exe", "c"],
    "ops": ["\r\n", "x" * 5000],
    "meta": {},
}

ATTACKS: dict[str, Callable[[], bytes]] = {
    "refused-tensor-of-16-pebibytes": lambda: altered(TENSORS, 8, word(1 << 20) + word(65535) * 2),
    "refused-giants-together": giants,
    "refused-copies-zero": lambda: altered(TENSORS, 4, word(0)),
    "refused-output-of-bits": lambda: altered(TENSORS, 64, word(1)),
    "refused-tensor-minus-two": lambda: altered(OPS, 8, word(-2)),
    "refused-tensor-past-the-end": lambda: altered(OPS, 8, word(3)),
    "refused-reads-before-it-is-written": lambda: altered(OPS, 8, word(2)),
    "refused-writes-its-own-input": writes_its_input,
    "refused-unknown-flags": lambda: altered(OPS, 4, word(1 << 31)),
    "refused-unknown-code": lambda: altered(OPS, 0, word(0xFFFF_FFFF)),
    "refused-window-that-overflows": lambda: altered(
        OPS, CONVOLUTION + 24, word(4096) * 2 + word(1) * 2 + word(0x8000_0000) * 2
    ),
    "refused-stride-zero": lambda: altered(OPS, CONVOLUTION + 32, word(0)),
    "refused-channels-that-overflow": lambda: altered(OPS, CONVOLUTION + 48, word(256) + word(0x0100_0000)),
    "refused-weights-in-the-guard": lambda: altered(OPS, CONVOLUTION + 64, long(duo.GUARD * 4)),
    "refused-weights-that-wrap": lambda: altered(OPS, CONVOLUTION + 64, long(2**64 - 64)),
    "refused-weights-unaligned": lambda: altered(OPS, CONVOLUTION + 64, long(1)),
    "refused-weights-absent": lambda: altered(OPS, CONVOLUTION + 64, long(duo.ABSENT)),
    "refused-shared-weights": shared_weights,
    "refused-groups-that-do-not-divide": lambda: altered(OPS, CONVOLUTION + 60, word(2)),
    "refused-groups-without-end": lambda: altered(OPS, CONVOLUTION + 60, word(0xFFFF_FFFF)),
    "refused-bytes-inside": lambda: altered(TENSORS, 32, word(2)),
    "refused-bytes-as-floats": lambda: altered(TENSORS, 0, word(2)),
    "refused-frame-in-the-guard": frame_in_the_guard,
    "refused-more-inputs-than-16-bits": many_inputs,
    "refused-planes-without-end": lambda: duo.to_bytes(planes(33)),
    "refused-planes-in-groups": lambda: altered(OPS, CONVOLUTION + 60, word(3), planes(3)),
    "refused-planes-of-floats": lambda: altered(OPS, 4, word(64), planes(2)),
    "refused-planes-of-more-inputs-than-16-bits": lambda: duo.to_bytes(planes(32, 1, (1, 256))),
    "refused-planes-that-share-again": planes_again,
    "refused-plane-in-the-guard": plane_in_the_guard,
    "loads-thirty-two-planes": lambda: duo.to_bytes(planes(32)),
    "refused-channel-that-is-not-there": lambda: listed([0, 1, 2, 0x4000_0000]),
    "refused-sections-that-overlap": sections_that_overlap,
    "refused-section-that-wraps": section_that_wraps,
    "refused-names-nested-deeply": lambda: names(b"[" * 5000),
    "refused-names-of-5000-digits": lambda: names(b'{"tensors":' + b"9" * 5000 + b"}"),
    "refused-names-of-no-text": lambda: names(b'{"tensors": ["\xff\xfe"]}'),
    "loads-names-with-terminal-escapes": lambda: names(json.dumps(ESCAPES).encode()),
    "loads-channels-listed-twice": lambda: listed([3, 3, 3, 3]),
    "loads-special-numbers": special_numbers,
    "loads-extreme-thresholds": extreme_thresholds,
    "loads-extreme-thresholds-in-groups": extreme_groups,
    "loads-arrays-that-overlap": overlapping,
}


def written() -> Iterator[Path]:
    for name, make in ATTACKS.items():
        path = HERE / f"{name}.duo"
        path.write_bytes(make())
        yield path


if __name__ == "__main__":
    for path in written():
        print(f"{path.stat().st_size:8d} {path.name}")
