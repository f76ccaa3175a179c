"""The numbers that the paper prints, once: every picture, verdict and report that shows one takes it from here."""

from typing import NamedTuple

# VGG-7 on CIFAR-10, best test accuracy in percent of the best setting of the grid (Sections 6.1, Appendices E and F).
# Keys are the cases of `binaryduo search`; BinaryDuo-Q, which is none of them, has keys of its own.
CIFAR10 = {
    "baseline": 89.07,
    "coupled": 89.69,
    "decoupled": 90.44,
    "scratch": 88.93,  # the decoupled topology, trained from scratch
    "coupled:4": 89.61,
    "coupled-quad": 88.05,  # printed as a gain of 1.67 points by fine-tuning
    "decoupled-quad": 89.72,
}


class Table2(NamedTuple):
    """A line of Table 2: size and operations of a network, and its accuracies on ImageNet where printed."""

    mbit: float
    mops: float
    top1: float | None = None
    top5: float | None = None


TABLE2 = {
    ("alexnet", "baseline"): Table2(191, 126),
    ("alexnet", "decoupled"): Table2(189, 119, 52.7, 76.0),
    ("resnet18", "baseline"): Table2(33.3, 164),
    ("resnet18", "decoupled"): Table2(31.9, 164, 60.4, 82.3),
    ("resnet18-sc", "baseline"): Table2(33.3, 164),
    ("resnet18-sc", "decoupled"): Table2(31.9, 164, 60.9, 82.6),
}

IMAGENET = {network: line.top1 for (network, _), line in TABLE2.items() if line.top1 is not None}
