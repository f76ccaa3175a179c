"""CIFAR-10 in all its forms, on miniature copies in the same formats; and the real one where it is."""

import hashlib
import http.server
import json
import pickle
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from binaryduo import data
from binaryduo._common import downloads
from binaryduo.data import cache, cifar10
from binaryduo.data.cache import Arrays
from binaryduo.errors import DataError

PER_BATCH = 20


@pytest.fixture
def arrays() -> Arrays:
    random = np.random.default_rng(0)
    n = 5 * PER_BATCH
    return {
        "train_images": random.integers(0, 256, (n, 32, 32, 3), np.uint8),
        "train_labels": random.integers(0, 10, n, np.uint8),
        "test_images": random.integers(0, 256, (PER_BATCH, 32, 32, 3), np.uint8),
        "test_labels": random.integers(0, 10, PER_BATCH, np.uint8),
    }


@pytest.fixture
def sums(arrays: Arrays) -> dict[str, str]:
    return {name: cache.sha256(array) for name, array in arrays.items()}


def batches(arrays: Arrays) -> list[tuple[str, np.ndarray, np.ndarray]]:
    images, labels = np.split(arrays["train_images"], 5), np.split(arrays["train_labels"], 5)
    train = [(f"data_batch_{i + 1}", images[i], labels[i]) for i in range(5)]
    return [*train, ("test_batch", arrays["test_images"], arrays["test_labels"])]


def write_binary(folder: Path, arrays: Arrays) -> None:
    for name, images, labels in batches(arrays):
        planes = images.transpose(0, 3, 1, 2).reshape(len(images), 3072)
        (folder / f"{name}.bin").write_bytes(np.concatenate([labels[:, None], planes], 1).tobytes())


def write_python(folder: Path, arrays: Arrays) -> None:
    for name, images, labels in batches(arrays):
        planes = images.transpose(0, 3, 1, 2).reshape(len(images), 3072)
        content = {b"batch_label": b"x", b"labels": labels.tolist(), b"data": planes, b"filenames": [b"a"]}
        content = {key.decode(): value for key, value in content.items()}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


def write_png(folder: Path, arrays: Arrays) -> None:
    for name, images, _ in batches(arrays):
        Image.fromarray(images.reshape(len(images), 1024, 3)).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps(arrays["train_labels"].tolist()))
    (folder / "test_lables.json").write_text(json.dumps(arrays["test_labels"].tolist()))


WRITERS = {"binary": write_binary, "python": write_python, "png": write_png}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("place", ["here", "below", "archive"])
def test_every_form_ends_in_the_same_arrays(
    form: str, place: str, arrays: Arrays, sums: dict[str, str], tmp_path: Path
) -> None:
    inner = tmp_path if place == "here" else tmp_path / "inner"
    inner.mkdir(exist_ok=True)
    WRITERS[form](inner, arrays)
    if place == "archive":
        with tarfile.open(tmp_path / "my-cifar-10.tar.gz", "w:gz") as archive:
            archive.add(inner, "package")
        for file in inner.iterdir():
            file.unlink()
    read = cifar10.load(tmp_path, expected=sums)
    assert all(np.array_equal(read[name], arrays[name]) for name in arrays)


def test_an_altered_byte_is_named_and_not_used(arrays: Arrays, sums: dict[str, str], tmp_path: Path) -> None:
    arrays["test_images"][3, 2, 1, 0] ^= 1
    write_binary(tmp_path, arrays)
    with pytest.raises(DataError, match=f"{tmp_path}: test images differ .* none of it is used"):
        cifar10.load(tmp_path, expected=sums)


def test_a_cut_file_is_named(arrays: Arrays, sums: dict[str, str], tmp_path: Path) -> None:
    write_png(tmp_path, arrays)
    whole = (tmp_path / "data_batch_3.png").read_bytes()
    (tmp_path / "data_batch_3.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"data_batch_3\.png is damaged"):
        cifar10.load(tmp_path, expected=sums)


def test_missing_things_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no CIFAR-10"):
        cifar10.load(tmp_path)
    with pytest.raises(DataError, match="nowhere does not exist"):
        cifar10.load(tmp_path / "nowhere")


@pytest.fixture
def fetched() -> list[str]:
    """What the server was asked for."""
    return []


@pytest.fixture
def server(tmp_path: Path, arrays: Arrays, fetched: list[str]):  # type: ignore[no-untyped-def]
    """The official archive in miniature, behind a real HTTP server on the loopback."""
    site, inner = tmp_path / "site", tmp_path / "inner"
    site.mkdir()
    inner.mkdir()
    write_binary(inner, arrays)
    with tarfile.open(site / "cifar.tar.gz", "w:gz") as archive:
        archive.add(inner, "cifar-10-batches-bin")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            fetched.append(self.path)
            super().do_GET()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield site / "cifar.tar.gz", f"http://127.0.0.1:{served.server_port}/cifar.tar.gz"
        served.shutdown()


def test_fetch_store_and_start_again(
    server: tuple[Path, str], sums: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, url = server
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar10, "OFFICIAL", url)
    monkeypatch.setattr(cifar10, "OFFICIAL_MD5", hashlib.md5(archive.read_bytes()).hexdigest())
    first = cifar10.load(expected=sums)
    archive.unlink()  # the second start asks nobody
    again = cifar10.load(expected=sums)
    assert all(np.array_equal(first[name], again[name]) for name in sums)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["cifar10"]


def test_a_partial_download_is_never_used(
    server: tuple[Path, str], sums: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, url = server
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-100])
    target = tmp_path / "cache" / "cifar.tar.gz"
    with pytest.raises(DataError, match="partial or altered"):
        downloads.download(url, target, hashlib.md5(whole).hexdigest())
    assert list(target.parent.iterdir()) == []
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar10, "OFFICIAL", url)
    monkeypatch.setattr(cifar10.shutil, "which", lambda name: None)  # and npm is not there either
    with pytest.raises(DataError, match=r"partial or altered.*npm, which is not installed"):
        cifar10.load(expected=sums)
    assert list(target.parent.iterdir()) == []


def test_of_many_that_fill_a_cold_cache_one_fetches(
    arrays: Arrays, sums: dict[str, str], tmp_path: Path
) -> None:
    fetched = []

    def fetch() -> Arrays:
        fetched.append(1)
        time.sleep(0.2)
        return arrays

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: cache.filled(tmp_path / "cifar10", sums, fetch), range(3)))
    assert fetched == [1]
    assert all(np.array_equal(own[name], arrays[name]) for own in found for name in sums)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar10"]


def test_of_many_one_fetches_a_file_and_one_that_cannot_be_stored_is_named(
    server: tuple[Path, str], fetched: list[str], tmp_path: Path
) -> None:
    archive, url = server
    target, published = tmp_path / "cache" / "a.tar.gz", hashlib.md5(archive.read_bytes()).hexdigest()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: downloads.download(url, target, published), range(3)))
    assert target.read_bytes() == archive.read_bytes()
    assert len(fetched) == 1
    target.unlink()
    (target / "in the way").mkdir(parents=True)
    with pytest.raises(DataError, match=r"a\.tar\.gz could not be written"):
        downloads.download(url, target, published)
    assert list(target.parent.iterdir()) == [target]


def test_labels_out_of_range_are_refused(arrays: Arrays) -> None:
    arrays["test_labels"][0] = 10
    with pytest.raises(DataError, match="test labels go up to 10, but there are only 10 classes"):
        data.from_arrays("mine", arrays, cifar10.CLASSES, cifar10.MEAN, cifar10.STD)


@pytest.mark.skipif(not (cifar10.home() / "checksums.json").exists(), reason="binaryduo data get cifar10")
def test_the_real_one() -> None:
    assert "published checksums" in data.verify("cifar10")
    assert data.load("cifar10", fetch=False).shape == (3, 32, 32)
