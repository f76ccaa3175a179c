"""Appendix G at the evidence study's size: its units are that study's, and each case is judged when it is complete."""

from typing import Any

import pytest

from binaryduo.paper import appendix_g_intervals as study
from binaryduo.paper import coupling_pays, ways


def run_of(levels: int, interval: str | None, seed: int, coupled: float, last: float) -> dict[str, Any]:
    """A row as `ways` gives it."""
    unit = study._study_unit(levels, interval, seed)
    first = {"last": coupled, "best": coupled, "seconds": 1.0, "curve": []}
    return {
        **unit,
        **first,
        "last": last,
        "best": last,
        "before": coupled,
        "coupled": first,
    }


def rows_of(*runs: dict[str, Any]) -> list[dict[str, Any]]:
    cosines = {"features.0": [0.5, 0.4, 0.6], "features.3": [None, None, None], "classifier": [1.0, 1.0, 1.0]}
    found = []
    for run in runs:
        coupled, decoupled = study._as_stages(run)
        found += [{**coupled, "moved": [0.1], "cosine": cosines}, decoupled]
    return found


def test_units_are_the_studys_with_one_rate_and_differ_in_one_thing() -> None:
    units = study.units("hours")
    own = [unit for unit in coupling_pays.units("hours") if unit["way"] == "duo" and unit["epochs"] == 10]
    own = [{**unit, "finetune_lr": unit["lr"]} for unit in own]
    assert [unit for unit in units if unit in own] == own[: study.HOURS_SEEDS]
    for unit in units:
        model = ways.recipe_of(unit).model
        assert (3 if model.levels == "default" else model.levels, model.interval) in study.CASES
        rest = {key: value for key, value in unit.items() if key not in ("levels", "interval")}
        assert rest in own
    assert len({ways.folder_of(unit, study.Path("runs")) for unit in units}) == len(units) == 15


def test_a_case_is_judged_when_its_seeds_are_complete() -> None:
    fixed = [run_of(3, None, seed, 80 + seed, 82 + seed) for seed in range(3)]
    learned = [run_of(3, "channel", seed, 81 + seed + 0.01 * seed, 82 + seed) for seed in range(3)]
    assert study.verdicts(rows_of(*fixed, *learned[:2])) == []
    found = {v.claim: v for v in study.verdicts(rows_of(*fixed, *learned))}
    coupled = found["thresholds learned for each channel improve the coupled network (3 levels)"]
    assert coupled.verdict == "holds"
    assert coupled.setting == "equal epochs, 5 each; vgg7 at width 1 on cifar10"
    tuned = found["thresholds learned for each channel improve the fine-tuned binary network (3 levels)"]
    assert tuned.verdict == "undecided"
    assert tuned.setting.startswith("equal epochs, 10 each")
    assert len(found) == 2


def test_what_is_said_and_drawn_of_a_part() -> None:
    rows = rows_of(run_of(3, None, 0, 80, 82), run_of(3, "channel", 0, 81, 82))
    assert "3 levels, learned, channel 0.500 (n 1)" in study.numbers(rows)
    assert study.hidden_cosines(rows[0]) == [
        pytest.approx(0.5)
    ]  # not the last layer's, nor where there is none
    assert len(study.draw(rows)["intervals.png"].axes) == 3
