"""Cosines over the study's runs: which epochs and layers count, and what is judged."""

from typing import Any

import pytest

from binaryduo.paper import coupling_mismatch as m

Row = dict[str, Any]


def _stage(first: float, count: int) -> dict[str, Any]:
    """A stage whose cosines rise by 0.01 an epoch; the layers behind the last activation are 1 and must not count."""
    lines = [[m.STEPS * (i + 1), first + 0.01 * i, 0.0, 1.0] for i in range(count)]
    layers = {layer: lines for layer in m.LAYERS}
    return {"steps": m.STEPS * count, "mismatch": {**layers, "classifier": [[m.STEPS, 1.0, 1.0, 1.0]]}}


def _run(way: str, seed: int, first: float, second: float) -> Row:
    row: Row = {"way": way, "epochs": 4, "seed": seed}
    if way == "duo":
        return {**row, "coupled": _stage(first, 2), **_stage(second, 2)}
    return {**row, **_stage(first, 4)}


def test_a_run_is_cut_where_duo_is_decoupled() -> None:
    row = _run("duo", 0, 0.5, 0.2)
    assert [epoch for epoch, _ in m.curve(row, "dense.0")] == [1, 2, 3, 4]
    assert m.level(row, 0, 2) == pytest.approx(0.505)
    assert m.level(row, 2, 4) == pytest.approx(0.205)
    assert m.level({"way": "baseline", "epochs": 4, "seed": 0}, 0, 2) is None


def test_each_half_is_compared_with_the_same_epochs_of_the_baseline() -> None:
    rows = [
        _run(way, seed, first + 0.001 * seed, 0.1)
        for seed in range(3)
        for way, first in (("baseline", 0.3), ("duo", 0.6))
    ]
    first, second = m.verdicts(rows)
    assert (first.verdict, second.verdict) == ("holds", "does not hold")
    assert first.number.startswith("+0.300")
    assert "binary baseline: 0.306, then 0.326 (n 3)" in m.numbers(rows)
    assert list(m.draw(rows)) == ["mismatch_4.png"]


def test_runs_without_profiles_decide_nothing() -> None:
    rows = [{"way": "duo", "epochs": 4, "seed": 0, "coupled": {"steps": 1}, "steps": 1}]
    assert m.verdicts(rows) == []
    assert m.draw(rows) == {}
    assert "None" in m.numbers(rows)
