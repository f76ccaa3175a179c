"""Several processes work on one experiment: each unit is measured once, and no row is lost."""

import json
import multiprocessing
from pathlib import Path
from typing import BinaryIO

import pytest
from typer.testing import CliRunner

from binaryduo._common import locks
from binaryduo.cli.app import app
from binaryduo.errors import BinaryDuoError
from binaryduo.paper import runner
from binaryduo.paper.claims import claim_of, claimed, taken
from binaryduo.paper.experiment import Workspace
from binaryduo.paper.registry import find
from binaryduo.paper.results import missing, path_of
from binaryduo.paper.ways import folder_of

NAME = "sample_size"


def measure_all(results: Path, start: "multiprocessing.synchronize.Barrier") -> None:
    start.wait(60)
    runner.run(NAME, "smoke", results)


def test_four_processes_share_the_units(tmp_path: Path) -> None:
    method = multiprocessing.get_context("spawn")
    start = method.Barrier(4)
    processes = [method.Process(target=measure_all, args=(tmp_path, start)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    kept = json.loads(path_of(NAME, "smoke", tmp_path).read_text())["units"]
    declared = find(NAME).units("smoke")
    assert sorted(json.dumps(unit["unit"]) for unit in kept) == sorted(json.dumps(unit) for unit in declared)
    assert [path.name for path in (tmp_path / NAME).iterdir()] == ["smoke.json"]


def test_a_unit_of_another_process_is_passed_over(tmp_path: Path) -> None:
    first, *rest = find(NAME).units("smoke")
    rows = path_of(NAME, "smoke", tmp_path)
    rows.parent.mkdir()
    with claimed(first, rows) as ours:
        assert ours
        assert taken([first, *rest], rows) == 1
        command = ["reproduce", "sample-size", "run", "--profile", "smoke", "--results", str(tmp_path)]
        done = CliRunner().invoke(app, command)
        assert "1 part left, 1 of them with another process" in " ".join(done.output.split())
        assert missing(NAME, "smoke", tmp_path) == [first]
    assert runner.run(NAME, "smoke", tmp_path)


def test_a_claim_ends_with_its_process_and_is_tidied(tmp_path: Path) -> None:
    units = find(NAME).units("smoke")
    rows = path_of(NAME, "smoke", tmp_path)
    rows.parent.mkdir()
    with pytest.raises(KeyboardInterrupt), claimed(units[0], rows):
        raise KeyboardInterrupt
    for unit in units:  # what a killed process leaves
        claim_of(unit, rows).write_text("12345")
    assert taken(units, rows) == 0
    assert runner.run(NAME, "smoke", tmp_path)
    assert list(rows.parent.glob("*.claim")) == []


def test_a_claim_that_was_removed_while_it_was_opened_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes would own it: one by the file that is gone, one by the new one of that name."""
    path, calls, ask = tmp_path / "claim", [0], locks.fcntl.flock

    def flock(file: BinaryIO, how: int) -> None:
        calls[0] += 1
        if calls[0] == 1:
            path.unlink()  # between opening and locking
        ask(file, how)

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    with locks.Lock(path):
        assert calls[0] == 2
        assert locks.Lock(path).taken()


def test_a_place_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(BinaryDuoError, match="lock cannot be locked"),
        locks.alone(tmp_path / "file" / "lock"),
    ):
        pass


def test_a_training_that_another_process_does_is_passed_over_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_ = find("coupling_pays").units("smoke")
    place = Workspace(runs=tmp_path / "runs")
    folder = folder_of(first, place.runs)
    folder.mkdir(parents=True)
    with locks.Lock(folder / "lock"):
        assert not runner.run("coupling_pays", "smoke", tmp_path, place)
    assert "another run is already using" in " ".join(capsys.readouterr().err.split())
    assert missing("coupling_pays", "smoke", tmp_path) == [first]
    assert runner.run("coupling_pays", "smoke", tmp_path, place)
