"""`load`: run a packed model with NumPy alone.

    model = binaryduo.load("net.duo")
    logits = model(images)              # float32, N × C × H × W -> N × classes

The native executor chooses the best instruction set of the CPU; the environment variable BINARYDUO_ISA
forces one (scalar, avx2, avx512, avx512vbmi, amx, neon).
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from binaryduo._common.images import as_bytes, as_numbers
from binaryduo._common.text import printable
from binaryduo.engine import format as duo
from binaryduo.engine.program import Code, Flag, Op, Program, Storage
from binaryduo.engine.weight_layout import unpack_bits
from binaryduo.errors import ArgumentError, MissingExtraError, PackedFormatError

try:
    from binaryduo.engine import _native
except ImportError as error:
    raise MissingExtraError(
        "binaryduo's native engine is not built here: install a C++ compiler (Debian: apt install g++) and "
        f"run pip install binaryduo again ({error})"
    ) from error


@dataclass(frozen=True)
class Layer:
    """One line of `PackedModel.describe()`."""

    name: str
    operation: str
    output: str
    weights: str
    bytes: int
    thresholds: int
    kernel: str


MOST_THREADS = 256  # more would only wait for one another


class PackedModel:
    """A loaded packed model; call it with images. Safe to call from several threads at once."""

    def __init__(self, sections: duo.Sections, threads: int | None = None, check_finite: bool = True) -> None:
        threads = None if threads is None else _whole(threads)
        self.check_finite = check_finite
        self._content, self._wanted_threads = sections.content, threads
        self.program: Program = duo.parse(sections)
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if os.environ.get("BINARYDUO_ISA", "") not in ("", *_native.available().split()):
            raise ArgumentError(
                f"BINARYDUO_ISA is {os.environ['BINARYDUO_ISA']!r}: "
                f"this CPU runs one of {', '.join(_native.available().split())}"
            )
        try:
            self._native = _native.Model(sections.content, threads or min(count, MOST_THREADS))
        except ValueError as error:
            raise sections.error(str(error)) from error
        except RuntimeError as error:  # std::system_error
            raise ArgumentError(f"{threads or count} threads cannot be started here: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent to other processes as the bytes of its file, which are checked again there."""
        return _from_bytes, (self._content.tobytes(), self._wanted_threads, self.check_finite)

    def __repr__(self) -> str:
        sizes = " × ".join(str(size) for size in self.input_shape)
        name = self.program.meta.get("model", "a network")[:60]
        return (
            f"<PackedModel {printable(name)}: images N × {sizes}, {len(self.program.ops)} operations, {self.isa} on "
            f"{self.threads} thread{'s' if self.threads > 1 else ''}>"
        )

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        return self.program.tensors[0].shape

    @property
    def isa(self) -> str:
        """The instruction set that runs."""
        return str(self._native.isa)

    @property
    def threads(self) -> int:
        """How many threads share the work of one call."""
        return int(self._native.threads)

    @property
    def workspace_bytes(self) -> int:
        """Memory that a running call uses beside the weights."""
        return int(self._native.workspace_bytes)

    def __call__(self, images: ArrayLike) -> Any:
        """Logits (N, classes) for images (N, C, H, W) or sequences (N, C, T), converted to float32 if need be.

        A model packed with input="uint8" takes pixels from 0 to 255, of the type uint8, and nothing else.
        A model that gives images, as a segmentation does, returns (N, C, H, W); one with several outputs a tuple of
        arrays, in the order in which the packed model gave them. What is not one array of finite numbers is refused
        with ArgumentError.
        """
        found = self.outputs(images)
        return found[0] if len(found) == 1 else found

    def outputs(self, images: ArrayLike) -> tuple[NDArray[np.float32], ...]:
        """All outputs of the model, a tuple also where there is one."""
        results: list[NDArray[np.float32]] = self._native.run(self._images(images))
        forms = [*self.program.meta.get("output", "").split(), *[""] * len(results)]
        return tuple(_formed(result, form) for result, form in zip(results, forms, strict=False))

    def predict(self, images: ArrayLike) -> NDArray[np.int64]:
        """The most likely class of each image, by the first output: (N,)."""
        result: NDArray[np.int64] = np.argmax(self.outputs(images)[0], axis=1)
        return result

    def trace(self, image: ArrayLike) -> list[NDArray[Any]]:
        """All tensors for one image, (1, H, W, C) each, bits as zeros and ones: for looking inside."""
        values: list[NDArray[Any]] = []
        array = self._images(image)
        if len(array) != 1:
            raise ArgumentError(f"trace takes one image, not {len(array)}")
        for tensor, raw in zip(self.program.tensors, self._native.trace(array), strict=True):
            if tensor.kind == Storage.BITS:
                raw = unpack_bits(raw, tensor.channels, tensor.copies)
            values.append(raw[None])
        return values

    def profile(self, images: ArrayLike) -> list[float]:
        """Seconds that each operation of `program.ops` took in one call."""
        return [float(seconds) for seconds in self._native.profile(self._images(images))]

    @property
    def input_type(self) -> str:
        """What images are made of: "float32", or "uint8" where the file was packed with input="uint8"."""
        return "uint8" if self.program.tensors[0].kind == Storage.BYTES else "float32"

    def _images(self, images: ArrayLike) -> NDArray[np.float32] | NDArray[np.uint8]:
        array: NDArray[Any]
        if self.input_type == "uint8":
            array = as_bytes(images, "images", ArgumentError)
        else:
            array = as_numbers(images, "images", ArgumentError)
        if array.ndim == 2 and self.input_shape[1:] == (1, 1):
            array = array[:, :, None, None]
        if array.ndim == 3 and self.program.meta.get("input") == "sequence":
            array = array[:, :, None]
        if array.ndim != 4 or array.shape[1:] != self.input_shape:
            sequence = self.program.meta.get("input") == "sequence"
            expected = " × ".join(str(n) for n in (self.input_shape[::2] if sequence else self.input_shape))
            raise ArgumentError(f"images must have the shape N × {expected}, not {array.shape}")
        if self.check_finite and array.dtype != np.uint8 and not np.isfinite(array).all():
            first = int(np.flatnonzero(~np.isfinite(array).all(axis=(1, 2, 3)))[0])
            raise ArgumentError(
                f"image {first} holds a value that is not finite (NaN, infinite, or too large for float32): an "
                "answer to it would mean nothing; load(…, check_finite=False) leaves this check out"
            )
        return array

    def describe(self) -> list[Layer]:
        """What the model consists of, layer by layer."""
        return [self._layer(number, op) for number, op in enumerate(self.program.ops)]

    def _layer(self, number: int, op: Op) -> Layer:
        target = self.program.tensors[max(op.out_float, op.out_bits)]
        outputs = [self.program.tensors[i] for i in (op.out_float, op.out_bits) if i >= 0]
        form = " + ".join("bits" if t.kind == Storage.BITS else "float" for t in outputs)
        weights, kernel = "", ""
        if op.code == Code.BINARY_CONV:
            weights, kernel = "1 bit", f"{self.isa} {self._native.bit_kernel(number)}"
        elif op.code == Code.FLOAT_CONV and op.weights is not None:
            weights = "1 bit" if op.flags & Flag.BIT_WEIGHTS else op.weights.dtype.name
            kernel = f"{self.isa} 6×{32 if self.isa.startswith(('avx512', 'amx')) else 16}"
            if op.flags & Flag.BYTE_WEIGHTS and self.program.tensors[op.input].kind != Storage.FLOAT:
                kernel = f"{self.isa} bytes"
            elif chosen := self._native.bit_kernel(number):
                kernel = f"{self.isa} {chosen}"
        if op.code in (Code.BINARY_CONV, Code.FLOAT_CONV):
            groups = f" in {op.groups} groups" if op.groups > 1 else ""
            source = self.program.tensors[op.input]
            shared = source.copies if op.flags & Flag.SHARED_WEIGHTS else 1
            inputs = source.channels // shared
            groups += f" on {shared} planes" if shared > 1 else ""
            weights += f", {op.kernel[0]}×{op.kernel[1]}×{inputs}→{op.channels}{groups}"
        return Layer(
            name=op.name,
            operation=op.code.name.lower().replace("_", " "),
            output=f"{target.channels}×{target.height}×{target.width} {form}",
            weights=weights,
            bytes=sum(array.nbytes for _, array in op.arrays()),
            thresholds=0 if op.threshold is None else op.threshold.size,
            kernel=kernel,
        )


def _formed(result: NDArray[np.float32], form: str) -> NDArray[np.float32]:
    """An output (N, C, H, W) in the form that the model gave it; where that is not known, one pixel is flat.

    >>> _formed(np.zeros((2, 3, 1, 1), np.float32), "").shape, _formed(np.zeros((2, 3, 1, 4)), "sequence").shape
    ((2, 3), (2, 3, 4))
    """
    if form == "flat" or (form not in ("sequence", "image") and result.shape[2:] == (1, 1)):
        return result.reshape(len(result), math.prod(result.shape[1:]))
    if form == "sequence":
        return result.reshape(*result.shape[:2], math.prod(result.shape[2:]))
    return result


def _whole(threads: object) -> int:
    """The number of threads, if it is one.

    >>> _whole("2")
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: threads must be a whole number from 1 to 256, not '2': leave it out to use all cores
    """
    if type(threads) is int or isinstance(threads, np.integer):
        count = int(threads)
        if 1 <= count <= MOST_THREADS:
            return count
    raise ArgumentError(
        f"threads must be a whole number from 1 to {MOST_THREADS}, not {threads!r}: leave it out to use all cores"
    )


def _from_bytes(content: bytes, threads: int | None, check_finite: bool) -> PackedModel:
    """The model of a file's bytes: what a copy, or one that was sent to another process, is made of."""
    return PackedModel(
        duo.Sections(np.frombuffer(content, np.uint8), "the packed model"), threads, check_finite
    )


def load(path: str | Path, threads: int | None = None, check_finite: bool = True) -> PackedModel:
    """Load a packed model; threads=None uses all cores. Needs NumPy only.

    Images with NaN or infinite values are refused, since a binary activation would turn them into a confident
    answer; check_finite=False leaves that check out (it costs a pass over the images).

    Every checksum is verified and every length and index checked first; a file that is not as it should be
    is refused with PackedFormatError. The weights are mapped, not copied: do not overwrite the file in place
    while it is loaded (replace it instead).
    """
    try:
        return PackedModel(duo.open_sections(path), threads, check_finite)
    except MemoryError as error:
        raise PackedFormatError(f"{path} needs more memory than there is") from error
