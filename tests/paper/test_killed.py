"""`binaryduo reproduce` killed in the middle of a training: the same command ends with the same numbers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from binaryduo.paper.results import read

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def command(place: Path) -> list[str]:
    folders = ["--results", str(place / "results"), "--runs", str(place / "runs")]
    return [sys.executable, "-m", "binaryduo", "reproduce", "figure1b", "--profile", "smoke", *folders]


def rows(place: Path) -> list[tuple[object, ...]]:
    found = read("figure1b_width", "smoke", place / "results")
    assert found is not None
    assert found.done == found.total
    return [(row["seed"], row["width"], row["levels"], row["last"], row["best"]) for row in found.rows]


def test_killed_and_started_again(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    subprocess.run(command(undisturbed), check=True, capture_output=True, env=ENVIRONMENT, timeout=240)
    for attempt in range(2):  # after the first checkpoint of another training each time
        running = subprocess.Popen(
            command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
        )
        while (
            running.poll() is None and len(list(killed.glob("runs/*/checkpoints/step-*.json"))) <= 2 * attempt
        ):
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL, "it ended before it could be killed"
    subprocess.run(command(killed), check=True, capture_output=True, env=ENVIRONMENT, timeout=240)
    assert rows(killed) == rows(undisturbed)
