"""Data sets: embedded and full Fashion-MNIST, CIFAR-10, ImageNet, and a user's own loader."""

from binaryduo.data.decoded import DecodedSplit
from binaryduo.data.in_memory import Batch, MemorySplit
from binaryduo.data.loader import LoaderSplit
from binaryduo.data.order import Plan
from binaryduo.data.sets import ENTRIES, DataSet, Split, from_arrays, load, names, verify

__all__ = [
    "ENTRIES",
    "Batch",
    "DataSet",
    "DecodedSplit",
    "LoaderSplit",
    "MemorySplit",
    "Plan",
    "Split",
    "from_arrays",
    "load",
    "names",
    "verify",
]
