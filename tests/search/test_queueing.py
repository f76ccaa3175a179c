"""The queue: each point once, whoever fills it and however many take from it."""

import threading
from collections import Counter
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from binaryduo.errors import ArgumentError
from binaryduo.search.cases import parse_case
from binaryduo.search.local import open_search
from binaryduo.search.queueing import distributions, fill
from binaryduo.search.spec import Search
from binaryduo.search.storage import NothingWaiting, StorageError, database_url, open_storage, open_study
from tests.search.small import completed, opened, small

BASELINE = parse_case("baseline")


def _run(study: optuna.Study, trials: int = 1) -> None:
    study.optimize(lambda trial: trial.suggest_float("lr", 0.003, 0.03, log=True), n_trials=trials)


def test_filling_again_adds_nothing(tmp_path: Path) -> None:
    search = small(repeats=2)
    _, studies = opened(search, tmp_path)
    assert fill(studies["baseline"], search, BASELINE) == 0
    _run(studies["baseline"], 2)
    assert fill(studies["baseline"], search, BASELINE) == 0
    assert len(studies["baseline"].trials) == 4


def test_an_empty_queue_draws_no_trial_at_random(tmp_path: Path) -> None:
    _, studies = opened(small(), tmp_path)
    _run(studies["baseline"], 2)
    with pytest.raises(NothingWaiting):
        _run(studies["baseline"])
    assert len(studies["baseline"].trials) == 2


def test_each_trial_is_taken_once_by_many(tmp_path: Path) -> None:
    search = small(lr="0.003:0.03:40")
    opened(search, tmp_path)
    url, taken, errors = database_url(tmp_path), Counter[str](), []
    together = threading.Barrier(4)

    def take() -> None:
        storage = open_storage(url, search)
        study = open_study(storage, search, BASELINE)
        together.wait()

        def objective(trial: optuna.Trial) -> float:
            taken[trial.user_attrs["slot"]] += 1
            return 1.0

        try:
            while True:
                study.optimize(objective, n_trials=1)
        except NothingWaiting:
            pass
        except BaseException as error:
            errors.append(error)
        storage.engine.dispose()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(taken) == 40
    assert set(taken.values()) == {1}


def test_a_slot_enqueued_twice_is_completed_once(tmp_path: Path) -> None:
    from tests.search.small import work

    search = small(lr="0.01")
    _, studies = opened(search, tmp_path)
    study = studies["baseline"]
    twin = study.trials[0]
    study.set_user_attr("filled-elsewhere", True)
    study.add_trial(  # as another machine does that fills the queue at the same moment
        create_trial(
            state=TrialState.WAITING,
            params=twin.params,
            distributions=distributions(search, BASELINE),
            user_attrs=twin.user_attrs,
        )
    )
    work(search, tmp_path)
    assert completed(study) == ["wd0.01-lr0.01-r0"]
    assert study.trials[1].user_attrs["dropped"] == "trial 0 has the same slot"


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")  # trials are asked for by hand
@pytest.mark.parametrize("how", ["reason", "interrupted"])
def test_a_samplers_slot_keeps_its_settings(how: str, tmp_path: Path) -> None:
    """The run folder of a trial that failed, or that was stopped before it could wait again, is continued."""
    search = small(sampler="tpe", trials=1, weight_decay="0.001:0.1", lr="0.001:0.1")
    _, studies = opened(search, tmp_path)
    study = studies["baseline"]
    trial = study.ask(distributions(search, BASELINE))
    trial.set_user_attr(how, "because")
    study.tell(trial, state=TrialState.FAIL)
    assert fill(study, search, BASELINE, retry_failed=True) == 1
    again = study.ask(distributions(search, BASELINE))
    assert again.params == trial.params
    assert len(again.params) == 2


def test_another_search_is_refused(tmp_path: Path) -> None:
    opened(small(), tmp_path)
    with pytest.raises(ArgumentError, match="is another search"):
        open_search(small(lr="0.1"), tmp_path, None)
    with pytest.raises(ArgumentError, match="the database holds another search"):
        open_search(small(lr="0.1"), tmp_path / "elsewhere", database_url(tmp_path))
    with pytest.raises(StorageError, match="cannot be opened"):
        open_storage("postgresql://nobody@127.0.0.1:1/nothing", Search())
