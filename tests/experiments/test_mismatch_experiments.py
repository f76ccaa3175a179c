"""The gradient-mismatch experiments run small, and committed verdicts follow from the committed rows."""

import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
sys.path.insert(0, str(FOLDER))

import _experiment as shared  # noqa: E402

NAMES = [
    "figure3_cosine",
    "appendix_b_surface",
    "appendix_c_curves",
    "appendix_c_steps",
    "appendix_h_sigmas",
    "appendix_h_equal_cost",
    "sample_size",
]
VERDICTS = {"holds", "does not hold", "undecided", "not run"}


def experiment(name):
    return import_module(name).EXPERIMENT


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_follow_from_the_committed_rows(name):
    found = experiment(name)
    verdicts = [asdict(v) for v in found.verdicts(shared.load(found))]
    committed = json.loads((shared.RESULTS / name / "verdicts.json").read_text())
    assert verdicts == committed
    assert {v["verdict"] for v in verdicts} <= VERDICTS


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_rows_are_of_the_declared_units(name):
    """What was not run is missing, and nothing else was run."""
    found = experiment(name)
    done = [unit["unit"] for unit in json.loads(shared.path_of(found, "full").read_text())["units"]]
    declared = found.units("full")
    assert all(unit in declared for unit in done)
    assert len({json.dumps(unit, sort_keys=True) for unit in done}) == len(done)


@pytest.mark.parametrize("name", ["appendix_b_surface", "appendix_h_equal_cost", "sample_size"])
def test_run_collect_plot(name, tmp_path):
    found = experiment(name)
    assert shared.run(found, "smoke", tmp_path)
    assert shared.collect(found, "smoke", tmp_path)
    assert all(path.exists() for path in shared.plot(found, "smoke", tmp_path))


def test_a_run_continues_where_it_stopped(tmp_path):
    found = experiment("sample_size")
    first = found.units("smoke")[0]
    assert not shared.run(found, "smoke", tmp_path, minutes=1e-9)
    path = shared.path_of(found, "smoke", tmp_path)
    assert not path.exists() or json.loads(path.read_text())["units"][0]["unit"] == first
    assert shared.run(found, "smoke", tmp_path)
    before = shared.path_of(found, "smoke", tmp_path).read_text()
    assert shared.run(found, "smoke", tmp_path)
    assert shared.path_of(found, "smoke", tmp_path).read_text() == before


def test_judging():
    assert shared.judge([0.1, 0.11, 0.09]) == "holds"
    assert shared.judge([-0.1, -0.11, -0.09]) == "does not hold"
    assert shared.judge([0.1, -0.1, 0.05]) == "undecided"
    assert shared.judge([0.3]) == shared.judge([]) == "undecided"
    assert shared.all_of(["holds", "undecided"]) == "undecided"
    assert shared.all_of(["undecided", "does not hold"]) == "does not hold"
