"""Trials, trained for real: the same numbers as `train`, failures with their reasons, interruptions."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import optuna
import pytest
import torch
from optuna.trial import TrialState

from binaryduo.errors import ArgumentError
from binaryduo.search import coupled_start
from binaryduo.search.cases import parse_case, trial_recipe
from binaryduo.search.collecting import collect
from binaryduo.search.coupled_start import fixed_network
from binaryduo.search.worker import Worker
from binaryduo.search.worker_cache import WorkerCache
from binaryduo.training import checkpoint, evaluate, from_yaml, train
from binaryduo.training.restore import load_run
from tests.search.small import completed, opened, small, work


def test_a_trial_is_the_run_that_train_would_make(tmp_path: Path) -> None:
    """The second trial of a worker too: nothing of the first is left in the network that it reuses."""
    search = small()
    studies = work(search, tmp_path / "search")
    for trial in studies["baseline"].trials:
        recipe = trial_recipe(search.trained_recipe, parse_case("baseline"), trial.params["lr"], 0.01, seed=0)
        alone = train(recipe, tmp_path / f"alone{trial.number}")
        assert trial.user_attrs["result"]["last"] == alone.last
        folder = tmp_path / "search" / trial.user_attrs["result"]["folder"]
        assert from_yaml(folder / "recipe.yaml") == recipe
        model, _, data, _ = load_run(folder)
        assert data.validation is not None
        assert evaluate(model, data.validation).means()["top1"] == trial.value


def test_a_failed_trial_says_why_and_the_rest_goes_on(tmp_path: Path) -> None:
    search = small(lr="0.01,1e30")
    studies = work(search, tmp_path)
    assert completed(studies["baseline"]) == ["wd0.01-lr0.01-r0"]
    results = collect(search, studies)
    (failed,) = [row for row in results["cases"]["baseline"]["trials"] if row["state"] == "failed"]
    assert failed["slot"] == "wd0.01-lr1e+30-r0"
    assert "NonFiniteLoss: the loss is" in failed["reason"]
    assert results["cases"]["baseline"]["best"]["lr"] == 0.01
    work(search, tmp_path)  # what failed for a reason is not tried again by itself
    assert len(studies["baseline"].trials) == 2


def test_a_worker_ends_where_there_is_nothing_to_fine_tune(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match="no trial of coupled was completed, so there is nothing to fine-tune"
    ):
        work(small(cases=("coupled", "decoupled"), lr="1e30"), tmp_path)


def test_of_many_workers_one_makes_the_fixed_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, case, made = small(cases=("decoupled",), coupled="anywhere"), parse_case("decoupled"), []
    storage, studies = opened(search, tmp_path)

    def make(path: Path, *_: object) -> None:
        made.append(path)
        time.sleep(0.2)
        checkpoint.write(path.parent, path.stem, {"weight": torch.ones(1)}, {"from": "a run"})

    monkeypatch.setattr(coupled_start, "_make", make)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: fixed_network(tmp_path, storage, search, case, studies[case.name]), range(3)))
    assert made == [tmp_path / "fixed" / "coupled.json"]


def test_an_interrupted_trial_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its data are read in another way meanwhile."""
    search = small(["train.epochs=3"], lr="0.01")
    storage, studies = opened(search, tmp_path / "one")
    worker = Worker(tmp_path / "one", search, storage)
    asked = iter([False] + [True] * 100)
    monkeypatch.setattr(worker, "stopping", lambda: worker.stopped or next(asked))
    worker.run()
    study = studies["baseline"]
    assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.WAITING]
    assert study.trials[0].user_attrs["interrupted"]
    work(small(["train.epochs=3", "data.workers=1"], lr="0.01"), tmp_path / "one")
    assert from_yaml(tmp_path / "one/trials/baseline/wd0.01-lr0.01-r0/recipe.yaml").data.workers == 1
    whole = work(search, tmp_path / "two")["baseline"]
    assert completed(study) == completed(whole)
    assert study.trials[1].user_attrs["result"]["last"] == whole.trials[0].user_attrs["result"]["last"]


def test_tpe_runs_as_many_trials_as_asked_and_repeats_the_best(tmp_path: Path) -> None:
    search = small(["train.epochs=2"], sampler="tpe", trials=6, repeats=2, lr="1e-4:1e-1")
    study = work(search, tmp_path)["baseline"]
    first = [t for t in study.trials if t.user_attrs["repeat"] == 0]
    assert len(first) == 6
    assert len({t.params["lr"] for t in first}) == 6
    good = sorted((t for t in first if t.state == TrialState.COMPLETE), key=lambda t: -t.value)[:5]  # type: ignore[operator]
    again = [t for t in study.trials if t.user_attrs["repeat"] == 1]
    assert sorted(t.params["lr"] for t in again) == sorted(t.params["lr"] for t in good)
    assert {t.state for t in study.trials} <= {TrialState.COMPLETE, TrialState.PRUNED}


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_poor_trials_are_pruned(tmp_path: Path, pruner: str) -> None:
    search = small(["train.epochs=2"], sampler="tpe", pruner=pruner, trials=1, repeats=1)
    storage, studies = opened(search, tmp_path)
    study = studies["baseline"]
    kinds = {"lr": optuna.distributions.FloatDistribution(0.003, 0.03, log=True)}
    for _ in range(8):  # eight good trials, as far as the pruner knows
        study.add_trial(
            optuna.trial.create_trial(
                value=99.0,
                params={"lr": 0.01},
                distributions=kinds,
                intermediate_values={1: 99.0, 2: 99.0},
                user_attrs={"slot": "known", "repeat": 0},
            )
        )
    Worker(tmp_path, search, storage).run()
    expected = TrialState.PRUNED if pruner == "median" else study.trials[0].state
    assert study.trials[0].state == expected


def test_finetuning_starts_from_one_coupled_network(tmp_path: Path) -> None:
    search = small(cases=("decoupled", "coupled"), finetune_lr="0.001,0.002", repeats=2)
    studies = work(search, tmp_path)
    results = collect(search, studies)
    coupled, decoupled = (results["cases"][name] for name in ("coupled", "decoupled"))
    best = max((t for t in coupled["trials"] if t["lr"] == coupled["best"]["lr"]), key=lambda t: t["value"])
    assert decoupled["fixed"]["from"] == f"coupled {best['slot']}"
    assert decoupled["fixed"]["top1"] == best["last"]["top1"]
    assert len(decoupled["trials"]) == 4
    recipe = trial_recipe(search.trained_recipe, parse_case("decoupled"), 1.0, 1.0, seed=5)
    cache = WorkerCache()
    network = cache.model(recipe, tmp_path / "fixed" / "coupled.json")
    assert evaluate(network, cache.data(recipe).tested).means()["top1"] == pytest.approx(
        best["value"], abs=0.1
    )
