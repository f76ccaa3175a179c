"""How accuracies are judged: by the last epoch, against the interval of the difference over seeds, trained equally."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from binaryduo.paper import trainings
from binaryduo.paper.accuracies import both, compare, is_small, trained_epochs
from binaryduo.paper.judging import Pooled, all_of, difference, paired, welch
from binaryduo.paper.rates import BEST, FINETUNE
from binaryduo.paper.registry import find
from binaryduo.paper.results import read_best

RESULTS = Path(__file__).parents[2] / "experiments" / "results"


def _rows(*last: float, recipe: str = "vgg7-cifar10", stage: str = "single") -> list[dict[str, Any]]:
    common = {
        "network": "vgg7",
        "width": 1.0,
        "data": "cifar10",
        "epochs": 200,
        "recipe": recipe,
        "stage": stage,
    }
    return [
        {**common, "last": value, "best": value + 5 * seed, "seed": seed} for seed, value in enumerate(last)
    ]


@pytest.mark.parametrize(
    ("high", "low", "verdict"),
    [
        ((70.0, 71.0), (60.0, 61.1), "holds"),
        ((60.0, 61.0), (70.0, 71.1), "does not hold"),
        ((70.0, 72.0), (69.0, 70.0), "undecided"),  # by 1 and 2: with two seeds the interval is ± 6.4
        ((70.0, 71.0), (60.0, 61.0, 60.5), "holds"),  # other seeds: Welch's interval
        ((90.0,), (60.0,), "undecided"),  # one seed has no spread to judge by
        ((70.1, 71.2), (60.1, 61.2), "undecided"),  # two seeds that agree by chance have none either
        ((70.0, 70.0), (60.0, 60.0, 60.0), "undecided"),
        ((), (60.0, 61.0), "not run"),
    ],
)
def test_compare(high: tuple[float, ...], low: tuple[float, ...], verdict: str) -> None:
    assert compare("claim", _rows(*high), _rows(*low), ("a", "b")).verdict == verdict


def test_the_best_epoch_does_not_decide() -> None:
    """Here the best epochs would say the opposite."""
    high, low = _rows(70.0, 71.0), _rows(60.0, 61.1)
    for row in low:
        row["best"] = 99.0
    assert compare("claim", high, low, ("a", "b")).verdict == "holds"
    assert both(high) == "last 70.50 ± 0.71 (n 2), best 73.00 ± 4.24 (n 2)"


def test_small_networks_say_nothing() -> None:
    verdict = compare("claim", _rows(70.0, 71.0, recipe="reproduce-cpu"), _rows(60.0, 61.0), ("a", "b"))
    assert verdict.verdict == "too small to say"
    assert "difference +10.00" in verdict.evidence


def test_each_verdict_says_how_long_both_sides_were_trained() -> None:
    single, tuned, coupled = (_rows(70.0, 71.0, stage=stage) for stage in ("single", "decoupled", "coupled"))
    better = _rows(80.0, 81.0)
    assert trained_epochs(tuned[0]) == 400
    assert compare("", better, single, ("", "")).setting.startswith("equal epochs, 200 each; vgg7")
    papers = compare("", tuned, single, ("", "")).setting
    assert papers.startswith("the paper's comparison, 200 + 200 epochs against 200;")
    after = compare("", tuned, coupled, ("", "")).setting
    assert after.startswith("the paper's comparison, 200 epochs and 200 more;")
    for row in better:
        row["epochs"] = 250
    unequal = compare("", better, single, ("", ""))
    assert unequal.setting.startswith("unequal epochs, 250 against 200;")
    assert unequal.verdict == "undecided"


def test_paired_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """Of 4,000 made-up sets of four differences, 95 % have the true mean inside; Welch's likewise."""
    random = np.random.default_rng(0)
    inside = [
        abs(found.middle - 1) <= found.half for found in map(paired, random.normal(1, 2, (4000, 4)).tolist())
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)
    pairs = zip(random.normal(3, 1, (4000, 3)).tolist(), random.normal(2, 2, (4000, 5)).tolist(), strict=True)
    inside = [abs(found.middle - 1) <= found.half for found in (welch(a, b) for a, b in pairs)]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)


def test_seeds_that_pair_take_the_noise_that_they_share_away() -> None:
    high, low = {0: 70.0, 1: 80.0, 2: 90.0}, {0: 69.0, 1: 79.1, 2: 88.9}
    assert difference(high, low).verdict == "holds"
    assert difference(high, {seed + 1: value for seed, value in low.items()}).verdict == "undecided"


def test_a_pooled_deviation_serves_single_runs() -> None:
    pooled = Pooled.of([[1.0, 3.0], [10.0, 12.0, 14.0], [5.0]])
    assert (pooled.deviation, pooled.df) == (pytest.approx(math.sqrt(10 / 3)), 3)
    found = pooled.difference([20.0], [5.0])
    assert found.half == pytest.approx(3.182446 * pooled.deviation * math.sqrt(2), rel=1e-6)
    assert Pooled.of([[1.0], [2.0]]).difference([9.0], [1.0]).verdict == "undecided"


def test_intervals_and_their_verdicts() -> None:
    assert paired([0.1, 0.11, 0.09]).verdict == "holds"
    assert paired([-0.1, -0.11, -0.09]).verdict == "does not hold"
    assert paired([0.1, -0.1, 0.05]).verdict == "undecided"
    assert paired([0.3]).verdict == paired([]).verdict == "undecided"
    assert all_of(["holds", "undecided"]) == "undecided"
    assert all_of(["undecided", "does not hold"]) == "does not hold"


def test_profiles_state_their_settings() -> None:
    """The paper's profile is the paper's schedule; cpu is narrower and shorter, with at least two seeds."""
    paper, cpu = trainings.unit("paper", 0), trainings.unit("cpu", 0)
    assert (paper["width"], paper["epochs"], paper["data"]) == (1.0, 200, "cifar10")
    assert trainings.recipe_of(paper).train.drops == (121, 161)
    assert cpu["width"] < paper["width"]
    assert cpu["epochs"] < paper["epochs"]
    assert len(trainings.SEEDS) >= 2
    for work in find("figure6_comparison").units("paper"):
        way = {"baseline": "baseline", "decoupled": "scratch", "coupled": "duo"}[work["variant"]]
        recipe = trainings.recipe_of(work)
        assert recipe.train.lr == BEST[way]
        assert way != "duo" or work["finetune_lr"] == recipe.finetune.lr == FINETUNE
    for name in ("figure1a_precision", "figure6_comparison", "appendix_e_two_bits", "appendix_f_quad"):
        units = find(name).units("cpu")
        assert {unit["seed"] for unit in units} == set(trainings.SEEDS)


@pytest.mark.parametrize(
    "name",
    ["figure1a_precision", "figure1b_width", "figure2_accuracy", "appendix_e_two_bits", "appendix_f_quad"],
)
def test_half_the_width_is_trained_for_twelve_epochs_and_judged(name: str) -> None:
    """Binary networks at their tuned rate; three seeds; no row is too small to say."""
    units = find(name).units("hours")
    assert {unit["seed"] for unit in units} == {0, 1, 2}
    for unit in units:
        recipe = trainings.recipe_of(unit)
        finetune = recipe.finetune.epochs if unit["stages"] == 2 and recipe.finetune is not None else 0
        assert recipe.train.epochs + finetune == 12
        binary = unit["stages"] == 1 and unit["levels"] == 2
        assert recipe.train.lr == (BEST["baseline"] if binary else BEST["duo"])
        assert (recipe.loop.precision, recipe.data.name) == ("bf16", "cifar10")
        assert not is_small({"recipe": recipe.name})


def test_equal_training_in_the_short_comparison() -> None:
    """Every network of the comparison has another one that was trained as long; no verdict is of unequal epochs."""
    found = read_best("figure6_comparison", RESULTS)
    assert found is not None
    assert found.complete
    settings = [verdict.setting for verdict in find("figure6_comparison").verdicts(found.rows)]
    assert len(settings) == 5
    assert all(setting.startswith(("equal epochs", "the paper's comparison")) for setting in settings)


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
