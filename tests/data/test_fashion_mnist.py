"""The embedded images, and the IDX files of the full set in miniature."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from binaryduo import data
from binaryduo.data import cache, fashion_mnist
from binaryduo.errors import ArgumentError, DataError, UnknownNameError


def test_the_embedded_set_is_balanced_and_normalised() -> None:
    small = data.load("fashion-mnist-small")
    assert torch.bincount(small.train.labels).tolist() == [1000] * 10
    assert torch.bincount(small.test.labels).tolist() == [200] * 10
    batch = next(small.test.batches(data.Plan(batch=2000, train=False)))
    assert batch.images.shape == (2000, 1, 28, 28)
    assert abs(float(batch.images.mean())) < 0.05
    assert abs(float(batch.images.std()) - 1) < 0.05


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def test_idx_files_gzipped_and_plain(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {
        "train_images": random.integers(0, 256, (6, 28, 28), np.uint8),
        "train_labels": random.integers(0, 10, 6, np.uint8),
        "test_images": random.integers(0, 256, (4, 28, 28), np.uint8),
        "test_labels": random.integers(0, 10, 4, np.uint8),
    }
    for number, (name, file) in enumerate(fashion_mnist.FILES.items()):
        raw = idx(arrays[name])
        if number % 2:
            (tmp_path / file).write_bytes(gzip.compress(raw))
        else:
            (tmp_path / file).with_suffix("").write_bytes(raw)
    sums = {name: cache.sha256(array) for name, array in arrays.items()}
    read = fashion_mnist.load(tmp_path, expected=sums)
    assert read["train_images"].shape == (6, 28, 28, 1)
    (tmp_path / fashion_mnist.FILES["test_labels"]).write_bytes(
        gzip.compress(idx(arrays["test_labels"]))[:-9]
    )
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz is missing or damaged"):
        fashion_mnist.load(tmp_path, expected=sums)


def test_damaged_bytes_inside_of_a_gzipped_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(b"")[:10] + b"\xff" * 50)
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz is missing or damaged"):
        fashion_mnist.read_idx(path)


def test_a_package_that_cannot_be_unpacked_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in (("apt-get", "touch a.deb"), ("dpkg-deb", "echo no archive >&2; exit 2")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", tmp_path / "nothing")
    with pytest.raises(DataError, match=r"`dpkg-deb -x a\.deb \.` failed: no archive"):
        fashion_mnist.load()


def test_unknown_names_and_missing_roots() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown data set 'mnist'.*cifar10"):
        data.load("mnist")
    with pytest.raises(ArgumentError, match="needs the folder"):
        data.load("imagenet")
