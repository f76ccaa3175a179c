"""The .duo file: a header, a table of four sections, and the sections. docs/format.md gives every byte.

Every byte belongs to the header or to a section, and each of those has a CRC-32 that `read` verifies before
anything else is looked at. Reading copies no weights: the arrays are views of the mapped file.
"""

import json
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from binaryduo._common.files import write_synced
from binaryduo.engine.program import (
    CONVOLUTIONS,
    CURVE_PARAMETERS,
    WITH_EPILOGUE,
    Array,
    Code,
    Curve,
    Flag,
    Op,
    Program,
    Storage,
    Tensor,
)
from binaryduo.errors import PackedFormatError

MAGIC = b"\x89DUO\r\n\x1a\n"
VERSION = 4
TAGS = (b"TENS", b"OPER", b"META", b"DATA")
ALIGNMENT = 64
GUARD = 64  # bytes behind every array of the data section that a vector load may read
ABSENT = 0xFFFF_FFFF_FFFF_FFFF

HEADER = struct.Struct("<8sIIQ")  # magic, version, sections, file length
SECTION = struct.Struct("<4sIQQQ")  # tag, crc, offset, length, used
HEADER_BYTES = 192  # the header's own crc is its last four bytes
TENSOR = struct.Struct("<6I8x")
OP = struct.Struct("<2I4i6I4I5Q24x")


def to_bytes(program: Program) -> bytes:
    """The file of a program.

    >>> to_bytes(Program([Tensor("x", Storage.FLOAT, 1, 1, 1), Tensor("y", Storage.FLOAT, 1, 1, 1)]))[:4]
    b'\\x89DUO'
    """
    data = bytearray()
    ops = b"".join(_op_record(op, data) for op in program.ops)
    tensors = b"".join(
        TENSOR.pack(t.kind, t.copies, t.channels, t.height, t.width, t.output) for t in program.tensors
    )
    names = {"tensors": [t.name for t in program.tensors], "ops": [op.name for op in program.ops]}
    meta = json.dumps({**names, "meta": program.meta}, separators=(",", ":"), ensure_ascii=True).encode()
    sections = [tensors, ops, meta, bytes(data) + bytes(GUARD)]
    body = bytearray()
    table = b""
    for tag, content in zip(TAGS, sections, strict=True):
        padded = content + bytes(-len(content) % ALIGNMENT)
        table += SECTION.pack(tag, zlib.crc32(padded), HEADER_BYTES + len(body), len(padded), len(content))
        body += padded
    header = HEADER.pack(MAGIC, version_of(program), len(TAGS), HEADER_BYTES + len(body)) + table
    header += bytes(HEADER_BYTES - 4 - len(header))
    return header + struct.pack("<I", zlib.crc32(header)) + bytes(body)


def version_of(program: Program) -> int:
    """The oldest version of the format that has all that a program uses, so that older releases run it too.

    >>> version_of(Program([Tensor("x", Storage.FLOAT, 1, 1, 1), Tensor("y", Storage.FLOAT, 1, 1, 1, output=1)]))
    2
    """
    if any(op.flags & Flag.SHARED_WEIGHTS for op in program.ops):
        return 4
    if any(
        op.code == Code.LOOKUP or op.flags & Flag.BYTE_WEIGHTS or (op.code in CONVOLUTIONS and op.groups > 1)
        for op in program.ops
    ):
        return 3
    marked = any(tensor.output for tensor in program.tensors)
    return 2 if marked or any(op.code >= Code.CURVE for op in program.ops) else 1


def write(program: Program, path: str | Path) -> int:
    """Write the file of a program; returns its size in bytes."""
    content = to_bytes(program)
    write_synced(Path(path), content)
    return len(content)


def _op_record(op: Op, data: bytearray) -> bytes:
    offsets = []
    for name in ("weights", "scale", "bias", "threshold", "flip"):
        array = getattr(op, name)
        if array is None:
            offsets.append(ABSENT)
            continue
        data += bytes(-len(data) % ALIGNMENT)
        offsets.append(len(data))
        data += np.ascontiguousarray(array).tobytes()
    window = (*op.kernel, *op.stride, *op.padding)
    tensors = (op.input, op.residual, op.out_float, op.out_bits)
    return OP.pack(
        op.code, op.flags, *tensors, *window, op.copies, op.channels, op.function, op.groups, *offsets
    )


class Sections:
    """The sections of a file whose checksums are right, as views of its bytes."""

    def __init__(self, content: NDArray[np.uint8], where: str) -> None:
        self.where, self.content = where, content
        if content.size < HEADER_BYTES:
            raise self.error(f"it has {content.size} bytes, fewer than a header")
        header = content[:HEADER_BYTES].tobytes()
        magic, version, count, length = HEADER.unpack_from(header)
        if magic != MAGIC:
            raise self.error("its first bytes are not those of a .duo file")
        if zlib.crc32(header[:-4]) != struct.unpack("<I", header[-4:])[0]:
            raise self.error("its header is altered (the checksum differs)")
        if not 1 <= version <= VERSION:
            raise self.error(
                f"it has the format version {version}, and this release reads versions 1 to {VERSION}"
            )
        if length != content.size:
            raise self.error(f"it has {content.size} bytes where its header says {length}")
        if count != len(TAGS):
            raise self.error(f"it has {count} sections instead of {len(TAGS)}")
        self.parts: list[NDArray[np.uint8]] = []
        expected = HEADER_BYTES
        for i, wanted in enumerate(TAGS):
            tag, crc, offset, size, used = SECTION.unpack_from(header, HEADER.size + i * SECTION.size)
            if (
                tag != wanted
                or offset != expected
                or size > length - offset
                or used > size
                or size % ALIGNMENT
            ):
                raise self.error(f"its section {i} is not where it should be")
            part = content[offset : offset + size]
            if zlib.crc32(part.data) != crc:
                raise self.error(f"its section {wanted.decode()} is altered (the checksum differs)")
            self.parts.append(part[:used])
            expected = offset + size
        if expected != length:
            raise self.error("there are bytes after its last section")
        self.tensors, self.ops, self.meta, self.data = self.parts

    def error(self, what: str) -> PackedFormatError:
        """The error that says what is wrong with this file."""
        return PackedFormatError(f"{self.where} is not a packed model that can be used: {what}")


def open_sections(path: str | Path) -> Sections:
    """Map a file and verify its checksums."""
    path = Path(path)
    try:
        if path.stat().st_size == 0:
            raise PackedFormatError(f"{path} is not a packed model that can be used: it is empty")
        content = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:  # a name with a NUL byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise PackedFormatError(f"{path} cannot be read: {reason}") from error
    return Sections(content, str(path))


def read(path: str | Path) -> Program:
    """The program of a file; raises PackedFormatError on anything that is not as it should be."""
    return parse(open_sections(path))


def parse(sections: Sections) -> Program:
    """The program in verified sections; arrays are views, tensor numbers and lengths are checked."""
    try:
        meta = json.loads(sections.meta.tobytes())
        names, op_names = meta["tensors"], meta["ops"]
        extra = {str(key): str(value) for key, value in meta["meta"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise sections.error("its names cannot be read") from error
    if sections.tensors.size % TENSOR.size or sections.ops.size % OP.size:
        raise sections.error("a table has a wrong length")
    if not (
        isinstance(names, list)
        and isinstance(op_names, list)
        and len(names) == sections.tensors.size // TENSOR.size
        and len(op_names) == sections.ops.size // OP.size
    ):
        raise sections.error("it has names for another number of tensors or operations")
    program = Program(meta=extra)
    tensors, ops = sections.tensors.tobytes(), sections.ops.tobytes()
    try:
        for i, name in enumerate(names):
            kind, copies, channels, height, width, output = TENSOR.unpack_from(tensors, i * TENSOR.size)
            if not copies or channels % copies:
                raise ValueError(f"the channels of tensor {i} are not a multiple of its copies")
            program.tensors.append(Tensor(str(name), Storage(kind), channels, height, width, copies, output))
        marks = sorted(tensor.output for tensor in program.tensors if tensor.output)
        if marks != list(range(1, len(marks) + 1)):
            raise ValueError("the outputs are not numbered without a gap")
        for i, name in enumerate(op_names):
            record = OP.unpack_from(ops, i * OP.size)
            program.ops.append(_read_op(program, str(name), record, sections.data))
    except ValueError as error:
        raise sections.error(str(error)) from error
    return program


def _read_op(program: Program, name: str, record: tuple[int, ...], data: NDArray[np.uint8]) -> Op:
    code, flags = Code(record[0]), Flag(record[1])
    for number in record[2:6]:
        if not -1 <= number < len(program.tensors):
            raise ValueError(f"operation {name!r} names tensor {number}, which does not exist")
    if record[2] < 0:
        raise ValueError(f"operation {name!r} has no input")
    op = Op(name, code, *(record[2], record[3], record[4], record[5]), flags=flags)
    op.kernel, op.stride, op.padding = (
        (record[6], record[7]),
        (record[8], record[9]),
        (record[10], record[11]),
    )
    op.copies, op.channels, op.function, op.groups = record[12:16]
    offsets = dict(zip(("weights", "scale", "bias", "threshold", "flip"), record[16:21], strict=True))
    source = program.tensors[op.input]

    def view(field: str, dtype: str, count: int) -> Array | None:
        offset = offsets[field]
        if offset == ABSENT:
            return None
        size = count * np.dtype(dtype).itemsize
        if offset % 4 or size > data.size or offset > data.size - size:
            raise ValueError(f"the {field} of operation {name!r} reach past the end of the data")
        return data[offset : offset + size].view(dtype)

    if code in CONVOLUTIONS:
        groups = max(1, op.groups)
        if source.channels % groups or op.channels % groups:
            raise ValueError(f"the channels of operation {name!r} are not a multiple of its groups")
        count = program.stored_inputs(op) * op.channels
        if code == Code.BINARY_CONV or flags & Flag.BIT_WEIGHTS:
            op.weights = view("weights", "u1", (count + 7) // 8)
        elif flags & Flag.BYTE_WEIGHTS:
            frame = source.channels + 1 if source.kind == Storage.BYTES else 0
            op.weights = view("weights", "i1", count + frame)
        else:
            op.weights = view("weights", "<f2" if flags & Flag.HALF_WEIGHTS else "<f4", count)
        if op.weights is None:
            raise ValueError(f"operation {name!r} has no weights")
    if code in WITH_EPILOGUE:
        op.scale = view("scale", "<f4", op.out_channels)
        op.bias = view("bias", "<f4", op.out_channels)
        integers = flags & Flag.INTEGER_THRESHOLD
        op.threshold = view("threshold", "<i4" if integers else "<f4", op.out_channels)
        op.flip = view("flip", "u1", op.copies * ((op.channels + 7) // 8))
    elif code == Code.MAX_POOL:
        op.flip = view("flip", "u1", source.pixel_bytes)
    elif code == Code.MEAN_COPIES and offsets["weights"] != ABSENT:
        if op.out_float < 0:
            raise ValueError(f"operation {name!r} writes nothing")
        op.weights = view("weights", "<u4", op.copies * program.tensors[op.out_float].channels)
        if op.weights is not None and int(op.weights.max(initial=0)) >= source.channels:
            raise ValueError(f"operation {name!r} averages channels that its input does not have")
    elif code == Code.CURVE:
        curve = Curve(op.function)
        count = source.channels if curve == Curve.PRELU else CURVE_PARAMETERS.get(curve, 0)
        op.weights = view("weights", "<f4", count) if count else None
    elif code == Code.RESAMPLE:
        if op.out_float < 0:
            raise ValueError(f"operation {name!r} writes nothing")
        target = program.tensors[op.out_float]
        op.weights = view("weights", "<u4", 2 * (target.height + target.width))
        op.scale = view("scale", "<f4", 2 * (target.height + target.width))
    elif code == Code.LOOKUP:
        op.weights = view("weights", "<f4", 256 * source.channels)
    elif code == Code.NORMALISE:
        count = math.prod(source.shape) if flags & Flag.EVERY_VALUE else source.channels
        op.weights = view("weights", "<f4", 1)
        op.scale, op.bias = view("scale", "<f4", count), view("bias", "<f4", count)
    return op
