"""Worker processes: one is killed, a search is stopped by Ctrl-C, and nothing is lost or done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.trial import TrialState

from binaryduo.search.local import Team, shares
from binaryduo.search.results import collect, overhead, read_results
from binaryduo.search.storage import database_url
from binaryduo.search.worker import Worker
from binaryduo.training import named, to_yaml
from tests.search.small import RECIPE, completed, opened, small

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes find the package where this one found it, installed or not."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]))


def _wait(condition: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.usefixtures("_importable")
def test_a_killed_workers_trial_is_run_again(tmp_path: Path) -> None:
    search = small(["train.epochs=8"], lr="0.01,0.02")
    storage, studies = opened(search, tmp_path)
    study = studies["baseline"]
    team = Team(tmp_path, database_url(tmp_path), 1, 1)
    team.start()
    folder = tmp_path / "trials" / "baseline" / "wd0.01-lr0.01-r0"
    try:
        _wait(lambda: len(list((folder / "checkpoints").glob("step-*.json"))) > 1)  # an epoch was saved
    finally:
        team.processes[0].send_signal(signal.SIGKILL)
        team.processes[0].wait()
    assert study.trials[0].state == TrialState.RUNNING  # nobody has noticed yet
    Worker(tmp_path, search, storage).run()
    assert completed(study) == ["wd0.01-lr0.01-r0", "wd0.01-lr0.02-r0"]
    assert study.trials[0].state == TrialState.FAIL
    assert [t.params for t in study.trials].count(study.trials[0].params) == 2
    starts = json.loads((folder / "environment.json").read_text())
    assert len(starts) == 2  # continued in the same folder, from its checkpoint
    (row,) = [r for r in collect(search, studies)["cases"]["baseline"]["trials"] if r["lr"] == 0.01]
    assert (row["state"], row["died_before"]) == ("complete", 1)


@pytest.mark.usefixtures("_importable")
def test_ctrl_c_leaves_a_search_that_the_same_command_continues(tmp_path: Path) -> None:
    recipe = tmp_path / "small.yaml"
    recipe.write_text(to_yaml(RECIPE))
    out = tmp_path / "search"
    command = [sys.executable, "-m", "binaryduo", "search", "--recipe", str(recipe), "--out", str(out)]
    command += ["--weight-decay", "0.01,0.1", "--lr", "0.003:0.03:2", "--repeats", "2", "--workers", "1"]
    command += ["--set", "train.epochs=4", "--dashboard", "--port", "0"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    trials = out / "trials" / "baseline"
    try:
        _wait(lambda: trials.is_dir() and any(trials.glob("*/summary.json")))
    finally:
        first.send_signal(signal.SIGINT)
        said, errors = first.communicate(timeout=120)
    assert first.returncode == 0, errors
    assert "the same command continues it" in said
    assert "optuna-dashboard: http://127.0.0.1:" in errors
    before = len([r for r in read_results(out)["cases"]["baseline"]["trials"] if r["state"] == "complete"])
    assert 1 <= before < 8
    second = subprocess.run(command[:-3], capture_output=True, text=True, timeout=240)
    assert second.returncode == 0, second.stderr
    results = read_results(out)
    rows = results["cases"]["baseline"]["trials"]
    assert len(rows) == 8
    assert {row["state"] for row in rows} == {"complete"}
    best = named(str(out / "best-baseline.yaml"))
    assert best.train.lr == results["cases"]["baseline"]["best"]["lr"]
    assert (out / "contour-baseline.png").read_bytes().startswith(b"\x89PNG")
    cost = overhead(out)
    assert cost is not None
    assert cost["trials"] >= 8


@pytest.mark.usefixtures("_importable")
def test_workers_that_cannot_work_end_the_search(tmp_path: Path) -> None:
    """A data set that is not there fails each trial with its reason, not the search."""
    from binaryduo.search import run_search

    search = small(["data.name=imagenet", "data.root=nowhere"], lr="0.01")
    results = run_search(search, tmp_path, workers=1)
    (row,) = results["cases"]["baseline"]["trials"]
    assert row["state"] == "failed"
    assert "nowhere" in row["reason"]


def test_shares_and_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares(3, None, cores=2) == (3, 1)
    assert shares(1, 2, cores=2) == (1, 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    team = Team(tmp_path, "sqlite://", 4, 2, gpus=2)
    assert [team.environment(i)["CUDA_VISIBLE_DEVICES"] for i in range(4)] == ["0", "1", "0", "1"]
    assert team.environment(0)["OMP_NUM_THREADS"] == "2"
