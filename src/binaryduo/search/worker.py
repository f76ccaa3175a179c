"""A worker: takes one trial after the other until the search is finished or it is asked to stop.

    python -m binaryduo.search.worker FOLDER --worker 0 --threads 1

`binaryduo search` starts these processes; the database's URL comes in the environment, so that no password is
seen in the list of processes.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import optuna

from binaryduo._common.progress import say
from binaryduo.errors import BinaryDuoError
from binaryduo.search.cases import Case
from binaryduo.search.coupled_start import fixed_network
from binaryduo.search.queueing import enqueue_again, fail_stale, fill, is_over
from binaryduo.search.spec import Search, search_from_yaml
from binaryduo.search.storage import NothingWaiting, QueueStorage, database_url, open_storage, open_study
from binaryduo.search.trial import Objective, worker_name
from binaryduo.search.worker_cache import WorkerCache

STORAGE_VARIABLE = "BINARYDUO_STORAGE"
POLL_SECONDS = 1.0


class Worker:
    """Takes trials of the cases in their order; waits while others still run, in case one of them dies."""

    def __init__(self, folder: Path, search: Search, storage: QueueStorage, index: int = 0) -> None:
        self.folder, self.search, self.storage, self.index = folder, search, storage, index
        self.cases = search.parsed_cases()
        self.over: set[str] = set()
        self.cache = WorkerCache()
        self._studies: dict[str, optuna.Study] = {}
        self._objectives: dict[str, Objective] = {}
        self.stopped = False
        self.parent = os.getppid()
        self.trials = 0
        self.training_seconds = self.busy_seconds = self.start_seconds = 0.0

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        self.stopped = True

    def stopping(self) -> bool:
        return self.stopped or os.getppid() != self.parent

    def run(self) -> None:
        """Until nothing is left, or until asked to stop."""
        while not self.stopping():
            if all(case.name in self.over for case in self.cases):
                return
            if not any(self._take(case) for case in self.cases if self._may_start(case)):
                time.sleep(POLL_SECONDS)

    def _may_start(self, case: Case) -> bool:
        """Fine-tuning begins when the coupled network is chosen, and so when its search is over."""
        names = {other.name for other in self.cases}
        waits_for = case.coupled_name if case.finetunes and self.search.coupled is None else None
        return case.name not in self.over and (waits_for not in names or waits_for in self.over)

    def _take(self, case: Case) -> bool:
        """Run one trial of the case; False where none waits."""
        study = self._study(case)
        began = time.perf_counter()
        objective = self._objective(case, study)
        try:
            study.optimize(objective, n_trials=1, catch=(Exception,))
        except NothingWaiting:
            fail_stale(study)
            if is_over(study) and not fill(study, self.search, case):
                self.over.add(case.name)
            return False
        except (ValueError, optuna.exceptions.UpdateFinishedTrialError) as error:
            say(f"a trial was finished elsewhere while it ran here; its result is not used ({error})")
        if objective.interrupted is not None:
            enqueue_again(study, objective.interrupted)
            self.stopped = True
        self._note(objective, time.perf_counter() - began)
        return True

    def _study(self, case: Case) -> optuna.Study:
        if case.name not in self._studies:
            self._studies[case.name] = open_study(self.storage, self.search, case, self.index)
        return self._studies[case.name]

    def _objective(self, case: Case, study: optuna.Study) -> Objective:
        if case.name not in self._objectives:
            fixed = None
            if case.finetunes:
                fixed = fixed_network(self.folder, self.storage, self.search, case, study)
            self._objectives[case.name] = Objective(
                self.folder, self.search, case, self.cache, self.stopping, fixed
            )
        return self._objectives[case.name]

    def _note(self, objective: Objective, seconds: float) -> None:
        """How much of this worker's time was training: the search's own cost is what is left."""
        if self.trials == 0:  # reads the data and builds the network
            self.start_seconds = seconds - objective.training_seconds
        self.trials += 1
        self.busy_seconds += seconds
        self.training_seconds += objective.training_seconds
        objective.training_seconds = 0.0
        note = {
            "trials": self.trials,
            "busy_seconds": round(self.busy_seconds, 3),
            "training_seconds": round(self.training_seconds, 3),
            "start_seconds": round(self.start_seconds, 3),
        }
        path = self.folder / "workers" / f"{worker_name()}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(note) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Entry point of a worker process."""
    parser = argparse.ArgumentParser(description="A worker of binaryduo search.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--worker", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)

    import torch

    torch.set_num_threads(given.threads)
    search = search_from_yaml(given.folder / "search.yaml")
    url = os.environ.get(STORAGE_VARIABLE) or database_url(given.folder)
    try:
        worker = Worker(given.folder, search, open_storage(url, search), given.worker)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, worker.stop)
        worker.run()
    except BinaryDuoError as error:
        say(f"binaryduo: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
