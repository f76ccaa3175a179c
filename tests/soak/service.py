"""A small service with a packed model: a pre-forking server on loopback and 8 clients that check every answer.

The server loads the model with two threads, answers once so that they run, and forks its workers, which inherit it.
Each loads it again from time to time, as a service does that gets a new version. Of twenty requests one is odd on
purpose: NaN in an image, another shape, no image at all (its answer is empty), or a client that hangs up in the middle.
"""

import contextlib
import itertools
import mmap
import os
import random
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from binaryduo.engine import reference
from binaryduo.engine.runtime import PackedModel, load
from binaryduo.errors import ArgumentError
from tests.soak.children import ended, forked

CLIENTS, WORKERS, THREADS = 8, 3, 2
SIZES = (1, 8, 32)  # images of a request, with these weights
WEIGHTS = (14, 4, 1)
RELOAD = 200  # requests after which a worker loads the model again
GROWTH = 2 << 20  # bytes that a process may have more in the last quarter of the time than in the second
SHAPE, ANSWER = struct.Struct("<4I"), struct.Struct("<BI")
BINS = 10.0 ** np.linspace(-5, 2, 1613)  # seconds; neighbours differ by 1 %
REFUSALS = {"nan": b"not finite", "shape": b"must have the shape"}
COUNTS = ("answers checked", "bad requests refused", "hung up on purpose", "WRONG", "FAILED")


def pack_small(path: Path) -> None:
    """A decoupled VGG-7 of a quarter of the width, with one-bit weights; needs PyTorch."""
    import torch

    import binaryduo as bd
    from tests.engine.test_pack import trained_like

    torch.manual_seed(0)
    network = bd.models.build("vgg7", variant="decoupled", width=0.25, weight_bits=1)
    bd.pack(trained_like(network), torch.randn(1, 3, 32, 32), path, verbose=False)


def exactly(connection: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        part = connection.recv(min(1 << 20, size - len(content)))
        if not part:
            raise ConnectionError("the other side hung up")
        content += part
    return bytes(content)


def serve(listener: socket.socket, model: PackedModel, path: Path, until: float) -> None:
    """One worker: a connection at a time, one request each, until the time is over or the server is gone."""
    server = os.getppid()
    listener.settimeout(1)
    for number in itertools.count(1):
        while True:
            if time.monotonic() > until or os.getppid() != server:
                return
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                break
        with connection, contextlib.suppress(OSError):
            connection.settimeout(10)
            shape = SHAPE.unpack(exactly(connection, SHAPE.size))
            images = np.frombuffer(exactly(connection, 4 * int(np.prod(shape))), np.float32)
            try:
                status, answer = 0, model(images.reshape(shape)).tobytes()
            except ArgumentError as error:
                status, answer = 1, str(error).encode()
            connection.sendall(ANSWER.pack(status, len(answer)) + answer)
        if number % RELOAD == 0:
            model = load(path, THREADS)


@dataclass
class Tally:
    """What a client has counted, in memory that the server reads: 5 counts, then latencies for each size."""

    numbers: NDArray[np.int64] = field(
        default_factory=lambda: np.frombuffer(
            mmap.mmap(-1, 8 * (len(COUNTS) + len(SIZES) * BINS.size)), np.int64
        )
    )

    @property
    def counts(self) -> dict[str, int]:
        return dict(zip(COUNTS, self.numbers.tolist(), strict=False))

    @property
    def latencies(self) -> NDArray[np.int64]:
        return self.numbers[len(COUNTS) :].reshape(len(SIZES), BINS.size)

    def count(self, what: str) -> None:
        self.numbers[COUNTS.index(what)] += 1


def ask(address: tuple[str, int], images: NDArray[np.float32], part: float = 1) -> tuple[int, bytes]:
    """The server's answer; where only part of the request is sent, nothing."""
    with socket.create_connection(address, timeout=120) as connection:
        request = SHAPE.pack(*images.shape) + images.tobytes()
        connection.sendall(request[: int(part * len(request))])
        if part < 1:
            return 0, b""
        status, size = ANSWER.unpack(exactly(connection, ANSWER.size))
        return status, exactly(connection, size)


def one_request(
    address: tuple[str, int], images: NDArray[np.float32], wanted: NDArray[np.float32], luck: random.Random
) -> tuple[str, int, float]:
    """(what came of it, which size, seconds) of one request, usual or odd."""
    which = luck.choices(range(len(SIZES)), WEIGHTS)[0]
    kind = luck.choice([*REFUSALS, "none", "hang up"]) if luck.random() < 0.05 else ""
    chosen = [luck.randrange(len(images)) for _ in range(0 if kind == "none" else SIZES[which])]
    sent = images[chosen]
    if kind == "nan":
        sent[0, 0, luck.randrange(32), luck.randrange(32)] = np.nan
    elif kind == "shape":
        sent = sent[:, :, 1:]
    elif kind == "hang up":
        ask(address, sent, luck.random())
        return "hung up on purpose", which, 0
    began = time.perf_counter()
    status, answer = ask(address, sent)
    seconds = time.perf_counter() - began
    if kind in REFUSALS:
        refused = status == 1 and REFUSALS[kind] in answer
        return "bad requests refused" if refused else "WRONG", which, 0
    same = status == 0 and answer == wanted[chosen].tobytes()
    return "answers checked" if same else "WRONG", which, seconds if chosen else 0


def be_client(
    number: int,
    address: tuple[str, int],
    known: tuple[NDArray[np.float32], NDArray[np.float32]],
    tally: Tally,
    until: float,
    rate: float,
) -> None:
    """Requests at random moments, `rate` a second on average, until the time is over or the server is gone."""
    luck, server = random.Random(number), os.getppid()
    due = time.monotonic()
    while os.getppid() == server:
        due = max(due + luck.expovariate(rate), time.monotonic() - 1)  # never more than a second behind
        if due > until:
            return
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            what, which, seconds = one_request(address, *known, luck)
        except OSError as error:
            print(f"client {number}: {type(error).__name__}: {error}", file=sys.stderr)
            what, which, seconds = "FAILED", 0, 0
        tally.count(what)
        if seconds:
            tally.latencies[which, np.searchsorted(BINS, seconds).clip(max=BINS.size - 1)] += 1


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * mmap.PAGESIZE


@dataclass
class Result:
    minutes: float
    tallies: list[Tally]
    memory: dict[str, list[int]]
    lost: list[str]  # processes that ended early or with an error

    @property
    def counts(self) -> dict[str, int]:
        return {what: sum(tally.counts[what] for tally in self.tallies) for what in COUNTS}

    def quarters(self, name: str) -> list[int]:
        """The median of a process's memory in each quarter of the time."""
        return [int(np.median(part)) for part in np.array_split(self.memory[name], 4)]

    @property
    def good(self) -> bool:
        counts = self.counts
        grown = any(self.quarters(name)[3] - self.quarters(name)[1] > GROWTH for name in self.memory)
        return not (
            grown or self.lost or counts["WRONG"] or counts["FAILED"] or not counts["answers checked"]
        )

    def __str__(self) -> str:
        lines = [f"service: {self.minutes:.1f} minutes, {CLIENTS} clients, {WORKERS} workers"]
        lines += [f"  {what:24s}{count:10d}" for what, count in self.counts.items()]
        lines.append("  latency in ms            50 %      90 %      99 %    99.9 %   longest")
        sums = np.sum([tally.latencies for tally in self.tallies], axis=0)
        for size, row in zip(SIZES, sums, strict=True):
            if row.sum():
                at = np.searchsorted(np.cumsum(row), np.array([0.5, 0.9, 0.99, 0.999, 1]) * row.sum())
                shown = "".join(f"{1000 * BINS[min(i, BINS.size - 1)]:10.2f}" for i in at)
                lines.append(f"  {size:3d} image{'s' if size > 1 else ' '}      {shown}")
        lines.append(
            "  memory in MiB, medians of the quarters of the time        growth since the second, KiB"
        )
        for name in self.memory:
            quarters = self.quarters(name)
            shown = "".join(f"{size / 2**20:10.2f}" for size in quarters)
            lines.append(f"  {name:12s}{shown}{(quarters[3] - quarters[1]) / 1024:16.0f}")
        return "\n".join([*lines, *(f"  LOST: {what}" for what in self.lost)])


@contextlib.contextmanager
def running(children: dict[str, int]) -> Iterator[None]:
    """Whatever happens, no child is left behind."""
    try:
        yield
    finally:
        for pid in children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                ended(pid)


def run(minutes: float, rate: float = 30, every: float | None = None) -> Result:
    """Serve for that time, with `rate` requests a second; the tables so far are printed every ten minutes."""
    every = min(10.0, 60 * minutes / 40) if every is None else every
    with tempfile.TemporaryDirectory() as place, socket.create_server(("127.0.0.1", 0)) as listener:
        path = Path(place) / "net.duo"
        assert ended(forked(lambda: pack_small(path))) == 0
        model = load(path, THREADS)
        images = np.random.default_rng(0).normal(size=(64, 3, 32, 32)).astype(np.float32)
        wanted = model(images)
        np.testing.assert_allclose(wanted, reference.logits(model.program, images), rtol=1e-4, atol=1e-3)
        address, began = listener.getsockname(), time.monotonic()
        until = began + 60 * minutes
        tallies, children = [Tally() for _ in range(CLIENTS)], {}
        with running(children):
            for i in range(WORKERS):
                children[f"worker {i}"] = forked(lambda: serve(listener, model, path, until + 5))
            for i, tally in enumerate(tallies):
                children[f"client {i}"] = forked(
                    lambda i=i, t=tally: be_client(i, address, (images, wanted), t, until, rate / CLIENTS),  # type: ignore[misc]
                )
            memory: dict[str, list[int]] = {name: [] for name in ("server", *children)}
            told = began
            while time.monotonic() < until - every:
                time.sleep(every)
                for name, pid in {"server": os.getpid(), **children}.items():
                    with contextlib.suppress(OSError, IndexError):
                        memory[name].append(resident(pid))
                if time.monotonic() > told + 600:
                    told += 600
                    print(Result((time.monotonic() - began) / 60, tallies, memory, []), flush=True)
            codes = {name: ended(children.pop(name)) for name in list(children)}
        lost = [f"{name} ended with {code}" for name, code in codes.items() if code]
        return Result((time.monotonic() - began) / 60, tallies, memory, lost)
