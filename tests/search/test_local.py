"""Worker processes: one is killed, a search is stopped by Ctrl-C, and nothing is lost or done twice."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.trial import TrialState

from binaryduo.search.collecting import collect
from binaryduo.search.dashboard import start_dashboard
from binaryduo.search.local import Team, run_search, shares
from binaryduo.search.results import overhead, read_results
from binaryduo.search.spec import search_to_yaml
from binaryduo.search.storage import database_url
from binaryduo.training import named
from tests.search.small import completed, opened, small

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
    _, studies = opened(search, tmp_path)
    study = studies["baseline"]
    team = Team(tmp_path, database_url(tmp_path), 1, 1)
    team.start()
    folder = tmp_path / "trials" / "baseline" / "wd0.01-lr0.01-r0"
    try:
        _wait(lambda: len(list((folder / "checkpoints").glob("step-*.json"))) > 1)  # an epoch was saved
        killed = team.processes[0]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert study.trials[0].state == TrialState.RUNNING  # nobody has noticed yet
        team.replace_dead(done=0)
        _wait(lambda: not team.alive())
    finally:
        team.stop()
    assert completed(study) == ["wd0.01-lr0.01-r0", "wd0.01-lr0.02-r0"]
    assert study.trials[0].state == TrialState.FAIL
    assert [t.params for t in study.trials].count(study.trials[0].params) == 2
    starts = json.loads((folder / "environment.json").read_text())
    assert len(starts) == 2  # continued in the same folder, from its checkpoint
    (row,) = [r for r in collect(search, studies)["cases"]["baseline"]["trials"] if r["lr"] == 0.01]
    assert (row["state"], row["died_before"]) == ("complete", 1)


@pytest.mark.usefixtures("_importable")
def test_ctrl_c_leaves_a_search_that_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "search"
    search = small(["train.epochs=10"], weight_decay="0.01,0.1", lr="0.003,0.03")
    file = tmp_path / "search.yaml"
    file.write_text(search_to_yaml(search))
    command = [sys.executable, "-m", "binaryduo", "search", "--file", str(file), "--out", str(out)]
    first = subprocess.Popen(
        [*command, "--workers", "1", "--threads", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    trials = out / "trials" / "baseline"
    try:
        _wait(lambda: trials.is_dir() and any(trials.glob("*/summary.json")))
    finally:
        first.send_signal(signal.SIGINT)
        said, errors = first.communicate(timeout=120)
    assert first.returncode == 0, errors
    assert "the same command continues it" in said
    before = [row for row in read_results(out)["cases"]["baseline"]["trials"] if row["state"] == "complete"]
    assert 1 <= len(before) < 4
    results = run_search(search, out, workers=1, threads=1)  # what the same command does
    rows = results["cases"]["baseline"]["trials"]
    assert [row["state"] for row in rows] == ["complete"] * 4
    assert all(row in rows for row in before)  # what was done was not done again
    assert named(str(out / "best-baseline.yaml")).train.lr == results["cases"]["baseline"]["best"]["lr"]
    assert (out / "contour-baseline.png").read_bytes().startswith(b"\x89PNG")
    cost = overhead(out)
    assert cost is not None
    assert cost["trials"] >= 4


def test_the_dashboard_answers(tmp_path: Path) -> None:
    opened(small(), tmp_path)
    server, address = start_dashboard(database_url(tmp_path), 0, tmp_path / "log")
    found: list[bytes] = []

    def answers() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(address + "api/studies") as page:
            found.append(page.read())
        return bool(found)

    try:
        _wait(answers)
    finally:
        server.terminate()
        server.wait()
    assert b"small/baseline" in found[0]


def test_shares_and_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares(3, None, cores=2) == (3, 1)
    assert shares(1, 2, cores=2) == (1, 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    team = Team(tmp_path, "sqlite://", 4, 2, gpus=2)
    assert [team.environment(i)["CUDA_VISIBLE_DEVICES"] for i in range(4)] == ["0", "1", "0", "1"]
    assert team.environment(0)["OMP_NUM_THREADS"] == "2"
