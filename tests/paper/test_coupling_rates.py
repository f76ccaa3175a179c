"""The rates at forty epochs: planned alike for each way, and what is said of rows, whole and partial."""

import pytest

from binaryduo.paper import coupling_rates as check
from binaryduo.paper import ways
from binaryduo.paper.experiment import Row
from binaryduo.paper.rates import BEST, FINETUNE


def rows(**gains: float) -> list[Row]:
    """All runs at 85 %, those at half of the rate of some ways this much higher."""
    out = []
    for work in check.units("hours"):
        half = work["lr"] < BEST[work["way"]]
        out.append({**work, "last": 85.0 + (gains.get(work["way"], 0.0) if half else 0.0)})
    return out


def test_each_way_gets_its_rate_half_and_twice_on_held_out_images() -> None:
    planned = check.units("hours")
    for way in ways.WAYS:
        mine = [work for work in planned if work["way"] == way]
        assert sorted(work["lr"] / BEST[way] for work in mine) == [0.5, 1.0, 2.0]
        assert {(work["epochs"], work["validation"], work["seed"]) for work in mine} == {(40, 0.1, 0)}
    stages = ways.recipe_of(next(work for work in planned if work["way"] == "duo"))
    assert stages.finetune is not None
    assert (stages.train.lr, stages.finetune.lr, stages.anneals) == (BEST["duo"], FINETUNE, 1)


def test_a_rate_stays_within_the_margin() -> None:
    found = rows(scratch=0.2, duo=0.4)
    assert check.gain(found, "scratch") == pytest.approx(0.2)
    said = check.numbers(found)
    assert "scratch 0.01: 85.20, 0.02: 85.00, 0.04: 85.00 (0.02 stays, within 0.3 points" in said
    assert "the study's 0.01 is 0.40 points below the best" in said


def test_a_part_of_the_rates_decides_nothing() -> None:
    part = rows()[:4]
    assert check.gain(part, "duo") is None
    assert "(not all rates were run)" in check.numbers(part)
    assert "duo: not run" in check.numbers([])
    assert set(check.draw(part)) == {"rates.png"}
