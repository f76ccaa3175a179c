"""A small detector: where is the garment in a cluttered scene, and which one is it? Two outputs, class and box.

    python examples/detector.py [--out rows.json]

Scenes of 48 × 48 pixels are composed from the embedded Fashion-MNIST images: one garment, of any size and in any place,
among snippets of others that distract. The network gives ten class scores and the box (x, y, width, height, as shares
of the scene). About half a minute for each of the fifteen trainings. `binaryduo reproduce other-tasks` repeats the
committed numbers.
"""

import argparse
from typing import Any

import torch
from three_ways import Setting, Tensors, compare, report
from torch import Tensor, nn
from torch.nn import functional as F

import binaryduo as bd

SIZE, SNIPPETS = 48, 5
SETTINGS = {"baseline": Setting(1e-2, hold=True), "scratch": Setting(3e-3, hold=True)}
SETTINGS["duo"] = Setting(1e-2, finetune=1 / 3)


def scenes(split: Any, first: int, last: int, seed: int) -> Tensors:
    """Images (N, 1, 48, 48), classes (N,) and boxes (N, 4): a scene for each garment from `first` to before `last`."""
    garments, labels, _ = next(split.batches(bd.data.Plan(batch=last, train=False)))
    garments, labels = garments[first:], labels[first:]
    draw = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=draw))

    low = garments.amin()
    images = torch.full((len(garments), 1, SIZE, SIZE), float(low))
    boxes = torch.empty(len(garments), 4)
    for i, garment in enumerate(garments):
        for _ in range(SNIPPETS):
            other, y, x = garments[number(0, len(garments))], number(0, 20), number(0, 20)
            top, left = number(0, SIZE - 8), number(0, SIZE - 8)
            images[i, :, top : top + 8, left : left + 8] = other[:, y : y + 8, x : x + 8]
        size = number(18, 34)
        top, left = number(0, SIZE - size), number(0, SIZE - size)
        scaled = F.interpolate(garment[None], (size, size), mode="bilinear", align_corners=False)[0]
        place = images[i, :, top : top + size, left : left + size]
        torch.maximum(place, scaled, out=place)
        boxes[i] = torch.tensor([left, top, size, size]) / SIZE
    return images + 0.1 * torch.randn(images.shape, generator=draw), labels, boxes


class Detector(nn.Module):
    """Three binary blocks, then a head for the class and one for the box."""

    def __init__(self) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> list[nn.Module]:
            conv = bd.nn.BinaryConv2d(inputs, outputs, 3, padding=1, bias=False)
            return [conv, nn.MaxPool2d(2), nn.BatchNorm2d(outputs), bd.nn.QuantAct()]

        stem = [nn.Conv2d(1, 24, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(24), bd.nn.QuantAct()]
        self.features = nn.Sequential(*stem, *block(24, 48), *block(48, 64), *block(64, 64), nn.Flatten())
        self.label = nn.Linear(64 * 9, 10)
        self.box = nn.Linear(64 * 9, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x)
        return self.label(features), self.box(features)


def loss(output: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(output[0], target[0]) + 5 * F.smooth_l1_loss(output[1], target[1], beta=0.1)


def overlaps(boxes: Tensor, others: Tensor) -> Tensor:
    """Intersection over union of boxes (N, 4), row by row."""
    low = torch.maximum(boxes[:, :2], others[:, :2])
    high = torch.minimum(boxes[:, :2] + boxes[:, 2:], others[:, :2] + others[:, 2:])
    both = (high - low).clamp(min=0).prod(1)
    return both / (boxes[:, 2:].clamp(min=0).prod(1) + others[:, 2:].prod(1) - both)


def top1(output: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]) -> float:
    return 100 * float((output[0].argmax(1) == target[0]).float().mean())


def iou(output: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]) -> float:
    return 100 * float(overlaps(output[1], target[1]).mean())


def found(output: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]) -> float:
    """The share of scenes with the right class and a box that overlaps by half or more."""
    right = (output[0].argmax(1) == target[0]) & (overlaps(output[1], target[1]) >= 0.5)
    return 100 * float(right.float().mean())


METRICS = {"top1": top1, "iou": iou, "found": found}


def main(train: int, test: int, epochs: int, seeds: list[int]) -> list[dict[str, float]]:
    data = bd.data.load("fashion-mnist-small")
    scenery = scenes(data.train, 0, train, 0), scenes(data.test, 0, test, 1)
    return compare(Detector, *scenery, epochs, seeds, SETTINGS, loss=loss, metrics=METRICS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    given = parser.parse_args()
    rows = main(4_000, 2_000, epochs=8, seeds=given.seeds)
    print(report(rows, list(METRICS), given.out))
