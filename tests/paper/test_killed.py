"""`binaryduo reproduce` killed in the middle of a training: the same command ends with the same numbers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.paper import runner, trainings
from binaryduo.paper.experiment import Workspace
from binaryduo.paper.registry import find
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


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"units": 1}',
        '{"units": [{"unit": {}}]}',
        "[" * 100_000,
        '{"units": [{"unit": {}, "rows": [1]}]}',
    ],
)
def test_damaged_results_are_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "figure1b_width" / "smoke.json"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ArgumentError, match=r"the results .*smoke\.json"):
        read("figure1b_width", "smoke", tmp_path)
    assert path.read_text() == content


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"best": 1}'])
def test_a_damaged_summary_of_a_run_is_named(content: str, tmp_path: Path) -> None:
    work = trainings.unit("smoke", 0)
    folder = trainings.folder_of(work, tmp_path)
    folder.mkdir()
    (folder / "summary.json").write_text(content)
    (folder / "metrics.jsonl").write_text("")
    with pytest.raises(CheckpointError, match=r"the summary|move the folder away"):
        trainings.measure(work, Workspace(tmp_path))


def test_rows_that_lack_something_are_named(tmp_path: Path) -> None:
    path = tmp_path / "figure1b_width" / "smoke.json"
    path.parent.mkdir()
    units = find("figure1b_width").units("smoke")
    kept = [{"unit": unit, "seconds": 1, "rows": [{"levels": 4}]} for unit in units]
    few = r"too few to judge or draw: run the rest first; if that does not help, its rows are damaged \(KeyError"
    for units, said in ((kept, "the rows of figure1b_width are not whole"), (kept[:-1], few)):
        path.write_text(json.dumps({"units": units}))
        for verb in (runner.collect, runner.plot):
            with pytest.raises(ArgumentError, match=said):
                verb("figure1b_width", "smoke", tmp_path)
