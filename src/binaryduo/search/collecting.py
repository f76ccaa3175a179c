"""From Optuna's studies to the JSON of a search: one row for each slot, whatever became of its trials."""

from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from binaryduo.search.queueing import LIVE, accounts
from binaryduo.search.results import FORMAT, Row, ranked, settings_of
from binaryduo.search.spec import Search, identity


def rows_of(trials: list[FrozenTrial], search: Search) -> list[Row]:
    """One row for each slot: its completed or pruned trial, else its last failure, else that it is not finished."""
    rows = []
    for name, account in accounts(trials).items():
        own = (account.done or account.failed or account.died or account.live)[-1:]
        if account.live and not account.done:
            own = account.live[:1]
        if not own:
            continue
        trial = own[0]
        result = trial.user_attrs.get("result", {})
        state = _state(trial)
        rows.append(
            {
                "slot": name,
                "trial": trial.number,
                "weight_decay": trial.params.get("weight_decay"),
                "lr": trial.params.get("lr"),
                "repeat": trial.user_attrs["repeat"],
                "seed": search.seed + trial.user_attrs["repeat"],
                "state": state,
                "value": trial.value if state in ("complete", "pruned") else None,
                "best": result.get("best"),
                "last": result.get("last"),
                "seconds": result.get("seconds"),
                "train_seconds": result.get("train_seconds"),
                "reason": _reason(trial, len(account.died)) if state == "failed" else None,
                "died_before": len(account.died) if state != "failed" else None,
                "engine": result.get("engine"),
                "folder": result.get("folder"),
            }
        )
    return sorted(rows, key=lambda row: str(row["slot"]))


def _state(trial: FrozenTrial) -> str:
    if trial.state in LIVE:
        return trial.state.name.lower()
    return {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}.get(trial.state, "failed")


def _reason(trial: FrozenTrial, died: int) -> str:
    return str(trial.user_attrs.get("reason") or f"its worker died without a word, {died} times")


def collect(search: Search, studies: dict[str, optuna.Study]) -> dict[str, Any]:
    """The whole search as JSON takes it."""
    cases = {}
    for case in search.parsed_cases():
        rows = rows_of(studies[case.name].get_trials(deepcopy=False), search)
        settings = settings_of(rows)
        decay, lr = search.axes(case)
        cases[case.name] = {
            "title": case.title,
            "levels": case.trained_levels,
            "stage": "finetune" if case.finetunes else "train",
            "axes": {"weight_decay": list(decay.values), "lr": list(lr.values)},
            "fixed": studies[case.name].user_attrs.get("fixed"),
            "best": next(iter(ranked(settings, 1)), None),
            "settings": settings,
            "trials": rows,
        }
    return {"format": FORMAT, "search": identity(search), "cases": cases}
