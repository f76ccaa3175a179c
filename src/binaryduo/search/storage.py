"""The queue of a search, in a database that Optuna keeps: SQLite in the folder, or any URL for many machines.

Optuna gives studies, states, samplers, heartbeats, and the queue itself (trials that WAIT). What is added:
only trials that were enqueued are run; a trial has a heartbeat before it is RUNNING, so that a worker
killed at any moment is noticed; and SQLite transactions begin IMMEDIATE, since two processes that read a
trial as WAITING at the same time would both take it (SQLite knows no SELECT … FOR UPDATE).
"""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.search.cases import Case
from binaryduo.search.spec import Search

DATABASE = "search.db"


class NothingWaiting(Exception):
    """No trial waits to be run: all are finished, or running elsewhere."""


class StorageError(BinaryDuoError):
    """The database of a search cannot be opened."""


class QueueStorage(RDBStorage):
    """Optuna's storage, but a trial exists only where someone has enqueued it."""

    def _create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> FrozenTrial:
        if template_trial is None:  # Study.ask found nothing that waits, and would have one drawn at random
            raise NothingWaiting
        return super()._create_new_trial(study_id, template_trial)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        if state == TrialState.RUNNING:
            self.record_heartbeat(trial_id)
        return super().set_trial_state_values(trial_id, state, values)


def database_url(folder: Path) -> str:
    """SQLite in the search's own folder."""
    return f"sqlite:///{(folder / DATABASE).absolute()}"


def with_driver(url: str) -> str:
    """The URL with the PostgreSQL driver that is installed: SQLAlchemy's own choice changes with its version.

    >>> with_driver("sqlite:///a.db"), with_driver("postgresql+psycopg://host/name")
    ('sqlite:///a.db', 'postgresql+psycopg://host/name')
    """
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres"):
        return url
    driver = next((name for name in ("psycopg2", "psycopg") if find_spec(name) is not None), "psycopg2")
    return f"postgresql+{driver}://{rest}"


def open_storage(url: str, search: Search) -> QueueStorage:
    """The database at that URL, made where it does not exist yet."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = with_driver(url)
    sqlite = url.startswith("sqlite")
    kwargs: dict[str, Any] = {"connect_args": {"timeout": 120}} if sqlite else {"pool_pre_ping": True}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            storage = QueueStorage(
                url,
                engine_kwargs=kwargs,
                heartbeat_interval=search.heartbeat,
                grace_period=search.grace,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=search.retries),
            )
    except (SQLAlchemyError, ImportError, ValueError) as error:
        advice = (
            "it is damaged, or its folder cannot be written; its trials lie in the search's folder: move "
            f"{DATABASE} away, and the same command begins anew"
            if sqlite
            else "--storage takes a URL such as postgresql://user:password@host/name, whose server runs and whose "
            "database exists"
        )
        raise StorageError(
            f"the database of the search cannot be opened ({_first_line(error)}): {advice}"
        ) from error
    if sqlite:
        _begin_immediately(storage)
    return storage


def _begin_immediately(storage: QueueStorage) -> None:
    engine = storage.engine
    engine.dispose()  # connections made before these rules

    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy, not the driver, says BEGIN
        # A write-ahead log: a commit need not wait for the disk. A power cut can lose the last ones, and
        # then their trials are run again; it cannot damage the database.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def make_sampler(search: Search, worker: int = 0) -> optuna.samplers.BaseSampler:
    """TPE, which counts running trials as poor so that workers spread out; a grid leaves nothing to draw."""
    if search.sampler == "grid":
        return optuna.samplers.RandomSampler(seed=search.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            n_startup_trials=min(10, max(3, search.trials // 4)),
            multivariate=True,
            constant_liar=True,
            seed=search.seed + 1000 * worker,
        )


def make_pruner(search: Search) -> optuna.pruners.BasePruner:
    """What stops a poor trial early; a grid runs every point to its end."""
    if search.sampler == "grid" or search.pruner == "none":
        return optuna.pruners.NopPruner()
    if search.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner()
    return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1)


def open_study(
    storage: QueueStorage, search: Search, case: Case, worker: int = 0, create: bool = False
) -> optuna.Study:
    """The study of one case, named NAME/CASE in the database."""
    name = f"{search.name}/{case.name}"
    if create:
        optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
    try:
        return optuna.load_study(
            study_name=name,
            storage=storage,
            sampler=make_sampler(search, worker),
            pruner=make_pruner(search),
        )
    except KeyError:
        raise ArgumentError(f"the database has no search {name!r}: start the search first") from None
