"""How the arrays of a data set are kept: whole and checked, or not at all."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from binaryduo._common.hostile import read_json
from binaryduo._common.locks import alone
from binaryduo.errors import DataError

Arrays = dict[str, np.ndarray]


def sha256(array: np.ndarray) -> str:
    """Of the array's bytes in C order.

    >>> sha256(np.zeros(0, np.uint8))[:8]
    'e3b0c442'
    """
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def check_arrays(arrays: Arrays, expected: dict[str, str], origin: str) -> Arrays:
    """The arrays, if each has its published checksum; else an error that names the first that has not."""
    for name, digest in expected.items():
        found = sha256(arrays[name])
        if found != digest:
            raise DataError(
                f"{origin}: {name.replace('_', ' ')} differ from the published data set "
                f"(sha256 {found[:12]}…, expected {digest[:12]}…); none of it is used"
            )
    return arrays


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A folder beside the cache that disappears again, whatever happens."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".part-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def store(folder: Path, arrays: Arrays, expected: dict[str, str]) -> None:
    """Write the arrays so that the folder appears complete or not at all."""
    with scratch(folder.parent) as part:
        for name, array in arrays.items():
            np.save(part / f"{name}.npy", array, allow_pickle=False)
        (part / "checksums.json").write_text(json.dumps(expected, indent=1))
        part.chmod(0o755)  # a temporary folder is its owner's alone; data is not a secret
        if folder.exists():
            shutil.rmtree(folder)
        part.rename(folder)
        part.mkdir()  # what `scratch` will remove


def stored(folder: Path, expected: dict[str, str]) -> Arrays | None:
    """The arrays as they lie in the cache, memory-mapped at once; None where there are none.

    Their checksums were computed when they were stored; `verify` computes them again.
    """
    try:
        if read_json(folder / "checksums.json", "the list", DataError) != expected:
            return None
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in expected}
    except (OSError, ValueError, EOFError, DataError):
        return None


def filled(folder: Path, expected: dict[str, str], fetch: Callable[[], Arrays]) -> Arrays:
    """The arrays in the cache, where one process fetches them and others that want them at the same time wait."""
    with alone(folder.with_name(f".{folder.name}.lock")):
        arrays = stored(folder, expected)
        if arrays is None:
            arrays = fetch()
            store(folder, arrays, expected)
    return arrays
