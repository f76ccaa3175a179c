"""Speed of the engine beside its peers, in one run: rounds in which every candidate has its turn.

What disturbs one round disturbs all candidates in it; each candidate's best round counts. With one thread
the processor time of the process is taken, which other programs on the machine do not lengthen; with more
threads it is the time on the clock.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binaryduo.bench.memory_use import Memory
from binaryduo.bench.peer_networks import Networks
from binaryduo.bench.peers import Absent, Candidate, ours_layer

SHAPES = ((64, 56), (128, 28), (256, 14), (512, 7))
BOUNDS = {
    "avx2": 768 / 9 * 4
}  # products a cycle at most, of a core and an instruction set: docs/performance.md


@dataclass
class Measured:
    """The best times of one comparison, in seconds, and what was not there."""

    title: str
    threads: int
    seconds: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    products: float = 0  # multiply-accumulates of one call, where that means something
    hertz: float = 0  # cycles a second, measured beside it
    memory: dict[str, Memory] = field(default_factory=dict)

    def ratio(self, peer: str) -> float:
        """How many times as long the peer takes.

        >>> Measured("", 1, {"binaryduo": 1.0, "other": 8.0}).ratio("other")
        8.0
        """
        return self.seconds[peer] / self.seconds["binaryduo"]

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "threads": self.threads,
            "milliseconds": {k: round(1e3 * v, 4) for k, v in self.seconds.items()},
            "ratios": {k: round(self.ratio(k), 2) for k in self.seconds if k != "binaryduo"},
            "absent": self.absent,
            **({"cycles_per_second": round(self.hertz)} if self.hertz else {}),
            **({"memory_bytes": {k: m.network for k, m in self.memory.items()}} if self.memory else {}),
        }


def compare(
    title: str,
    makers: dict[str, Callable[[], Candidate]],
    threads: int,
    rounds: int = 12,
    budget: float = 0.05,
) -> Measured:
    """Time all candidates in turn, `rounds` times; a round of one lasts about `budget` seconds."""
    result = Measured(title, threads)
    candidates: dict[str, Candidate] = {}
    for name, make in makers.items():
        try:
            candidates[name] = make()
            candidates[name].call()
        except Absent as error:
            result.absent[name] = str(error)
    best: dict[str, float] = {}
    clock = time.process_time if threads == 1 else time.perf_counter
    for _ in range(rounds):
        for name, candidate in candidates.items():
            best[name] = min(_seconds(candidate, budget, clock), best.get(name, float("inf")))
            if candidate.base is not None:
                rest = f"{name} base"
                best[rest] = min(_seconds(candidate.base, budget / 4, clock), best.get(rest, float("inf")))
    for name, candidate in candidates.items():
        rest_seconds = best.get(f"{name} base", 0.0)
        result.seconds[name] = max(best[name] - rest_seconds, 1e-9) / candidate.repeats
    return result


def _seconds(candidate: Candidate, budget: float, clock: Callable[[], float]) -> float:
    if candidate.seconds is not None:
        return min(candidate.seconds() for _ in _turns(budget))
    return _best(candidate.call, budget, clock)


def _best(call: Callable[[], object], budget: float, clock: Callable[[], float]) -> float:
    best = float("inf")
    for _ in _turns(budget):
        start = clock()
        call()
        best = min(best, clock() - start)
    return best


def _turns(budget: float) -> Iterator[int]:
    """At least two turns, and more until the budget is used up."""
    end, count = time.perf_counter() + budget, 0
    while count < 2 or time.perf_counter() < end:
        yield count
        count += 1


def growth(threads: int, rounds: int = 5) -> list[dict[str, Any]]:
    """Our engine alone, as the channels of a layer grow and as the batch of a network does.

    Rows with `what`, `size`, `seconds` of a call and `unit`: nanoseconds a million multiply-accumulates for
    layers, milliseconds an image for the network. Cost is linear where `unit` stays the same.
    """
    rows: list[dict[str, Any]] = []
    for channels in (32, 64, 128, 256, 512):
        seconds = compare("", {"binaryduo": lambda c=channels: ours_layer(c, 14, threads)}, threads, rounds)  # type: ignore[misc]
        taken = seconds.seconds["binaryduo"]
        millions = 9 * channels * channels * 14 * 14 / 1e6
        rows.append({"what": "channels of a 3×3 layer, 14×14", "size": channels, "seconds": taken})
        rows[-1]["unit"] = 1e9 * taken / millions
    with tempfile.TemporaryDirectory() as folder:
        for batch in (1, 2, 4, 16, 64, 256):
            network = Networks("vgg7", batch, Path(folder))
            seconds = compare("", {"binaryduo": lambda n=network: n.ours(threads)}, threads, rounds)  # type: ignore[misc]
            taken = seconds.seconds["binaryduo"]
            rows.append(
                {"what": "batch of VGG-7", "size": batch, "seconds": taken, "unit": 1e3 * taken / batch}
            )
    return rows
