"""Your own network, your own DataLoader: coupled, trained, decoupled, fine-tuned, in a few lines.

    python examples/custom_model.py [folder]

Takes about a minute on two cores. Run it again and it continues, or ends at once if it is complete.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import binaryduo as bd
from binaryduo.training import Loop, Stage, evaluate, fit


class MyNet(nn.Module):
    """Any network will do whose activations are bd.nn.QuantAct."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), bd.nn.QuantAct()
        )
        self.body = nn.Sequential(
            nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(64), bd.nn.QuantAct()
        )
        self.head = nn.Linear(64 * 14 * 14, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(x)).flatten(1))


def loader(split: bd.data.Split, count: int, shuffle: bool) -> DataLoader:
    """Stands for your own data: any DataLoader of (images, labels)."""
    images, labels, _ = next(split.batches(bd.data.Plan(batch=count, train=False)))
    return DataLoader(TensorDataset(images, labels), batch_size=100, shuffle=shuffle)


def main(folder: str, count: int = 10_000) -> tuple[float, float, float]:
    data = bd.data.load("fashion-mnist-small")
    train, test = loader(data.train, count, True), loader(data.test, 2_000, False)
    x = next(iter(test))[0][:32]
    torch.manual_seed(0)
    loop = Loop(tensorboard=False)

    coupled = bd.couple(MyNet(), x)  # narrower, with three levels
    first = fit(coupled, train, test, Stage(epochs=2, lr=3e-3), loop, f"{folder}/coupled", resume=True)
    binary = bd.decouple(coupled, x)  # the same function with bits
    before = evaluate(binary, bd.data.LoaderSplit(test)).means()
    second = fit(binary, train, test, Stage(epochs=1, lr=1.5e-3), loop, f"{folder}/binary", resume=True)
    return first.last["top1"], before["top1"], second.last["top1"]


if __name__ == "__main__":
    results = main(sys.argv[1] if len(sys.argv) > 1 else "runs/custom_model")
    print("coupled {:.2f} %, decoupled {:.2f} %, fine-tuned {:.2f} %".format(*results))
