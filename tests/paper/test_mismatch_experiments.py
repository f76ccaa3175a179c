"""The gradient-mismatch experiments run small, and committed verdicts follow from the committed rows."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from binaryduo.paper import runner
from binaryduo.paper.experiment import VERDICTS
from binaryduo.paper.registry import EXPERIMENTS, find
from binaryduo.paper.results import path_of, read_best

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
NAMES = [
    "figure3_cosine",
    "appendix_b_surface",
    "appendix_c_curves",
    "appendix_c_steps",
    "appendix_h_sigmas",
    "appendix_h_equal_cost",
    "sample_size",
]
JUDGED = sorted(path.parent.name for path in RESULTS.glob("*/verdicts.json"))


@pytest.mark.parametrize("name", JUDGED)
def test_verdicts_follow_from_the_committed_rows(name: str) -> None:
    found = read_best(name, RESULTS)
    assert found is not None
    verdicts = [asdict(v) for v in find(name).verdicts(found.rows)]
    assert verdicts == json.loads((RESULTS / name / "verdicts.json").read_text())
    assert {v["verdict"] for v in verdicts} <= set(VERDICTS)


def test_every_experiment_with_rows_has_verdicts() -> None:
    assert set(JUDGED) == {name for name in EXPERIMENTS if read_best(name, RESULTS) is not None}


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
