"""Experiments are found by name inside the package; results where the caller says, where we are, or at the source."""

import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from typer.testing import CliRunner

from binaryduo.cli.app import app
from binaryduo.errors import ArgumentError, UnknownNameError
from binaryduo.paper import results
from binaryduo.paper.experiment import PROFILES
from binaryduo.paper.registry import EXPERIMENTS, RECORDS, find, find_records

COMMITTED = Path(__file__).parents[2] / "experiments" / "results"

OUTSIDE = """
import sys
from binaryduo.paper import results
results.checkout = lambda: None  # as from a wheel
from binaryduo.cli.app import run
run(sys.argv[1:])
"""


def _outside(folder: Path, *arguments: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "BINARYDUO_RESULTS"}
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_file_with_an_experiment_is_registered() -> None:
    sources = [p for p in files("binaryduo.paper").iterdir() if p.name.endswith(".py")]
    for word, names in (("EXPERIMENT", EXPERIMENTS), ("RECORDS", RECORDS)):
        found = {p.name[:-3] for p in sources if re.search(rf"^{word} = \w+\(\n?", p.read_text(), re.M)}
        assert found - {"registry"} == set(names)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_knows_its_name_and_profiles(name: str) -> None:
    experiment = find(name)
    assert experiment.name == name
    assert experiment.profiles[0] == "smoke"
    assert set(experiment.profiles) <= {*PROFILES, "full"}
    assert all(source in EXPERIMENTS for source in experiment.sources)


@pytest.mark.parametrize("name", RECORDS)
def test_records_know_their_name(name: str) -> None:
    assert find_records(name).name == name


def test_unknown_names_and_profiles() -> None:
    with pytest.raises(UnknownNameError, match="choose one of table1_cited"):
        find("figure9")
    with pytest.raises(ArgumentError, match="choose one of smoke, hours"):
        find("coupling_choices").profile("cpu")
    wrong = CliRunner().invoke(app, ["reproduce", "figure5", "draw"])
    assert "choose one of run, collect, plot" in str(wrong.exception)


def test_where_results_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given, named in the environment, here, at the source, and else a folder of our own."""
    source = results.checkout()
    assert source is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BINARYDUO_RESULTS", raising=False)
    assert results.folder() == source / "experiments" / "results"
    monkeypatch.setattr(results, "checkout", lambda: None)
    assert results.folder() == results.OWN
    (tmp_path / "experiments" / "results").mkdir(parents=True)
    assert results.folder() == tmp_path / "experiments" / "results"
    monkeypatch.setenv("BINARYDUO_RESULTS", "named")
    assert results.folder() == Path("named")
    assert results.folder(Path("given")) == Path("given")


def test_outside_a_checkout(tmp_path: Path) -> None:
    """Nothing is there, which the list says; a figure is run and drawn into a folder of its own, then it is listed."""
    assert _outside(tmp_path, "reproduce", "list").count("not run here") >= 20
    said = _outside(tmp_path, "reproduce", "figure4")
    assert "HOLDS: 0.7 becomes 0.5 × 2.2 = 1.1 coupled" in said
    own = tmp_path / "runs" / "reproduce" / "results"
    assert (own / "figure4_activations" / "activations.png").exists()
    (line,) = [line for line in _outside(tmp_path, "reproduce", "list").splitlines() if "figure4" in line]
    assert "holds" in line
    _outside(tmp_path, "report", "--paper", "--out", "paper.html")
    assert "0.7 becomes 0.5" in (tmp_path / "paper.html").read_text()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_committed_results_are_of_the_plan(name: str) -> None:
    """A unit that the plan does not have any more would be kept and judge nothing."""
    experiment = find(name)
    for profile in experiment.profiles:
        kept = results.kept_units(name, profile, COMMITTED)["units"]
        planned = {results.key_of(unit) for unit in experiment.units(profile)} if kept else set()
        assert {results.key_of(unit["unit"]) for unit in kept} <= planned
