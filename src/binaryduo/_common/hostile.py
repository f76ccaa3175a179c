"""Files that may hold anything: read with limits, and refused in one sentence.

What is no regular file (a pipe would block for ever) is not opened; what is too large is not read; nesting that
overflows the parser, numbers of thousands of digits and text that is no text are refused like any other damage.
Each reader takes the error to raise, so that a caller's errors are of its own kind.
"""

import json
import stat
from pathlib import Path
from typing import Any

from binaryduo.errors import BinaryDuoError

MEGABYTE = 2**20

Error = type[BinaryDuoError]


def read_bytes(path: Path, what: str, error: Error, limit: int = 64 * MEGABYTE) -> bytes:
    """All of a regular file of at most `limit` bytes.

    >>> read_bytes(Path("/dev/null"), "the recipe", BinaryDuoError)
    Traceback (most recent call last):
    binaryduo.errors.BinaryDuoError: the recipe /dev/null could not be read: it is not a file
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise error(f"{what} {path} could not be read: it is not a file")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as problem:  # a name with a NUL byte is a ValueError
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{what} {path} could not be read: {reason}") from None
    if len(content) > limit:
        raise error(
            f"{what} {path} could not be read: it has more than {limit:,} bytes, and none that is right has"
        )
    return content


def parse_json(content: "str | bytes", name: str, error: Error, finite: bool = True) -> Any:
    """What a JSON text holds; `name` is what the error calls it.

    NaN and Infinity are no JSON; only with finite=False, as Python's own files have them, are they read.

    >>> parse_json("[" * 100_000, "the labels", BinaryDuoError)
    Traceback (most recent call last):
    binaryduo.errors.BinaryDuoError: the labels cannot be read as JSON: it is nested too deeply
    """

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a number in JSON")

    try:
        return json.loads(content, parse_constant=refuse if finite else None)
    except RecursionError:
        raise error(f"{name} cannot be read as JSON: it is nested too deeply") from None
    except ValueError as problem:  # also what is no UTF-8, and integers of thousands of digits
        raise error(f"{name} cannot be read as JSON: {problem}") from None


def read_json(path: Path, what: str, error: Error, limit: int = 64 * MEGABYTE, finite: bool = True) -> Any:
    """What a JSON file holds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "a.json").write_text('{"a": [1, 2]}')
    ...     read_json(Path(folder) / "a.json", "the file", BinaryDuoError)
    {'a': [1, 2]}
    """
    return parse_json(read_bytes(path, what, error, limit), f"{what} {path}", error, finite)
