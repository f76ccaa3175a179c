"""The gradient-mismatch experiments run small, and committed verdicts follow from the committed rows."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from binaryduo.paper import judging, runner
from binaryduo.paper.registry import find
from binaryduo.paper.results import checkout, path_of, read

ROOT = checkout()
assert ROOT is not None
RESULTS = ROOT / "experiments" / "results"
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


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_follow_from_the_committed_rows(name: str) -> None:
    found = read(name, "full", RESULTS)
    assert found is not None
    verdicts = [asdict(v) for v in find(name).verdicts(found.rows)]
    assert verdicts == json.loads((RESULTS / name / "verdicts.json").read_text())
    assert {v["verdict"] for v in verdicts} <= VERDICTS


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_rows_are_of_the_declared_units(name: str) -> None:
    """What was not run is missing, and nothing else was run."""
    done = [unit["unit"] for unit in json.loads(path_of(name, "full", RESULTS).read_text())["units"]]
    declared = find(name).units("full")
    assert all(unit in declared for unit in done)
    assert len({json.dumps(unit, sort_keys=True) for unit in done}) == len(done)


@pytest.mark.parametrize("name", ["appendix_b_surface", "appendix_h_equal_cost", "sample_size"])
def test_run_collect_plot(name: str, tmp_path: Path) -> None:
    assert runner.run(name, "smoke", tmp_path)
    assert runner.collect(name, "smoke", tmp_path)
    assert all(path.exists() for path in runner.plot(name, "smoke", tmp_path))


def test_a_run_continues_where_it_stopped(tmp_path: Path) -> None:
    name = "sample_size"
    first, *rest = find(name).units("smoke")
    left: list[int] = []
    assert not runner.run(name, "smoke", tmp_path, minutes=1e-9, after=lambda count, _: left.append(count))
    path = path_of(name, "smoke", tmp_path)
    assert not path.exists() or json.loads(path.read_text())["units"][0]["unit"] == first
    assert runner.run(name, "smoke", tmp_path, after=lambda count, _: left.append(count))
    assert left == list(range(len(rest), -1, -1))
    before = path.read_text()
    assert runner.run(name, "smoke", tmp_path)
    assert path.read_text() == before


def test_judging() -> None:
    assert judging.judge([0.1, 0.11, 0.09]) == "holds"
    assert judging.judge([-0.1, -0.11, -0.09]) == "does not hold"
    assert judging.judge([0.1, -0.1, 0.05]) == "undecided"
    assert judging.judge([0.3]) == judging.judge([]) == "undecided"
    assert judging.all_of(["holds", "undecided"]) == "undecided"
    assert judging.all_of(["undecided", "does not hold"]) == "does not hold"
