"""How accuracies are judged: by the last epoch, against the spread over seeds."""

import json
from pathlib import Path
from typing import Any

import pytest

from binaryduo.paper import trainings
from binaryduo.paper.registry import find
from binaryduo.paper.results import read_best


def _rows(*last: float) -> list[dict[str, Any]]:
    common = {"network": "vgg7", "width": 0.25, "data": "cifar10", "epochs": 10}
    return [
        {**common, "last": value, "best": value + 5 * seed, "seed": seed} for seed, value in enumerate(last)
    ]


@pytest.mark.parametrize(
    ("high", "low", "verdict"),
    [
        ((70.0, 71.0), (60.0, 61.0), "holds"),
        ((60.0, 61.0), (70.0, 71.0), "does not hold"),
        ((70.0, 72.0), (70.5, 71.0), "undecided"),
        ((90.0,), (60.0,), "undecided"),  # one seed has no spread to judge by
        ((), (60.0, 61.0), "not run"),
    ],
)
def test_compare(high: tuple[float, ...], low: tuple[float, ...], verdict: str) -> None:
    assert trainings.compare("claim", _rows(*high), _rows(*low), ("a", "b")).verdict == verdict


def test_the_best_epoch_does_not_decide() -> None:
    """Here the best epochs would say the opposite."""
    high, low = _rows(70.0, 71.0), _rows(60.0, 61.0)
    for row in low:
        row["best"] = 99.0
    assert trainings.compare("claim", high, low, ("a", "b")).verdict == "holds"
    assert trainings.both(high) == "last 70.50 ± 0.71 (n 2), best 73.00 ± 4.24 (n 2)"


def test_profiles_state_their_settings() -> None:
    """The paper's profile is the paper's schedule; cpu is narrower and shorter, with at least two seeds."""
    paper, cpu = trainings.unit("paper", 0), trainings.unit("cpu", 0)
    assert (paper["width"], paper["epochs"], paper["data"]) == (1.0, 200, "cifar10")
    assert trainings.recipe_of(paper).train.drops == (121, 161)
    assert cpu["width"] < paper["width"]
    assert cpu["epochs"] < paper["epochs"]
    assert len(trainings.SEEDS) >= 2
    for name in ("figure1a_precision", "figure6_comparison", "appendix_e_two_bits", "appendix_f_quad"):
        units = find(name).units("cpu")
        assert {unit["seed"] for unit in units} == set(trainings.SEEDS)


def test_equal_training_in_the_short_comparison() -> None:
    """Baseline and from-scratch get as many epochs as both stages of the coupled network together."""
    units = find("figure6_comparison").units("cpu")
    assert len({unit["epochs"] + unit["finetune"] for unit in units}) == 1


def test_a_finished_short_run_comes_before_an_unfinished_long_one(tmp_path: Path) -> None:
    name = "figure1b_width"
    units = {profile: find(name).units(profile) for profile in ("cpu", "paper")}
    for profile, done in (("cpu", units["cpu"]), ("paper", units["paper"][:1])):
        content = {"units": [{"unit": unit, "seconds": 1.0, "rows": [{"of": profile}]} for unit in done]}
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / f"{profile}.json").write_text(json.dumps(content))
    best = read_best(name, tmp_path)
    assert best is not None
    assert best.profile == "cpu"
