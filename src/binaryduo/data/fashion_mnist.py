"""Fashion-MNIST (Zalando SE, MIT licence): 12,000 images in a package beside this one, all 70,000 from Debian's.

The small file is the first 1,000 training and the first 200 test images of each class, in their order:
xz-compressed raw bytes, 12,000 images of 28×28 pixels followed by 12,000 labels.
"""

import gzip
import hashlib
import lzma
import shutil
import subprocess
import zlib
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from binaryduo._common.downloads import cache_dir
from binaryduo._common.progress import console, track
from binaryduo.data.cache import Arrays, check_arrays, filled, scratch, stored
from binaryduo.errors import DataError

CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
MEAN, STD = (0.2867,), (0.3540,)

EMBEDDED = "fashion_mnist_small.xz"
EMBEDDED_SHA256 = "1d459a5ec7c3b89e51f08abf08ee1998b2a3b78badb2dff1e858a0aef7643f40"
EMBEDDED_TRAIN, EMBEDDED_TEST = 10_000, 2_000

# sha256 of the decoded arrays of the full set, N×28×28×1 and N.
CHECKSUMS = {
    "train_images": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
    "train_labels": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
    "test_images": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
    "test_labels": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
}
FILES = {
    "train_images": "train-images-idx3-ubyte.gz",
    "train_labels": "train-labels-idx1-ubyte.gz",
    "test_images": "t10k-images-idx3-ubyte.gz",
    "test_labels": "t10k-labels-idx1-ubyte.gz",
}
DEBIAN_PACKAGE = "dataset-fashion-mnist"
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")


@lru_cache(maxsize=1)
def load_embedded() -> Arrays:
    """10,000 training and 2,000 test images, decoded in a third of a second.

    >>> load_embedded()["train_images"].shape
    (10000, 28, 28, 1)
    """
    raw = lzma.decompress(_compressed())
    if hashlib.sha256(raw).hexdigest() != EMBEDDED_SHA256:
        raise DataError(f"the file {EMBEDDED} was altered: reinstall binaryduo-images")
    total = EMBEDDED_TRAIN + EMBEDDED_TEST
    everything = np.frombuffer(raw, np.uint8)
    images = everything[: total * 784].reshape(total, 28, 28, 1)
    labels = everything[total * 784 :]
    return {
        "train_images": images[:EMBEDDED_TRAIN],
        "train_labels": labels[:EMBEDDED_TRAIN],
        "test_images": images[EMBEDDED_TRAIN:],
        "test_labels": labels[EMBEDDED_TRAIN:],
    }


CHECKOUT = Path(__file__).parents[3] / "images" / "src" / "binaryduo_images" / EMBEDDED


def has_embedded() -> bool:
    """Whether the small file is on this machine.

    >>> has_embedded()
    True
    """
    return CHECKOUT.is_file() or find_spec("binaryduo_images") is not None


def _compressed() -> bytes:
    """The small file: of the checkout that we are imported from, else of the package binaryduo-images."""
    if CHECKOUT.is_file():
        return CHECKOUT.read_bytes()
    try:
        return files("binaryduo_images").joinpath(EMBEDDED).read_bytes()
    except ModuleNotFoundError as error:
        raise DataError(
            "fashion-mnist-small is in the package binaryduo-images, which is not installed: run "
            "`pip install ./images` in a checkout of binaryduo (after a first release: pip install binaryduo-images)"
        ) from error


def home() -> Path:
    """Where the decoded arrays of the full set are kept."""
    return cache_dir() / "fashion-mnist"


def load(root: Path | None = None, fetch: bool = True, expected: dict[str, str] = CHECKSUMS) -> Arrays:
    """The full set: the folder that the user names, else the cache, else Debian's package."""
    if root is not None:
        return check_arrays(read_folder(root), expected, str(root))
    arrays = stored(home(), expected)
    if arrays is not None:
        return arrays
    if not fetch:
        raise DataError("Fashion-MNIST is not on this machine: run `binaryduo data get fashion-mnist`")
    return filled(home(), expected, lambda: _fetch(expected))


def _fetch(expected: dict[str, str]) -> Arrays:
    """From Debian's package, installed or not."""
    if DEBIAN_FOLDER.is_dir():
        return check_arrays(read_folder(DEBIAN_FOLDER), expected, str(DEBIAN_FOLDER))
    with scratch(cache_dir()) as part:
        return check_arrays(read_folder(_from_debian(part)), expected, DEBIAN_PACKAGE)


def read_folder(root: Path) -> Arrays:
    """The four IDX files, compressed or not."""
    names = track(FILES.items(), "decoding Fashion-MNIST", len(FILES))
    return {name: read_idx(root / file) for name, file in names}


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of bytes, gzipped or plain: images (N, H, W, 1), labels (N,)."""
    found = path if path.exists() else path.with_suffix("")
    try:
        raw = gzip.decompress(found.read_bytes()) if found.suffix == ".gz" else found.read_bytes()
        rank = raw[3]
        shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", count=rank, offset=4))
        if raw[:3] != b"\0\0\x08":
            raise ValueError("its header is not that of an IDX file of bytes")
        array = np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise DataError(f"{path} is missing or damaged: {error}") from error
    return array[..., None] if rank == 3 else array


def _from_debian(part: Path) -> Path:
    """Fetch and unpack Debian's package without installing it."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise DataError(
            f"Fashion-MNIST comes from Debian's package {DEBIAN_PACKAGE}, and there is no apt-get here: "
            f"give the folder that holds {', '.join(FILES.values())}"
        )
    with console.status(f"apt-get download {DEBIAN_PACKAGE} (31 MB)"):
        part.chmod(0o755)  # apt fetches as a user of its own
        _run(["apt-get", "download", DEBIAN_PACKAGE], part)
        for package in list(part.glob("*.deb")):
            _run(["dpkg-deb", "-x", package.name, "."], part)
    return part / DEBIAN_FOLDER.relative_to("/")


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise DataError(f"`{' '.join(command)}` failed: {lines[-1]}")
