"""Baseline, scratch and duo of one network at equal budgets of epochs, over several seeds: what the examples share.

baseline   the binary network, trained for `epochs`
scratch    the decoupled network's architecture with weights drawn anew, trained for `epochs`
duo        coupled for half of the epochs, decoupled, fine-tuned for the other half
"""

import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import binaryduo as bd
from binaryduo.training import Loop, Stage, duo, fit

Tensors = tuple[torch.Tensor, ...]


def loader(tensors: Tensors, batch: int, train: bool) -> DataLoader[Tensors]:
    """Batches of (inputs, target), or of (inputs, (targets, …)) where there are several."""

    def collate(rows: list[Tensors]) -> Any:
        inputs, *targets = (torch.stack(part) for part in zip(*rows, strict=True))
        return inputs, targets[0] if len(targets) == 1 else tuple(targets)

    return DataLoader(TensorDataset(*tensors), batch, shuffle=train, collate_fn=collate)


def compare(
    make: Callable[[], nn.Module],
    train: Tensors,
    test: Tensors,
    epochs: int,
    seeds: list[int],
    lr: float = 3e-3,
    batch: int = 64,
    **task: Any,  # loss= and metrics=, as for fit
) -> list[dict[str, Any]]:
    """Each way once for each seed; a row holds what the last epoch's test measured."""
    rows = []
    example = test[0][:64]
    for seed in seeds:
        loop = Loop(seed=seed, tensorboard=False, engine="eager", accelerator="cpu")
        whole, half = Stage(epochs=epochs, lr=lr), Stage(epochs=epochs // 2, lr=lr)
        for way in ("baseline", "scratch", "duo"):
            torch.manual_seed(seed)
            model = make()
            data = loader(train, batch, True), loader(test, 500, False)
            with tempfile.TemporaryDirectory() as folder:
                if way == "duo":
                    tune = replace(half, lr=lr / 3)
                    last = duo(model, *data, half, tune, loop, folder, **task)[1].finetuned.last
                else:
                    if way == "scratch":
                        model = bd.decouple(bd.couple(model, example), example)
                        for layer in model.modules():
                            if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
                                layer.reset_parameters()
                    last = fit(model, *data, whole, loop, folder, **task).last
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
