"""How fast the loop trains, against plain PyTorch loops of the same network on the same batches.

Each contender runs in a process of its own, so that none changes the memory or threads of another; rounds
alternate between them, and the fastest step counts, so that a busy machine does as little harm as possible.

    this loop       Trainer as `binaryduo train` runs it, data, records and all
    channels_last   a plain eager loop, model and images in channels_last
    nchw            the same as most people write it
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F

from binaryduo import models
from binaryduo._common.progress import bar
from binaryduo.data import MemorySplit, Plan
from binaryduo.errors import BinaryDuoError, unknown_name
from binaryduo.models.registry import VARIANTS
from binaryduo.transform.costing import cost

CONTENDERS = ("this loop", "channels_last", "nchw")
MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)


@dataclass(frozen=True)
class Task:
    """What one process measures."""

    contender: str
    variant: str
    network: str = "vgg7"
    batch: int = 256
    steps: int = 4
    threads: int = 2


def images(task: Task) -> MemorySplit:
    """Random images of CIFAR-10's shape, with its augmentation: enough for all steps."""
    _, channels, height, width = models.example_input(task.network).shape
    random, count = torch.Generator().manual_seed(0), task.batch * (task.steps + 1)
    pixels = torch.randint(0, 256, (count, height, width, channels), dtype=torch.uint8, generator=random)
    return MemorySplit(pixels, torch.randint(0, 10, (count,), generator=random), MEAN, STD, pad=4, flip=True)


def plain_loop(task: Task) -> list[float]:
    """Seconds of each step of an ordinary loop: the same batches, AdamW, nothing else."""
    model = models.build(task.network, task.variant).train()  # type: ignore[arg-type]
    form = torch.channels_last if task.contender == "channels_last" else torch.contiguous_format
    model = model.to(memory_format=form)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, start = [], time.perf_counter()
    for batch in images(task).batches(Plan(task.batch, train=True)):
        logits = model(batch.images.contiguous(memory_format=form))
        loss = F.cross_entropy(logits, batch.labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
    return times[1:]


def our_loop(task: Task) -> list[float]:
    """Seconds of each step of `fit`, from its own records."""
    from binaryduo.training.own_fit import fit
    from binaryduo.training.recipe import Loop, Stage
    from binaryduo.training.runlog import read_metrics

    model = models.build(task.network, task.variant)  # type: ignore[arg-type]
    loop = Loop(batch=task.batch, log_steps=1, tensorboard=False, accelerator="cpu", engine="auto")
    with tempfile.TemporaryDirectory() as folder:
        fit(model, images(task), None, Stage(epochs=1, lr=1e-3), loop, Path(folder) / "run")
        seconds = [line["seconds"] for line in read_metrics(Path(folder) / "run") if line["kind"] == "step"]
    return [after - before for before, after in pairwise(seconds)]


def run(task: Task) -> list[float]:
    """Measure in a new process."""
    command = [sys.executable, "-m", "binaryduo.bench.training", json.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BinaryDuoError(f"measuring {task.contender} failed: {done.stderr.strip().splitlines()[-1]}")
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


def matmul_peak(threads: int) -> float:
    """Floating-point operations a second of a 1024³ matrix product: the best of some twenty."""
    torch.set_num_threads(threads)
    a, best = torch.rand(1024, 1024), float("inf")
    for _ in range(20):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * 1024**3 / best


def step_operations(network: str, variant: str, batch: int) -> float:
    """Floating-point operations of a step as the layers define them: forward, and both gradients of each
    layer but that of the images."""
    counted = cost(models.build(network, variant), models.example_input(network))  # type: ignore[arg-type]
    first = next(layer.macs for layer in counted.layers if layer.macs)
    return 2.0 * batch * (3 * counted.macs - first)


@dataclass(frozen=True)
class Row:
    """One line of the result."""

    variant: str
    contender: str
    seconds: float  # of the fastest step
    median: float
    share: float  # of the matrix-multiply peak, counting operations as the layers define them


def compare(
    variants: list[str], batch: int, steps: int, rounds: int, threads: int
) -> tuple[list[Row], float]:
    """All contenders on all variants, and the machine's peak (operations per second)."""
    for variant in variants:
        if variant not in VARIANTS:
            raise unknown_name("variant", variant, list(VARIANTS))
    peak = matmul_peak(threads)
    times: dict[tuple[str, str], list[float]] = {}
    with bar() as display:
        bar_task = display.add_task("measuring", total=rounds * len(variants) * len(CONTENDERS))
        for _ in range(rounds):
            for variant in variants:
                for contender in CONTENDERS:
                    found = run(Task(contender, variant, batch=batch, steps=steps, threads=threads))
                    times.setdefault((variant, contender), []).extend(found)
                    display.advance(bar_task)
        peak = max(peak, matmul_peak(threads))
    rows = []
    for (variant, contender), found in times.items():
        best = min(found)
        share = step_operations("vgg7", variant, batch) / best / peak
        rows.append(Row(variant, contender, best, sorted(found)[len(found) // 2], share))
    return rows, peak


if __name__ == "__main__":
    asked = Task(**json.loads(sys.argv[1]))
    torch.set_num_threads(asked.threads)
    print(json.dumps(our_loop(asked) if asked.contender == "this loop" else plain_loop(asked)))
