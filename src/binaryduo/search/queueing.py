"""Which trainings a search still owes. Anyone may fill the queue, at any time, any number of times.

Each training is a slot with a name; a trial carries its slot's name. At most one trial of a slot is
completed: the lowest-numbered one that has not failed is the slot's own, any other is dropped by whoever
takes it. So two machines that fill the queue at the same moment do no harm.
"""

import uuid
import warnings
from collections import defaultdict
from dataclasses import dataclass, field

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from binaryduo.search.cases import Case
from binaryduo.search.space import Slot, grid_slots
from binaryduo.search.spec import Search

REPEATED = 5  # settings of a sampler's search that are trained again with the other seeds
FILLED = "filled-"  # one attribute of the study for each time that someone has filled the queue
LIVE = (TrialState.WAITING, TrialState.RUNNING)
DONE = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass
class Account:
    """The trials of one slot, by what became of them."""

    live: list[FrozenTrial] = field(default_factory=list)
    done: list[FrozenTrial] = field(default_factory=list)
    failed: list[FrozenTrial] = field(default_factory=list)  # with a reason: it would fail again
    died: list[FrozenTrial] = field(default_factory=list)  # with their worker
    drawn: dict[str, float] = field(default_factory=dict)  # its first settings, which its run folder holds


def accounts(trials: list[FrozenTrial]) -> dict[str, Account]:
    """The trials of a study by slot; those that were dropped or interrupted count for nothing."""
    found: dict[str, Account] = defaultdict(Account)
    for trial in trials:
        account = found[trial.user_attrs["slot"]]
        if not account.drawn and {"weight_decay", "lr"} <= trial.params.keys():
            account.drawn = trial.params
        if trial.state in LIVE:
            account.live.append(trial)
        elif trial.state in DONE:
            account.done.append(trial)
        elif "reason" in trial.user_attrs:
            account.failed.append(trial)
        elif not {"dropped", "interrupted"} & set(trial.user_attrs):
            account.died.append(trial)
    return found


def distributions(search: Search, case: Case) -> dict[str, BaseDistribution]:
    """The two settings as Optuna's, both logarithmic."""
    decay, lr = search.axes(case)
    return {
        "weight_decay": FloatDistribution(decay.low, decay.high, log=True),
        "lr": FloatDistribution(lr.low, lr.high, log=True),
    }


def slots(search: Search, case: Case, trials: list[FrozenTrial]) -> list[Slot]:
    """All that is owed: the grid; or a sampler's places, and when they are done repeats of its best five."""
    if search.sampler == "grid":
        return grid_slots(*search.axes(case), search.repeats)
    first = [Slot(f"t{number:04d}-r0", 0) for number in range(search.trials)]
    known = accounts(trials)
    if not all(_settled(known[slot.name], search) for slot in first if slot.name in known):
        return first
    if any(slot.name not in known for slot in first):
        return first
    complete = [t for t in trials if t.state == TrialState.COMPLETE and t.user_attrs["repeat"] == 0]
    best = sorted(complete, key=lambda t: -t.value)[:REPEATED]  # type: ignore[operator]
    return first + [
        Slot(f"{t.user_attrs['slot'][:-1]}{repeat}", repeat, t.params["lr"], t.params["weight_decay"])
        for repeat in range(1, search.repeats)
        for t in best
    ]


def most_trainings(search: Search, case: Case) -> int:
    """How many trainings a case takes at most, before any of them has begun.

    >>> from binaryduo.search.cases import parse_case
    >>> most_trainings(Search(), parse_case("baseline"))  # the paper's 13 × 10 grid, twice
    260
    """
    more = REPEATED * (search.repeats - 1) if search.sampler == "tpe" else 0
    return len(slots(search, case, [])) + more


def _settled(account: Account, search: Search) -> bool:
    finished = account.done or account.failed or len(account.died) > search.retries
    return bool(finished) and not account.live


def fill(study: optuna.Study, search: Search, case: Case, retry_failed: bool = False) -> int:
    """Enqueue what is owed and neither waits, runs nor is finished; returns how many trials that were."""
    trials = study.get_trials(deepcopy=False)
    known, kinds = accounts(trials), distributions(search, case)
    added = 0
    for slot in slots(search, case, trials):
        account = known.get(slot.name, Account())
        if account.live or account.done or (account.failed and not retry_failed):
            continue
        if len(account.died) > search.retries and not retry_failed:
            continue
        if not added:  # noted before the first is added, so that whoever takes a twin knows to look for it
            study.set_user_attr(f"{FILLED}{uuid.uuid4().hex}", True)
        params = account.drawn if slot.lr is None else {"weight_decay": slot.weight_decay, "lr": slot.lr}
        study.add_trial(
            create_trial(
                state=TrialState.WAITING,
                params=params,
                distributions={name: kinds[name] for name in params},
                user_attrs={"slot": slot.name, "repeat": slot.repeat},
            )
        )
        added += 1
    return added


def superseded_by(study: optuna.Study, trial: optuna.Trial) -> int | None:
    """The number of another trial that has this one's slot, if this one is not the slot's own."""
    if sum(key.startswith(FILLED) for key in study.user_attrs) < 2:
        return None  # the queue was filled once: no slot is in it twice, and reading it all takes time
    slot = trial.user_attrs["slot"]
    for other in study.get_trials(deepcopy=False, states=(*LIVE, *DONE)):
        same = other.user_attrs["slot"] == slot and other.number != trial.number
        if same and (other.number < trial.number or other.state in DONE):
            return other.number
    return None


def enqueue_again(study: optuna.Study, trial: optuna.Trial) -> None:
    """A trial that was interrupted waits again, with the setting it had."""
    study.add_trial(
        create_trial(
            state=TrialState.WAITING,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={key: trial.user_attrs[key] for key in ("slot", "repeat")},
        )
    )


def fail_stale(study: optuna.Study) -> None:
    """Trials whose worker has fallen silent are given back to the queue."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)


def is_over(study: optuna.Study) -> bool:
    """Whether no trial of the study waits or runs."""
    return not study.get_trials(deepcopy=False, states=LIVE)
