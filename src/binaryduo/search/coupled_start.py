"""The one coupled network that every fine-tuning trial of a search starts from.

It is the network of the run named with --coupled, else of the best run of the coupled case's best setting.
It is copied into the search's folder, and its checksum is kept in the database: a machine that has another
is refused.
"""

from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from binaryduo._common.locks import alone
from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.search.cases import Case, network_recipe, parse_case
from binaryduo.search.results import best_setting
from binaryduo.search.spec import Search
from binaryduo.search.storage import QueueStorage, open_study
from binaryduo.training import checkpoint
from binaryduo.training.duo import build_model, load_data
from binaryduo.training.evaluation import evaluate
from binaryduo.training.restore import load_run
from binaryduo.training.sources import run_folder


def fixed_path(folder: Path, case: Case) -> Path:
    """Where a search's folder keeps the network that a case is fine-tuned from."""
    return folder / "fixed" / f"{parse_case(case.coupled_name).folder}.json"


def check_coupled(search: Search, folder: Path) -> None:
    """Refuse a --coupled run that is not there, unless its network was copied already."""
    for case in search.parsed_cases():
        if case.finetunes and search.coupled is not None and not fixed_path(folder, case).exists():
            run_folder(search.coupled)


def fixed_network(
    folder: Path, storage: QueueStorage, search: Search, case: Case, study: optuna.Study
) -> Path:
    """The path of the fixed coupled network's checkpoint, made by the first who needs it."""
    path = fixed_path(folder, case)
    with alone(path.with_suffix(".lock")):
        if not path.exists():
            _make(path, folder, storage, search, case)
    kept = checkpoint.read(path)
    mine = {"sha256": _weights_digest(kept), **kept.state}
    known: dict[str, Any] | None = study.user_attrs.get("fixed")
    if known is None:
        study.set_user_attr("fixed", mine)
    elif known["sha256"] != mine["sha256"]:
        raise CheckpointError(
            f"{path} is not the coupled network that this search fine-tunes (that of {known['from']}): "
            "put the search's folder where every machine sees it, or give each the same --coupled run"
        )
    return path


def _weights_digest(kept: checkpoint.Checkpoint) -> str:
    import hashlib

    digest = hashlib.sha256()
    for name in sorted(kept.tensors):
        digest.update(name.encode())
        digest.update(kept.tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _make(path: Path, folder: Path, storage: QueueStorage, search: Search, case: Case) -> None:
    run, origin = _source(folder, storage, search, case)
    recipe = network_recipe(search.trained_recipe, parse_case(case.coupled_name))
    data = load_data(recipe)
    model = build_model(recipe, data)
    which = search.recipe.loop.decouple_from
    trained, _, _, _ = load_run(run, which)
    tensors = checkpoint.pack_state(trained)
    checkpoint.unpack_state(tensors, model, None, str(run))  # refuses another network by name
    means = evaluate(model, data.tested, search.recipe.loop.test_batch).means()
    state = {"from": origin, "which": which, "top1": means["top1"]}
    checkpoint.write(path.parent, path.stem, tensors, state)


def _source(folder: Path, storage: QueueStorage, search: Search, case: Case) -> tuple[Path, str]:
    """The run to take the coupled network from, and how to name it."""
    if search.coupled is not None:
        return Path(search.coupled), f"the run {Path(search.coupled).name}"
    coupled = parse_case(case.coupled_name)
    trials = open_study(storage, search, coupled).get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    rows = [
        {
            "lr": t.params["lr"],
            "weight_decay": t.params["weight_decay"],
            "value": t.value,
            "state": "complete",
        }
        for t in trials
    ]
    best = best_setting(rows)
    if best is None:
        raise ArgumentError(f"no trial of {coupled.name} was completed, so there is nothing to fine-tune")
    own = [t for t in trials if all(t.params[key] == best[key] for key in ("lr", "weight_decay"))]
    chosen = max(own, key=lambda t: (t.value, -t.number))
    run = folder / chosen.user_attrs["result"]["folder"]
    if not run.is_dir():
        raise ArgumentError(
            f"the best coupled network is in {run}, on the machine {chosen.user_attrs['result']['host']}: "
            "put the search's folder where every machine sees it, or name a run with --coupled"
        )
    return run, f"{coupled.name} {chosen.user_attrs['slot']}"
