"""Photographs in class folders and in shards written by the webdataset package itself."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
import webdataset
from PIL import Image

from binaryduo import data
from binaryduo.data import Plan, decoded
from binaryduo.data.in_memory import IGNORED
from binaryduo.errors import DataError

CLASSES = ("ant", "bee", "cat")
PER_CLASS = 5


def jpeg(label: int, number: int) -> bytes:
    """A photograph whose mean colour tells its class."""
    random = np.random.default_rng(100 * label + number)
    pixels = random.integers(0, 60, (48 + number, 64, 3)).astype(np.uint8)
    pixels[..., label] += 180
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    return out.getvalue()


def make_folders(root: Path) -> Path:
    for split in ("train", "val"):
        for label, name in enumerate(CLASSES):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(PER_CLASS):
                (folder / f"{number}.JPEG").write_bytes(jpeg(label, number))
    return root


def make_shards(root: Path) -> Path:
    root.mkdir()
    for split in ("train", "val"):
        for shard in range(2):
            with webdataset.TarWriter(str(root / f"tiny-{split}-{shard}.tar")) as writer:
                for n in range(shard, len(CLASSES) * PER_CLASS, 2):
                    label, number = divmod(n, PER_CLASS)
                    writer.write({"__key__": f"{n:04d}", "jpg": jpeg(label, number), "cls": label})
    (root / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    return root


@pytest.fixture(params=["folders", "shards"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    return (make_folders if request.param == "folders" else make_shards)(tmp_path / "set")


def passes(root: Path, workers: int, plan: Plan) -> list[data.Batch]:
    return list(data.load("imagenet", root, image_size=32, workers=workers).train.batches(plan))


def test_labels_belong_to_their_images(root: Path) -> None:
    found = data.load("imagenet", root, image_size=32, workers=0)
    assert found.classes == CLASSES
    for split, plan in ((found.train, Plan(batch=5, train=True)), (found.test, Plan(batch=4, train=False))):
        batches = list(split.batches(plan))
        assert sum(len(b.labels) for b in batches) == 15
        for batch in batches:
            assert batch.images.shape[1:] == (3, 32, 32)
            assert torch.equal(batch.images.mean((2, 3)).argmax(1), batch.labels)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a single core
def test_workers_and_processes_do_not_change_the_pixels(root: Path) -> None:
    plan = Plan(batch=6, train=True, seed=1, epoch=2)
    alone, helped = passes(root, 0, plan), passes(root, 2, plan)
    halves = [passes(root, 0, Plan(batch=6, train=True, seed=1, epoch=2, rank=r, world=2)) for r in (0, 1)]
    rest = passes(root, 0, Plan(batch=6, train=True, seed=1, epoch=2, start=1))
    for step, batch in enumerate(alone):
        assert torch.equal(batch.images, helped[step].images)
        assert torch.equal(batch.images, torch.cat([h[step].images for h in halves]))
    assert torch.equal(alone[1].images, rest[0].images)
    assert not torch.equal(
        alone[0].images, passes(root, 0, Plan(batch=6, train=True, seed=1, epoch=3))[0].images
    )


def test_one_bad_image_is_counted_and_named(tmp_path: Path) -> None:
    root = make_folders(tmp_path / "set")
    bad = root / "train" / "bee" / "3.JPEG"
    bad.write_bytes(bad.read_bytes()[:200])
    batches = passes(root, 0, Plan(batch=5, train=True))
    assert [name for b in batches for name in b.unreadable] == [str(bad)]
    assert sum(int((b.labels == IGNORED).sum()) for b in batches) == 1
    assert sum(len(b.labels) for b in batches) == 15


def test_many_bad_images_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_folders(tmp_path / "set")
    for file in (root / "train").rglob("*.JPEG"):
        file.write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"could not be read, the last .*JPEG"):
        passes(root, 0, Plan(batch=5, train=True))


def test_empty_and_unknown_class_folders_are_named(tmp_path: Path) -> None:
    root = make_folders(tmp_path / "set")
    (root / "train" / "dog").mkdir()
    with pytest.raises(DataError, match=r"class folder .*dog holds no images"):
        data.load("imagenet", root)
    (root / "train" / "dog").rmdir()
    (root / "val" / "dog").mkdir()
    with pytest.raises(DataError, match=r"dog is only in .*val"):
        data.load("imagenet", root)


def test_damaged_shards_and_wrong_labels_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    root = make_shards(tmp_path / "set")
    (root / "classes.txt").write_text("ant\nbee\n")
    with pytest.raises(DataError, match=r"tiny-train-0\.tar gives 0010 the label 2, outside of 0 … 1"):
        data.load("imagenet", root)
    (root / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    shard = root / "tiny-train-1.tar"
    shard.write_bytes(b"x" * 3000)
    with pytest.raises(DataError, match=r"tiny-train-1\.tar is damaged"):
        data.load("imagenet", root)


def test_the_list_of_classes_may_be_written_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With line ends of another system, and without one after the last class."""
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    root = make_shards(tmp_path / "set")
    (root / "classes.txt").write_bytes("\r\n".join(CLASSES).encode())
    assert data.load("imagenet", root).classes == CLASSES


def test_random_windows_stay_inside() -> None:
    random = np.random.default_rng(0)
    for width, height in ((500, 375), (20, 300), (1, 1)):
        for _ in range(50):
            left, top, right, bottom = decoded.random_window(width, height, random)
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
