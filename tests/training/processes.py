"""Real processes for the tests, forked from one that has already imported everything (a start costs seconds).

    python -m tests.training.processes kills FOLDER     SIGKILL at random moments, again and again
    python -m tests.training.processes parallel FOLDER  two processes with gloo, compared with one

Each prints what it found as one line of JSON.
"""

import dataclasses
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from binaryduo.errors import BinaryDuoError
from binaryduo.training import Loop, Stage, checkpoint, fit
from binaryduo.training.runlog import read_metrics
from tests.training import tiny

KILLS = 20


def forked(
    work: Callable[[], object], environment: dict[str, str] | None = None, log: Path | None = None
) -> int:
    """Run `work` in a child and return its process id; what goes wrong there is written to `log`."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.environ.update(environment or {})
        sys.stderr = sys.stdout = (log or Path(os.devnull)).open("w")
        work()
        status = 0
    except BinaryDuoError as error:
        print(f"{type(error).__name__}: {error}")
        status = 2
    finally:
        sys.stdout.flush()
        os._exit(status)


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    found = checkpoint.newest(folder / "checkpoints")
    assert found is not None
    return found.tensors


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def kills(folder: Path) -> dict[str, object]:
    """Kill a run at random moments and start it again until it ends; repeat until there were enough kills."""
    stage, loop = (
        dataclasses.replace(tiny.STAGE, epochs=12),
        dataclasses.replace(tiny.LOOP, checkpoint_steps=2),
    )

    def run(name: str) -> None:
        there = (folder / name / "recipe.yaml").exists()
        fit(tiny.network(), tiny.split(), tiny.split(20, 1), stage, loop, folder / name, resume=there)

    began = time.monotonic()
    os.waitpid(forked(lambda: run("whole")), 0)
    length = time.monotonic() - began
    reference, moments = final_weights(folder / "whole"), random.Random(0)
    killed = runs = 0
    equal = []
    while killed < KILLS:
        name = f"killed-{runs}"
        runs += 1
        while True:
            pid = forked(lambda name=name: run(name), log=folder / "log")  # type: ignore[misc]
            time.sleep(moments.uniform(0.02, 0.5 * length))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            if os.WIFSIGNALED(status):
                killed += 1
                continue
            if os.WEXITSTATUS(status) != 0:
                return {"failed": (folder / "log").read_text()}
            break
        equal.append(same(reference, final_weights(folder / name)))
        lines = [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(folder / name)]
        expected = [
            {k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(folder / "whole")
        ]
        equal.append(lines == expected)
    return {"kills": killed, "runs": runs, "equal": equal}


def start_pair(work: Callable[[], object], folder: Path, name: str) -> list[int]:
    """Two processes that find each other as under torchrun."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "TORCHELASTIC_RUN_ID": "test",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return [
        forked(work, {**common, "RANK": str(r), "LOCAL_RANK": str(r)}, folder / f"{name}-{r}.log")
        for r in (0, 1)
    ]


def wait(pids: list[int]) -> list[int]:
    codes = []
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        codes.append(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
    return codes


def parallel(folder: Path) -> dict[str, object]:
    """The loss curve of two processes against one, in float64; a lost process; resuming with one alone."""
    from binaryduo.transform.decoupling import decouple

    stage = Stage(epochs=4, lr=0.01, schedule="cosine", weight_decay=0.1)
    loop = dataclasses.replace(tiny.LOOP, precision="64", batch=8)

    def run(name: str, copied: bool, loop: Loop = loop, stage: Stage = stage) -> None:
        # Float weights: with binary ones max pooling meets exact ties, which rounding breaks either way.
        model = tiny.network(dropout=0.0, binary=False)
        if copied:
            model = decouple(model, torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
        path = folder / name
        there = (path / "recipe.yaml").exists()
        fit(model, tiny.split(), tiny.split(21, 1), stage, loop, path, resume=there)

    def losses(name: str) -> list[float]:
        return [v for line in read_metrics(folder / name) for k, v in line.items() if "loss" in k]

    found: dict[str, object] = {}
    for copied in (False, True):
        codes = wait([forked(lambda c=copied: run(f"one-{c}", c), log=folder / "one.log")])  # type: ignore[misc]
        pair = start_pair(lambda c=copied: run(f"two-{c}", c), folder, f"two-{copied}")  # type: ignore[misc]
        codes += wait(pair)
        curves = [losses(f"{n}-{copied}") for n in ("one", "two")]
        tests = [read_metrics(folder / f"{n}-{copied}")[-1]["test_top1"] for n in ("one", "two")]
        found[f"copied={copied}"] = {"codes": codes, "curves": curves, "tests": tests}

    # In bfloat16, with a checkpoint that no eighth step and no end of an epoch falls on.
    half = dataclasses.replace(loop, precision="bf16", checkpoint_steps=3)
    short = dataclasses.replace(stage, epochs=1)
    codes = wait([forked(lambda: run("one-bf16", False, half, short), log=folder / "one-bf16.log")])
    codes += wait(start_pair(lambda: run("two-bf16", False, half, short), folder, "two-bf16"))
    kept = sorted(path.stem for path in (folder / "two-bf16" / "checkpoints").glob("step-*.json"))
    found["bf16"] = {"codes": codes, "curves": [losses(f"{n}-bf16") for n in ("one", "two")], "kept": kept}

    # One of two is killed in the middle; the other says so; one process alone finishes the run.
    slow = dataclasses.replace(loop, checkpoint_steps=8)
    long = dataclasses.replace(stage, epochs=400)
    pids = start_pair(lambda: run("lost", False, slow, long), folder, "lost")
    deadline = time.monotonic() + 60
    while (
        not list((folder / "lost" / "checkpoints").glob("step-00000001*.json"))
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    os.kill(pids[1], signal.SIGKILL)
    found["lost codes"] = wait(pids)
    found["lost message"] = (folder / "lost-0.log").read_text().strip().splitlines()[-1]
    newest = checkpoint.newest(folder / "lost" / "checkpoints")
    assert newest is not None
    pid = forked(lambda: run("lost", False, slow, long), log=folder / "alone.log")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and pid:
        after = max((folder / "lost" / "checkpoints").glob("step-*.json")).stem
        if int(after.removeprefix("step-")) > newest.state["step"] + 8:
            break
        time.sleep(0.05)
    os.kill(pid, signal.SIGTERM)
    found["alone"] = wait([pid])[0], (folder / "alone.log").read_text()
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    target = Path(sys.argv[2])
    print(json.dumps({"kills": kills, "parallel": parallel}[sys.argv[1]](target)))
