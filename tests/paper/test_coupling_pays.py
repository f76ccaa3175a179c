"""When does coupling pay: every outcome has its sentence; partial results are drawn and say what is missing."""

from pathlib import Path
from typing import Any

import pytest

from binaryduo.paper import coupling_choices, ways
from binaryduo.paper import coupling_pays as study
from binaryduo.paper.artefacts import find as find_artefact
from binaryduo.paper.coupling_outcomes import (
    at_equal_minutes,
    comparisons,
    minutes_sentence,
    papers_sentence,
    pooled,
    sentence,
)
from binaryduo.paper.paper_map import line_of, markdown
from binaryduo.paper.rates import FINETUNE
from binaryduo.paper.results import dump, missing, read_best
from binaryduo.training import named
from binaryduo.training.recipe import stages_of
from binaryduo.training.recipes import WHY

Row = dict[str, Any]
RESULTS = Path(__file__).parents[2] / "experiments" / "results"
NOISE = (-0.2, 0.2, 0.0, 0.1, -0.1)  # a deviation of 0.16 points


def _rows(**means: dict[int, float]) -> list[Row]:
    """The planned runs whose way and budget have a mean, with the noise of each seed."""
    out = []
    for work in study.units("hours"):
        at = work["epochs"] if "schedule" not in work else -work["epochs"]
        if at in means.get(work["way"], {}):
            last = means[work["way"]][at] + NOISE[work["seed"]]
            out.append({**work, "last": last, "best": last + 0.1, "coupled": {"last": last - 2.0}})
    return out


@pytest.mark.parametrize(
    ("baseline", "scratch", "duo", "outcome", "words"),
    [
        (80.0, 80.1, 82.0, "duo", "Coupling pays at 10 epochs: with 10 epochs duo is at +2.00 ± 0."),
        (
            80.0,
            82.0,
            81.9,
            "topology",
            "The topology pays and coupling is not shown to add to it, at 10 epochs",
        ),
        (80.0, 82.0, 80.0, "topology", "and duo at -2.00 ±"),
        (80.0, 80.15, 80.3, "ahead", "whether by coupling or by its topology is open"),
        (80.0, 79.0, 79.0, "behind", "Coupling does not pay at 10 epochs"),
        (80.0, 80.0, 80.05, "undecided", "Undecided within ±0."),
    ],
)
def test_every_outcome_has_its_sentence(
    baseline: float, scratch: float, duo: float, outcome: str, words: str
) -> None:
    rows = _rows(baseline={10: baseline}, scratch={10: scratch}, duo={10: duo})
    (found,) = comparisons(rows)
    assert found.outcome == outcome
    assert words in sentence(rows)


def test_duo_wins_from_a_budget_on() -> None:
    rows = _rows(baseline={10: 82, 40: 86}, scratch={10: 82, 40: 86}, duo={10: 80, 40: 88})
    said = sentence(rows)
    assert said.startswith("Coupling pays at 40 epochs")
    assert said.endswith("Otherwise before: at 10 epochs coupling does not pay.")
    both = sentence(_rows(baseline={10: 82, 40: 86}, scratch={10: 82, 40: 86}, duo={10: 84, 40: 88}))
    assert both.startswith("Coupling pays from 10 epochs on: with 40 epochs duo is at +2.00")
    assert "Otherwise" not in both


def test_nothing_and_single_runs_are_open() -> None:
    assert "no budget has runs of all three ways yet" in sentence([])
    rows = _rows(baseline={10: 80}, scratch={10: 80}, duo={10: 90})
    one = [row for row in rows if row["seed"] == 0]
    assert "one seed only" in sentence(one)
    assert study.verdicts(one) == []


def test_the_deviation_is_pooled_over_ways_and_budgets() -> None:
    rows = _rows(baseline={10: 80, 20: 84}, scratch={10: 70}, duo={10: 60, 40: 88})
    assert pooled(rows).df == 3 * 4 + 2 * 2
    assert pooled(rows).deviation == pytest.approx((sum((3 * 0.1, 2 * 0.08)) / 16) ** 0.5)


def test_the_papers_comparison_is_of_e_plus_e_against_e() -> None:
    rows = _rows(baseline={20: 84, -100: 88}, scratch={20: 84, -100: 88}, duo={40: 86, -200: 90})
    assert "(20 + 20 epochs against 20, n 3), duo is at +2.00 ±" in str(papers_sentence(rows, 20))
    assert "step schedule (100 + 100 epochs against 100, n 1)" in str(papers_sentence(rows, 100, "step"))
    assert papers_sentence(rows, 10) is None
    found = {v.claim: v for v in study.verdicts([row for row in rows if "schedule" not in row])}
    assert len(found) == 3
    assert found["duo beats the binary baseline"].verdict == "holds"
    assert found["duo beats the binary baseline"].setting.startswith("the paper's comparison, 20 + 20 epochs")
    assert found["the decoupled topology from scratch is below the baseline"].verdict == "undecided"
    part = [row for row in rows if row["way"] != "scratch" and "schedule" not in row]
    assert [v.claim for v in study.verdicts(part)] == ["duo beats the binary baseline"]


def test_the_papers_own_schedule_judges_the_coupled_network_too() -> None:
    """One seed, with the scatter of the other lengths; without those nothing can be said."""
    rows = _rows(baseline={20: 84, -100: 88}, scratch={20: 84, -100: 87.9}, duo={-200: 90.5})
    found = {v.claim: v for v in study.verdicts(rows)}
    assert len(found) == 5
    assert all("100 epochs" in v.setting and "one seed" in v.setting for v in found.values())
    said = {claim: (v.verdict, v.number.split(" ±")[0]) for claim, v in found.items()}
    assert said == {
        "duo beats the binary baseline": ("holds", "duo − baseline: +2.50"),
        "the decoupled topology from scratch is below the baseline": (
            "undecided",
            "baseline − from scratch: +0.10",
        ),
        "duo beats its own topology from scratch": ("holds", "duo − from scratch: +2.60"),
        "the coupled ternary network, half the weights, beats the baseline": (
            "undecided",
            "coupled − baseline: +0.50",
        ),
        "fine-tuned, the binary network beats its coupled one": ("holds", "duo − coupled: +2.00"),
    }
    assert found["fine-tuned, the binary network beats its coupled one"].printed == "+0.75"
    alone = study.verdicts([row for row in rows if "schedule" in row])
    assert {v.verdict for v in alone} == {"undecided"}


def test_equal_minutes_lie_between_budgets_of_the_other_way() -> None:
    """An epoch of duo takes half as long here: its 40 epochs are as long as 20 of the others."""
    rows = _rows(baseline={10: 80, 20: 84, 40: 86}, scratch={20: 85, 40: 86}, duo={40: 87})
    factor = {"duo": 0.5, "baseline": 1.0, "scratch": 1.0}

    def minutes(way: str, epochs: int) -> float:
        return epochs * factor[way]

    found = at_equal_minutes(rows, 40, "baseline", minutes)
    assert found is not None
    assert found.middle == pytest.approx(3)
    assert found.half == pytest.approx(pooled(rows).difference([0] * 3, [0] * 3).half)
    factor["duo"] *= 2**0.5
    longer = at_equal_minutes(rows, 40, "baseline", minutes)
    assert longer is not None
    # Over doublings t the baseline is 80 + 5 t − t²: at t = 1.5 it is 85.25, above the line's 85.
    assert longer.middle == pytest.approx(87 - 85.25)
    assert at_equal_minutes(rows, 40, "scratch", minutes) is None  # two budgets are no parabola
    said = minutes_sentence(rows, minutes)
    assert said is not None
    assert "duo with 40 epochs (28 minutes) is at +1.75" in said
    assert minutes_sentence(rows, lambda way, epochs: 1000.0 if way == "duo" else epochs) is None


def test_a_budget_is_judged_when_all_its_seeds_are_there() -> None:
    rows = _rows(baseline={10: 80}, scratch={10: 80}, duo={10: 82})
    assert [v.verdict for v in study.verdicts(rows)] == ["holds", "holds", "undecided"]
    assert all(v.setting.startswith("equal epochs, 10 each") for v in study.verdicts(rows))
    assert study.verdicts(rows[:-1]) == []
    assert (
        study.verdicts([{**row, "epochs": 2} for row in rows]) == []
    )  # a smoke test is no budget of the study


@pytest.mark.parametrize("count", [1, 4, 15, 20, 33])
def test_partial_results_are_drawn_and_say_what_is_missing(count: int, tmp_path: Path) -> None:
    rows = _rows(
        baseline={10: 80, 20: 84, 40: 86, -100: 88},
        scratch={10: 80, 20: 84, 40: 86, -100: 88},
        duo={10: 82, 40: 88, -200: 90},
    )
    assert len(rows) == 33
    (figure,) = study.draw(rows[:count]).values()
    figure.savefig(tmp_path / "picture.png")
    said = study.numbers(rows[:count])
    assert ("Still missing" in said) == (count < 33)
    if count == 20:
        assert "6 runs of 20 epochs, 4 runs of 40 epochs, 3 runs with the paper's schedule" in said


def test_the_order_and_the_settings_of_the_runs() -> None:
    planned = study.units("hours")
    kinds = [(work["epochs"], work["seed"]) for work in planned]
    assert kinds[:3] == [(10, 0)] * 3
    assert [work["way"] for work in planned[:3]] == list(ways.WAYS)
    assert kinds[15] == (40, 0)
    assert kinds[20] == (20, 0)
    assert all(kinds.count((40, seed)) == len(ways.WAYS) for seed in range(3))
    recipes = [ways.recipe_of(work) for work in planned]
    assert {(r.model.width, r.model.weight_bits, r.loop.batch, r.data.validation) for r in recipes} == {
        (1.0, 32, 256, 0.0)
    }
    duo = recipes[planned.index(study.unit("duo", 10, 0))]
    assert duo.finetune is not None
    assert (duo.train.epochs, duo.finetune.epochs, duo.train.lr, duo.finetune.lr) == (5, 5, 1e-2, 5e-3)
    last = recipes[-1]
    assert last.finetune is not None
    for stage in (last.train, last.finetune):
        assert (stage.epochs, stage.schedule, stage.drops) == (100, "step", (61, 81))


def test_the_choices_keep_their_schedules() -> None:
    """One anneal: a constant rate in the coupled stage, and a fall without a warm-up; two: a cycle each."""
    one = next(work for work in coupling_choices.units("hours") if work.get("anneals") == 1)
    train, finetune = stages_of(ways.recipe_of(one))
    assert (train.schedule, finetune.schedule, finetune.warmup) == ("constant", "onecycle", 0.0)
    train, finetune = stages_of(ways.recipe_of({**one, "anneals": 2}))
    assert (train.schedule, finetune.warmup) == ("onecycle", 0.2)


def test_the_recipe_and_the_study_have_the_rates_that_the_choices_found() -> None:
    """The committed runs on held-out images decide; the sentence of the recipe `budget` has their numbers."""
    found = read_best("coupling_choices", RESULTS)
    assert found is not None
    best: dict[str, Row] = {}
    for row in found.rows:
        usual = row["question"] in ("rate", "slower") and row.get("precision") == "bf16"
        if usual and row["last"] > best.get(row["way"], {"last": 0})["last"]:
            best[row["way"]] = row
    assert {way: row["lr"] for way, row in best.items()} == study.LR
    assert best["duo"]["finetune_lr"] == FINETUNE
    budget = named("budget")
    assert budget.finetune is not None
    assert (budget.train.lr, budget.finetune.lr, budget.anneals) == (study.LR["duo"], FINETUNE, 1)
    single = named("budget-scratch")
    assert (single.train.lr, single.model.variant, single.finetune) == (
        study.LR["scratch"],
        "decoupled",
        None,
    )
    for way, recipe in (("duo", "budget"), ("baseline", "budget"), ("scratch", "budget-scratch")):
        assert f"{best[way]['last']:.1f} %" in WHY[recipe]
        assert f"{best[way]['lr']:g}" in WHY[recipe]


def test_the_study_judges_figure_6(tmp_path: Path) -> None:
    """Without it the narrow network is too small to say; with it the paper's comparison decides."""
    rows = _rows(baseline={10: 80, 20: 84, 40: 86}, scratch={10: 80, 20: 83, 40: 86}, duo={10: 79, 40: 88})
    measured = {"last", "best", "coupled"}
    kept = [
        {"unit": {key: row[key] for key in row.keys() - measured}, "seconds": 1.0, "rows": [row]}
        for row in rows
    ]
    (tmp_path / "coupling_pays").mkdir()
    (tmp_path / "coupling_pays" / "hours.json").write_text(dump({"units": kept}))
    line = line_of(find_artefact("figure6-right"), tmp_path)
    assert line.verdict == "holds"
    assert any(
        "does not hold" in v.verdict for v in line.details
    )  # at ten epochs, which the paper does not claim
    assert "Coupling pays at 40 epochs" in line.ours
    assert "## Beyond the paper: When does coupling pay?" in markdown(tmp_path)


def test_rows_of_thirds_are_found_again(tmp_path: Path) -> None:
    """Numbers are kept to seven digits: a unit with a share of 1/3 is done when it is in the file, and counts once."""
    planned = coupling_choices.units("hours")
    kept = [{"unit": work, "seconds": 1.0, "rows": [{**work, "last": 80.0}]} for work in planned]
    (tmp_path / "coupling_choices").mkdir()
    (tmp_path / "coupling_choices" / "hours.json").write_text(dump({"units": [*kept, *kept]}))
    found = read_best("coupling_choices", tmp_path)
    assert found is not None
    assert found.complete
    assert len(found.rows) == len(planned)
    assert missing("coupling_choices", "hours", tmp_path) == []


@pytest.mark.parametrize(
    ("ahead", "chosen"),
    [(0.2, "anneals: two 80.00, one 80.20, so two;"), (0.4, "anneals: two 80.00, one 80.40, so one;")],
)
def test_the_choices_follow_their_rule(ahead: float, chosen: str) -> None:
    """Another value is taken where it is more than 0.3 points ahead of the simple one; rates by the best."""
    rows = [{**work, "last": 80.0} for work in coupling_choices.units("hours")]
    for row in rows:
        row["last"] += ahead * (row.get("anneals") == 1) + 0.1 * (
            row["way"] == "scratch" and row["lr"] == 1e-2
        )
    said = coupling_choices.numbers(rows)
    assert chosen in said
    share = f"{80 + ahead:.2f}"
    assert f"share of the coupled stage: 1/2 {share}, 1/3 {share}, 2/3 {share}, so 1/2;" in said
    assert "rate of scratch: 0.005 80.00, 0.01 80.10, 0.02 80.00, 0.04 80.00, so 0.01;" in said
    assert "to run" not in said
    assert "anneals: not run" in coupling_choices.numbers([])
