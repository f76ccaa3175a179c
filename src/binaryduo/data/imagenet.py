"""ImageNet, or any images: class folders (train/, val/) or WebDataset shards (*train*.tar, *val*.tar)."""

from pathlib import Path

from binaryduo._common.hostile import read_bytes
from binaryduo.data import folders, shards
from binaryduo.data.decoded import DecodedSplit
from binaryduo.errors import DataError

NUM_CLASSES = 1000


def load(root: Path, size: int = 224, workers: int = 4) -> tuple[DecodedSplit, DecodedSplit, tuple[str, ...]]:
    """Training and test split, and the names of the classes.

    Shards say nothing about how many classes there are: `classes.txt` beside them, one name a line, does;
    without it they are the 1,000 of ImageNet.
    """
    if not root.is_dir():
        raise DataError(f"{root} does not exist: name the folder that holds train and val")
    train, test = sorted(root.glob("*train*.tar")), sorted(root.glob("*val*.tar"))
    if train and test:
        listed = root / "classes.txt"
        if listed.is_file():
            names = read_bytes(listed, "the list of classes", DataError).decode(errors="replace")
            classes = tuple(names.splitlines())
        else:
            classes = tuple(str(number) for number in range(NUM_CLASSES))
        found = [shards.scan(train, len(classes)), shards.scan(test, len(classes))]
        return DecodedSplit(found[0], size, workers), DecodedSplit(found[1], size, workers), classes
    if (root / "train").is_dir() and (root / "val").is_dir():
        classes = folders.class_names(root / "train")
        files = [folders.scan(root / split, classes) for split in ("train", "val")]
        return DecodedSplit(files[0], size, workers), DecodedSplit(files[1], size, workers), classes
    raise DataError(
        f"{root} holds neither folders train and val nor shards *train*.tar and *val*.tar; both are needed"
    )
