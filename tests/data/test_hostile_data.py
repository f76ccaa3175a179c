"""Shards and folders that were made to break a reader."""

import io
import json
import os
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from binaryduo.data import DecodedSplit, Plan, folders, shards
from binaryduo.errors import DataError


def jpeg() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(out, "JPEG")
    return out.getvalue()


def shard(path: Path, name: str, content: bytes, kind: bytes = tarfile.REGTYPE, link: str = "") -> Path:
    with tarfile.open(path, "w") as archive:
        for member, raw in (("a.jpg", jpeg()), (name, content)):
            info = tarfile.TarInfo(member)
            info.size = len(raw)
            if member == name:
                info.type, info.linkname = kind, link
            archive.addfile(info, io.BytesIO(raw))
    return path


LABELS = {
    "a link to itself": ("a.cls", b"", tarfile.SYMTYPE, "a.cls"),
    "a hard link to itself": ("a.cls", b"", tarfile.LNKTYPE, "a.cls"),
    "a pipe": ("a.cls", b"", tarfile.FIFOTYPE, ""),
    "deep JSON": ("a.json", b'{"label": ' + b"[" * 100_000, tarfile.REGTYPE, ""),
    "infinite": ("a.json", b'{"label": 1e999}', tarfile.REGTYPE, ""),
    "Infinity": ("a.json", b'{"label": Infinity}', tarfile.REGTYPE, ""),
    "a fraction": ("a.json", b'{"label": 1.5}', tarfile.REGTYPE, ""),
    "true": ("a.json", b'{"label": true}', tarfile.REGTYPE, ""),
    "a list": ("a.json", b"[1]", tarfile.REGTYPE, ""),
    "thousands of digits": ("a.cls", b"9" * 5000, tarfile.REGTYPE, ""),
    "text": ("a.cls", b"cat", tarfile.REGTYPE, ""),
    "too long": ("a.cls", b" " * (2**20 + 1), tarfile.REGTYPE, ""),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", LABELS)
def test_a_label_that_is_none_is_named(what: str, tmp_path: Path) -> None:
    path = shard(tmp_path / "train.tar", *LABELS[what])
    with pytest.raises(DataError, match=r"the shard .*train\.tar"):
        shards.index_shard(path)


@pytest.mark.parametrize("content", ["[", "[[1, 2]]", '[["a", 1, 2, "x"]]', "[" * 100_000, "{}", "null"])
def test_a_damaged_index_is_made_again(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    path = shard(tmp_path / "train.tar", "a.cls", b"3\n")
    wanted = shards.scan([path], 10)
    (kept,) = (tmp_path / "cache" / "shards").glob("*.json")
    good = kept.read_text()
    kept.write_text(content)
    found = shards.scan([path], 10)
    assert (found.keys, found.labels.tolist()) == (wanted.keys, [3])
    assert json.loads(kept.read_text()) == json.loads(good)


def test_of_many_that_want_an_index_one_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    path = shard(tmp_path / "train.tar", "a.cls", b"3\n")
    made, make = [], shards.index_shard

    def slowly(path: Path) -> list[tuple[str, int, int, int]]:
        made.append(path)
        time.sleep(0.2)
        return make(path)

    monkeypatch.setattr(shards, "index_shard", slowly)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(shards._cached_index, [path] * 3))
    assert made == [path]
    assert found == [make(path)] * 3


@pytest.mark.timeout(60)
def test_a_pipe_among_the_images_is_left_out_and_named(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").write_bytes(jpeg())
    os.mkfifo(tmp_path / "cat" / "8.png")
    (tmp_path / "dog" / "9.png").symlink_to("9.png")
    (tmp_path / "dog" / "7.png").mkdir()
    split = DecodedSplit(folders.scan(tmp_path, ("cat", "dog")), size=8, workers=0)
    lost = [name for batch in split.batches(Plan(2, False)) for name in batch.unreadable]
    assert sorted(Path(name).name for name in lost) == ["7.png", "8.png", "9.png"]
