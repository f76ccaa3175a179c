"""Duo against the baseline with one-bit weights: what is said of rows, whole and partial."""

from pathlib import Path

from binaryduo.paper import one_bit_weights as study
from binaryduo.paper import ways
from binaryduo.paper.results import read_best

RESULTS = Path(__file__).parents[2] / "experiments" / "results"


def rows(**last: list[float]) -> list[dict[str, object]]:
    return [
        {"network": "vgg7", "way": way, "seed": seed, "last": value, "best": value}
        for way, values in last.items()
        for seed, value in enumerate(values)
    ]


def test_units_are_one_bit_and_seed_by_seed() -> None:
    for case in study.CASES:
        units = [unit for unit in case.units() if "question" not in unit]
        assert [unit["seed"] for unit in units] == [0, 0, 1, 1, 2, 2]
        recipes = [ways.recipe_of(unit) for unit in units]
        assert {(r.model.network, r.model.width) for r in recipes} == {(case.network, case.width)}
        assert {recipe.model.weight_bits for recipe in recipes} == {1}
        assert {recipe.loop.precision for recipe in recipes} == {"bf16"}
        epochs = {r.train.epochs + (r.finetune.epochs if r.finetune else 0) for r in recipes}
        assert epochs == {case.epochs}


def test_rates_are_chosen_on_held_out_images_for_both_ways_alike() -> None:
    for case in study.CASES:
        tests = [unit for unit in case.units() if unit.get("question") == "rate"]
        assert {unit["validation"] for unit in tests} == {0.1}
        rates = {way: [unit["lr"] for unit in tests if unit["way"] == way] for way in study.WAYS}
        assert len(rates["duo"]) == len(rates["baseline"]) >= 3
        assert set(rates["duo"] + rates["baseline"]) <= set(study.RATES)
    tried = [{**row, "lr": 0.01, "question": "rate"} for row in rows(duo=[80.0])]
    assert study.verdicts(tried + rows(baseline=[82.0, 82.1, 82.2])) == []
    assert "0.01: 80.00" in study.numbers(tried)


def test_the_runs_have_the_rates_that_the_tests_found_and_both_neighbours_are_worse() -> None:
    found = read_best("one_bit_weights", RESULTS)
    assert found is not None
    for case in study.CASES:
        for way in study.WAYS:
            tested = case.by_rate(found.rows, way)
            best = max(tested, key=lambda rate: tested[rate])
            assert min(tested) < best < max(tested)
            pairs = {(rate, rate): last for rate, last in tested.items()}
            if way == "duo":
                pairs |= case.by_finetuning(found.rows)
            chosen = max(pairs, key=lambda pair: pairs[pair])
            assert chosen == (
                case.lr[way],
                case.finetune_lr if way == "duo" and case.finetune_lr else case.lr[way],
            )


def test_the_claim_is_judged_over_pairs_of_seeds() -> None:
    found = study.verdicts(rows(duo=[84.0, 84.5, 84.2], baseline=[82.0, 82.6, 82.1]))
    assert [v.verdict for v in found] == ["holds"]
    assert found[0].evidence.startswith("difference in points: +2.00 ± ")
    assert "VGG-7" in found[0].setting
    found = study.verdicts(rows(duo=[80.0, 80.1, 80.0], baseline=[82.0, 82.6, 82.1]))
    assert [v.verdict for v in found] == ["does not hold"]


def test_one_way_alone_judges_nothing_and_says_what_is_missing() -> None:
    some = rows(duo=[84.0])
    assert study.verdicts(some) == []
    assert "5 runs of 20 epochs are missing" in study.numbers(some)
    assert study.draw(some)["one_bit_weights.png"].axes
