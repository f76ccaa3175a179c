"""Baseline, scratch and duo of one network at equal budgets of epochs, over several seeds: what the examples share.

baseline   the binary network, trained for `epochs`
scratch    the decoupled network's architecture with weights drawn anew, trained for `epochs`
duo        coupled for half of the epochs at a constant rate, decoupled, fine-tuned for the other half with one anneal
"""

import json
import math
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import binaryduo as bd
from binaryduo.training import Loop, Stage, duo, fit

Tensors = tuple[torch.Tensor, ...]
WAYS = ("baseline", "scratch", "duo")


@dataclass(frozen=True)
class Setting:
    """What a way is trained with, chosen for each of them with the same effort.

    `hold`, of one stage: the rate is constant for the first half, as duo's is, and falls in the second only.
    `finetune`, of duo: the share of the rate that the fine-tuning begins with.
    """

    lr: float
    hold: bool = False
    finetune: float = 1.0


def held(step: int, total: int) -> float:
    """One for the first half of the steps, then half a cosine down to 0.

    >>> [held(step, 8) for step in (0, 4, 6)]
    [1.0, 1.0, 0.5000000000000001]
    """
    return (1 + math.cos(math.pi * max(0.0, 2 * step / total - 1))) / 2


def loader(tensors: Tensors, batch: int, train: bool) -> DataLoader[Tensors]:
    """Batches of (inputs, target), or of (inputs, (targets, …)) where there are several."""

    def collate(rows: list[Tensors]) -> Any:
        inputs, *targets = (torch.stack(part) for part in zip(*rows, strict=True))
        return inputs, targets[0] if len(targets) == 1 else tuple(targets)

    return DataLoader(TensorDataset(*tensors), batch, shuffle=train, collate_fn=collate)


def train_way(
    way: str,
    make: Callable[[], nn.Module],
    train: Tensors,
    test: Tensors,
    epochs: int,
    seed: int,
    setting: Setting,
    batch: int = 64,
    **task: Any,  # loss= and metrics=, as for fit
) -> dict[str, float]:
    """Train one way once; what the test after the last epoch measured."""
    torch.manual_seed(seed)
    model, lr, example = make(), setting.lr, test[0][:64]
    loop = Loop(seed=seed, tensorboard=False, engine="eager", accelerator="cpu", test_every=epochs)
    data = loader(train, batch, True), loader(test, 500, False)
    with tempfile.TemporaryDirectory() as folder:
        if way == "duo":
            coupled = Stage(epochs=epochs // 2, lr=lr, schedule="constant")
            finetune = Stage(epochs=epochs - epochs // 2, lr=lr * setting.finetune)
            return duo(model, *data, coupled, finetune, loop, folder, **task)[1].finetuned.last
        if way == "scratch":
            model = bd.decouple(bd.couple(model, example), example)
            for layer in model.modules():
                if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
                    layer.reset_parameters()
        scheduler = held if setting.hold else None
        return fit(model, *data, Stage(epochs=epochs, lr=lr), loop, folder, scheduler=scheduler, **task).last


def compare(
    make: Callable[[], nn.Module],
    train: Tensors,
    test: Tensors,
    epochs: int,
    seeds: list[int],
    settings: dict[str, Setting],
    **task: Any,
) -> list[dict[str, Any]]:
    """Each way once for each seed; a row holds what the last epoch's test measured."""
    rows = []
    for seed in seeds:
        for way in WAYS:
            last = train_way(way, make, train, test, epochs, seed, settings[way], **task)
            rows.append({"seed": seed, "way": way} | {k: round(v, 4) for k, v in last.items()})
            print(rows[-1], flush=True)
    return rows


def report(rows: list[dict[str, Any]], names: list[str], path: str | None) -> str:
    """A line for each way, the mean and its standard deviation over the seeds; the rows as JSON where asked for.

    >>> print(report([{"way": "duo", "top1": 90.0}, {"way": "duo", "top1": 92.0}], ["top1"], None))
    duo: top1 91.00 ± 1.41 (2 seeds)
    """
    lines = []
    for way in dict.fromkeys(row["way"] for row in rows):
        own = [row for row in rows if row["way"] == way]
        parts = []
        for name in names:
            values = [row[name] for row in own]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            parts.append(f"{name} {statistics.mean(values):.2f} ± {spread:.2f}")
        lines.append(f"{way}: {', '.join(parts)} ({len(own)} seeds)")
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps({"summary": lines, "rows": rows}, indent=1) + "\n")
    return "\n".join(lines)
