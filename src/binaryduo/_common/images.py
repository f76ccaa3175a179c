"""Images and arrays that may hold anything: looked at before they are decoded, and refused in one sentence."""

import io
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from binaryduo._common.hostile import MEGABYTE, Error, read_bytes

if TYPE_CHECKING:
    from PIL import Image

MOST_BYTES = 256 * MEGABYTE  # of an encoded image
MOST_PIXELS = 80_000_000  # of a decoded one
NUMBERS = "fiub"  # kinds of NumPy types that are plain numbers


def decode_image(raw: bytes, name: str, error: Error, mode: str = "RGB", draft: int = 0) -> "Image.Image":
    """An encoded image as a Pillow image of that mode; `name` is what the error calls it.

    Its size is looked at before its pixels are decoded. A JPEG may be decoded at a fraction of its size, not below
    `draft` pixels a side.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(raw)) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    raise ValueError(f"it has {width} × {height} pixels, more than {MOST_PIXELS:,}")
                if draft:
                    image.draft(mode, (draft, draft))
                return image.convert(mode)
    except UnidentifiedImageError:
        raise error(f"{name} cannot be read as an image: it is in no format that Pillow knows") from None
    except Exception as problem:  # a decoder of strangers' bytes raises whatever it trips over
        reason = " ".join(str(problem).split()) or type(problem).__name__
        raise error(f"{name} cannot be read as an image: {reason}") from None


def read_image(path: Path, error: Error, mode: str = "RGB") -> "Image.Image":
    """The image in a file."""
    return decode_image(read_bytes(path, "the image", error, MOST_BYTES), str(path), error, mode)


def read_array(path: Path, error: Error) -> NDArray[Any]:
    """The numbers of an .npy file; its header is held against the file's length before anything is reserved.

    >>> import tempfile
    >>> from binaryduo.errors import DataError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "a.npy", np.eye(2))
    ...     read_array(Path(folder) / "a.npy", DataError).shape
    (2, 2)
    """
    try:
        if not path.is_file():
            raise ValueError("it is not a file" if path.exists() else "it does not exist")
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            readers = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }
            if version not in readers:
                raise ValueError(f"it is of version {version} of the format")
            shape, _, dtype = readers[version](file)
            if dtype.kind not in NUMBERS or dtype.hasobject:
                raise ValueError(f"its type {dtype} is not one of plain numbers")
            stated, there = math.prod(shape) * dtype.itemsize, path.stat().st_size - file.tell()
            if min(shape, default=0) < 0:
                raise ValueError(f"its header states the shape {shape}")
            if stated != there:
                raise ValueError(f"its header states {stated:,} bytes, and there are {there:,}")
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, TypeError, SyntaxError, MemoryError, RecursionError) as problem:
        reason = " ".join(str(problem).split()) or type(problem).__name__
        raise error(f"{path} cannot be read as an array: {reason}") from None


def as_numbers(values: Any, what: str, error: Error) -> NDArray[np.float32]:
    """The values as one aligned float32 array in C order; ragged lists, text and objects are refused.

    >>> from binaryduo.errors import ArgumentError
    >>> as_numbers([[1, 2], [3, 4]], "images", ArgumentError).dtype
    dtype('float32')
    >>> as_numbers([[1, 2], [3]], "images", ArgumentError)
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: images must be one array of numbers: setting an array element with a sequence. \
The requested array has an inhomogeneous shape after 1 dimensions. The detected shape was (2,) + inhomogeneous part.
    """
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError, OverflowError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise error(f"{what} must be one array of numbers: {reason}") from None
    if array.dtype.kind not in NUMBERS:
        raise error(f"{what} must be numbers, not of the type {array.dtype}")
    with np.errstate(over="ignore"):
        return np.require(array, np.float32, ["C_CONTIGUOUS", "ALIGNED"])


def as_bytes(values: Any, what: str, error: Error) -> NDArray[np.uint8]:
    """The values as one uint8 array in C order; another type is refused, as it may have another scale.

    >>> from binaryduo.errors import ArgumentError
    >>> as_bytes(np.zeros((1, 2)), "images", ArgumentError)
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: images must be of the type uint8, pixels from 0 to 255, not float64: this model \
was packed with input="uint8" and normalises them by itself
    """
    if getattr(values, "dtype", None) is None:
        values = as_numbers(values, what, error)
    array = np.asarray(values)
    if array.dtype != np.uint8:
        raise error(
            f"{what} must be of the type uint8, pixels from 0 to 255, not {array.dtype}: this model was packed with "
            'input="uint8" and normalises them by itself'
        )
    return np.ascontiguousarray(array)
