"""The tasks beyond images: settings are what was chosen on held-out data, and rows are judged by seed."""

import json
from pathlib import Path

import pytest

from binaryduo.errors import ArgumentError
from binaryduo.paper import other_tasks, other_tasks_choices, runner, tasks
from binaryduo.paper.experiment import Workspace
from binaryduo.paper.results import read

RESULTS = Path(__file__).parents[2] / "experiments" / "results"


def committed(name: str) -> list[dict[str, object]]:
    units = json.loads((RESULTS / name / "hours.json").read_text())["units"]
    return [row for unit in units for row in unit["rows"]]


def rows(**values: list[float]) -> list[dict[str, object]]:
    return [
        {"task": "keywords", "way": way, "seed": seed, "top1": value, "epochs": 8}
        for way, found in values.items()
        for seed, value in enumerate(found)
    ]


@pytest.mark.parametrize(("task", "way"), list(other_tasks.SETTINGS))
def test_settings_are_the_best_on_held_out_data_and_those_of_the_examples(task: str, way: str) -> None:
    chosen = other_tasks_choices.best_of(committed("other_tasks_choices"), task, way)  # type: ignore[arg-type]
    assert chosen is not None
    ours = other_tasks.SETTINGS[task, way]
    assert {key: pytest.approx(chosen[key]) for key in ours} == ours
    example = tasks.example(task).SETTINGS[way]
    assert (example.lr, example.hold, example.finetune) == (
        ours["lr"],
        ours.get("hold", False),
        ours.get("finetune", 1.0),
    )


def test_each_way_is_tuned_equally_hard_and_the_test_is_not_looked_at() -> None:
    units = other_tasks_choices.units("hours")
    for task in tasks.TASKS:
        assert {sum((u["task"], u["way"]) == (task, way) for u in units) for way in tasks.WAYS} == {8}
    assert {u["part"] for u in units} == {"held-out"}
    tested = other_tasks.units("hours")
    assert {u["part"] for u in tested} == {"test"}
    assert not {u["seed"] for u in units} & {u["seed"] for u in tested}
    assert {u["epochs"] for u in [*units, *tested]} == {8}


def test_held_out_scenes_are_of_the_training_set_and_of_no_scene_that_is_trained_on() -> None:
    train, held = tasks.split("detector", "held-out", True)
    final, test = tasks.split("detector", "test", True)
    assert len(train[0]) == len(final[0])
    assert len(held[0]) == len(test[0])
    script = tasks.example("detector")
    from binaryduo import data

    garments = data.load("fashion-mnist-small").train
    again = script.scenes(garments, 40, 60, 3)
    assert all(a.equal(b) for a, b in zip(held, again, strict=True))
    assert train[1].equal(final[1])  # the same garments in other scenes
    assert not train[0].equal(final[0])


def test_claims_are_judged_over_pairs_of_seeds() -> None:
    better = rows(
        duo=[91, 92, 91.5, 92, 91], baseline=[90, 91.2, 90.4, 91.1, 90], scratch=[91, 92, 91, 92, 91.2]
    )
    found = {v.claim: v.verdict for v in other_tasks.verdicts(better)}  # type: ignore[arg-type]
    assert found["duo beats the binary baseline (keywords)"] == "holds"
    assert found["duo beats its own topology from scratch (keywords)"] == "undecided"
    few = rows(duo=[91, 92], baseline=[90, 91], scratch=[90, 91])
    assert other_tasks.verdicts(few) == []  # type: ignore[arg-type]
    assert "duo 91.50" in other_tasks.numbers(few)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["other_tasks", "other_tasks_choices", "interval_mismatch"])
def test_smoke(name: str, tmp_path: Path) -> None:
    assert runner.run(name, "smoke", tmp_path, Workspace(tmp_path / "runs"))
    found = read(name, "smoke", tmp_path)
    assert found is not None
    assert found.complete
    (picture,) = runner.plot(name, "smoke", tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert runner.summary(name, "smoke", tmp_path)


def test_without_a_checkout_it_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "checkout", lambda: None)
    with pytest.raises(ArgumentError, match="run it in a source checkout"):
        tasks.example("keywords")
