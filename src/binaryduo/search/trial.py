"""One trial: take a setting, train it in a run folder of its own, report; and say why when it fails."""

import dataclasses
import os
import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import torch

from binaryduo._common.files import write_synced
from binaryduo._common.locks import Lock
from binaryduo._common.progress import say
from binaryduo._common.stopping import RunInterrupted
from binaryduo.errors import ArgumentError
from binaryduo.search.cases import Case, trial_recipe
from binaryduo.search.queueing import distributions, superseded_by
from binaryduo.search.spec import Search, same_trial
from binaryduo.search.worker_cache import WorkerCache
from binaryduo.training.identity import Identity, decisive
from binaryduo.training.loop import Result, Trainer
from binaryduo.training.recipe import Recipe, from_yaml, to_yaml
from binaryduo.training.records import append_entry
from binaryduo.training.runlog import RunFolder

REPORT_SECONDS = 10.0  # a grid's trial need not tell each epoch; only pruning needs that

Report = Callable[[int, float], None]


class Dropped(Exception):
    """Another trial has this one's slot; nothing was trained."""


class WatchedTrainer(Trainer):
    """The training loop, which tells the search each tested epoch, and stops when the worker was asked to."""

    def __init__(self, *arguments: Any, report: Report, stopping: Callable[[], bool]) -> None:
        super().__init__(*arguments)
        self.report, self.stopping = report, stopping

    def after_epoch(self, epoch: int, final: bool) -> None:
        last = self.state.last
        if last is not None and last["epoch"] == epoch and not final:
            self.report(epoch, last["top1"])
        if self.stopping() and self.stop.asked is None:
            self.stop.asked = "the search"


def reason_of(error: BaseException) -> str:
    """One line for the record.

    >>> reason_of(MemoryError())
    'out of memory: MemoryError'
    """
    text = " ".join(str(error).split())
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in text
    kind = "out of memory" if memory else type(error).__name__
    return f"{kind}: {text or type(error).__name__}"[:500]


def free_folder(wanted: Path) -> Path:
    """The folder, or one beside it while a process that was taken for dead still holds it.

    >>> free_folder(Path("nowhere/wd0.1-lr0.01-r0")).name
    'wd0.1-lr0.01-r0'
    """
    candidate, attempt = wanted, 1
    while Lock(candidate / "lock").taken():
        attempt += 1
        candidate = wanted.with_name(f"{wanted.name}.{attempt}")
    return candidate


class Objective:
    """What Optuna calls with each trial of one case."""

    def __init__(
        self,
        folder: Path,
        search: Search,
        case: Case,
        cache: WorkerCache,
        stopping: Callable[[], bool],
        fixed: Path | None = None,
    ) -> None:
        self.folder, self.search, self.case, self.cache = folder, search, case, cache
        self.stopping, self.fixed = stopping, fixed
        self.training_seconds = 0.0
        self.interrupted: optuna.Trial | None = None

    def __call__(self, trial: optuna.Trial) -> float:
        began = time.perf_counter()
        say(f"{self.case.name} {trial.user_attrs['slot']}: trial {trial.number}")
        other = superseded_by(trial.study, trial)
        if other is not None:
            trial.set_user_attr("dropped", f"trial {other} has the same slot")
            raise Dropped
        try:
            result, run = self._train(trial)
        except RunInterrupted:
            trial.set_user_attr("interrupted", True)
            self.interrupted = trial
            raise
        except optuna.TrialPruned:
            raise
        except optuna.exceptions.UpdateFinishedTrialError as error:
            raise Dropped from error  # taken for dead while it was suspended; another worker has the slot
        except Exception as error:
            trial.set_user_attr("reason", reason_of(error))
            say(f"failed: {reason_of(error)}")
            if reason_of(error).startswith("out of memory"):
                self.cache.forget()
            raise
        assert result.last is not None
        assert result.best is not None
        if not self.search.keep_checkpoints:
            shutil.rmtree(run / "checkpoints", ignore_errors=True)
        note = {
            "best": result.best,
            "last": result.last,
            "train_seconds": round(result.seconds, 3),
            "seconds": round(time.perf_counter() - began, 3),
            "engine": result.engine,
            "folder": run.relative_to(self.folder).as_posix(),
            "host": platform.node(),
        }
        trial.set_user_attr("result", note)
        return (result.last if self.search.metric == "last" else result.best)["top1"]

    def _train(self, trial: optuna.Trial) -> tuple[Result, Path]:
        kinds: dict[str, Any] = distributions(self.search, self.case)
        weight_decay, lr = (
            trial.suggest_float(name, kinds[name].low, kinds[name].high, log=True)
            for name in ("weight_decay", "lr")
        )
        seed = self.search.seed + trial.user_attrs["repeat"]
        path = free_folder(self.folder / "trials" / self.case.folder / trial.user_attrs["slot"])
        recipe = self._settled(
            trial_recipe(self.search.trained_recipe, self.case, lr, weight_decay, seed), path
        )
        fabric = self.cache.fabric(recipe.loop)
        data, model = self.cache.data(recipe), self.cache.model(recipe, self.fixed)
        with RunFolder(path, resume=True, verb="trial") as run:
            self._describe(run, recipe)
            trainer = WatchedTrainer(
                model,
                data.train,
                data.tested,
                recipe.train,
                recipe.loop,
                run.path,
                fabric,
                self.case.name,
                Identity("trial", int(self.case.finetunes), decisive(recipe, "trial")),
                report=self._reporter(trial),
                stopping=self.stopping,
            )
            began = time.perf_counter()
            try:
                result = trainer.run()
            finally:
                self.training_seconds += time.perf_counter() - began
            self.cache.engine = result.engine
            summary = {"recipe": recipe.name, **dataclasses.asdict(result)}
            run.write_json("summary.json", summary)
        return result, path

    def _describe(self, run: RunFolder, recipe: Recipe) -> None:
        """The trial's recipe and where it runs; the machine is looked at once a worker, not once a trial."""
        write_synced(run.path / "recipe.yaml", to_yaml(recipe).encode())
        append_entry(run.path / "environment.json", {**self.cache.environment(), "seed": recipe.loop.seed})

    def _settled(self, recipe: Recipe, path: Path) -> Recipe:
        """The recipe with the engine that this worker found fastest, or as a run to be continued has it."""
        kept, engine = path / "recipe.yaml", recipe.loop.engine
        if kept.exists():
            before = from_yaml(kept)
            if not same_trial(before, recipe):
                raise ArgumentError(f"{kept} is another recipe than this trial's: use another folder")
            engine = before.loop.engine
        elif engine == "auto" and self.cache.engine is not None:
            engine = self.cache.engine  # type: ignore[assignment]
        return dataclasses.replace(recipe, loop=dataclasses.replace(recipe.loop, engine=engine))

    def _reporter(self, trial: optuna.Trial) -> Report:
        """Tells Optuna an epoch's accuracy, and ends the trial where the pruner says so."""
        prunes = self.search.sampler == "tpe"
        told = time.monotonic()

        def report(epoch: int, top1: float) -> None:
            nonlocal told
            if not prunes and time.monotonic() - told < REPORT_SECONDS:
                return
            told = time.monotonic()
            trial.report(top1, epoch)
            if prunes and trial.should_prune():
                raise optuna.TrialPruned(f"epoch {epoch}: {top1:.2f} %")

        return report


def worker_name() -> str:
    """This process, as the log files and the live table call it."""
    return f"{platform.node()}-{os.getpid()}"
