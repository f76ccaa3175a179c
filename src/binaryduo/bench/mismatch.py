"""How long the CDG takes, fast and by brute force, on this machine.

Brute force is timed in the fastest plain form we know: float32, blocks that fit the cache, all threads. Its
evaluations all take the same time, so that a few of them tell the cost of all.
"""

import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from binaryduo.mismatch.network import activate
from binaryduo.mismatch.parallel import OnProgress, map_blocks
from binaryduo.mismatch.toy import ToyProblem

_BRUTE_ROWS = 8192  # samples that brute force works on together: the fastest here


def compare_with_brute_force(
    levels: int | None = 2,
    samples: int = 1_000_000,
    evaluations: int = 8,
    width: int = 32,
    hidden_layers: int = 3,
    repeats: int = 3,
    progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Seconds for the CDG of all layers, fast and brute, and their ratio.

    The data and targets are ready before either clock starts. The fast time is the best of `repeats`.
    Processor seconds (of all threads) are given beside the clock's: they hardly change on a busy machine.

    >>> result = compare_with_brute_force(samples=1000, evaluations=2, width=4, repeats=1)
    >>> result["evaluations_needed"]
    104
    """
    problem = ToyProblem(width, hidden_layers, samples, levels)
    _ = problem.targets
    total = repeats + evaluations
    fast = fast_cpu = float("inf")
    for i in range(repeats):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        problem.cdg()
        fast = min(fast, time.perf_counter() - begin)
        fast_cpu = min(fast_cpu, time.process_time() - begin_cpu)
        if progress is not None:
            progress(i + 1, total)
    blocks = torch.split(problem.inputs.T.float(), _BRUTE_ROWS)
    targets = torch.split(problem.targets.float(), _BRUTE_ROWS)
    weights = [problem.weights[name].float() for name in problem.layers]
    _evaluate(blocks, targets, weights, levels)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    for i in range(evaluations):
        moved = [w.clone() for w in weights]
        moved[0].view(-1)[i % width] += 1e-3
        _evaluate(blocks, targets, moved, levels)
        if progress is not None:
            progress(repeats + i + 1, total)
    each = (time.perf_counter() - begin) / evaluations
    each_cpu = (time.process_time() - begin_cpu) / evaluations
    count = sum(w.numel() for w in weights)
    return {
        "levels": levels,
        "samples": samples,
        "threads": torch.get_num_threads(),
        "weights": count,
        "fast_seconds": fast,
        "evaluation_seconds": each,
        "evaluations_timed": evaluations,
        "evaluations_needed": 2 * count,
        "brute_seconds": 2 * count * each,
        "ratio": 2 * count * each / fast,
        "fast_cpu_seconds": fast_cpu,
        "brute_cpu_seconds": 2 * count * each_cpu,
        "cpu_ratio": 2 * count * each_cpu / fast_cpu,
    }


def _evaluate(
    blocks: Sequence[Tensor], targets: Sequence[Tensor], weights: list[Tensor], levels: int | None
) -> float:
    """The loss in float32, summed in float64."""

    def work(index: int) -> float:
        x = blocks[index]
        for weight in weights[:-1]:
            x = activate(x @ weight.T, levels)
        residual = (x @ weights[-1].T).squeeze(1) - targets[index]
        return float(residual.square().sum(dtype=torch.float64))

    return sum(map_blocks(work, len(blocks))) / (2 * sum(len(t) for t in targets))


def scale(
    samples: Sequence[int], levels: int | None = 2, width: int = 32, progress: OnProgress | None = None
) -> list[dict[str, Any]]:
    """Seconds, processor seconds and peak memory of the fast CDG for growing sample counts, data generation included.

    Memory is the peak of the process so far, so that counts should be given in growing order.
    """
    rows = []
    for i, count in enumerate(samples):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        ToyProblem(width, samples=count, levels=levels).cdg()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows.append(
            {
                "samples": count,
                "seconds": seconds,
                "cpu_seconds": cpu,
                "cpu_microseconds_per_sample": cpu / count * 1e6,
                "peak_mb": peak / (1 << 20 if sys.platform == "darwin" else 1024),
            }
        )
        if progress is not None:
            progress(i + 1, len(samples))
    return rows
