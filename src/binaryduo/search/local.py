"""A search on this machine: fill the queue, start the workers, show how far they are, write what they found.

Further machines run the same command with the same --storage URL: each does exactly this.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from rich.live import Live

from binaryduo._common.files import write_synced
from binaryduo._common.locks import alone
from binaryduo._common.progress import console, say
from binaryduo._common.stopping import StopRequest
from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.search.collecting import collect
from binaryduo.search.coupled_start import check_coupled
from binaryduo.search.dashboard import start_dashboard
from binaryduo.search.outcome import write_outcome
from binaryduo.search.queueing import fill
from binaryduo.search.spec import Search, check, identity, search_from_yaml, search_to_yaml
from binaryduo.search.storage import QueueStorage, database_url, open_storage, open_study
from binaryduo.search.tables import live_table, progress_line, totals
from binaryduo.search.worker import STORAGE_VARIABLE

REFRESH_SECONDS = 2.0
SAVING_SECONDS = 120.0  # how long workers may take to save when the search is stopped


class SearchStopped(BinaryDuoError):
    """The search was asked to stop; the same command continues it."""


def shares(workers: int | None, threads: int | None, cores: int, gpus: int = 0) -> tuple[int, int]:
    """(workers, threads each): one single-threaded worker a core unless said otherwise, or one a GPU.

    >>> shares(None, None, cores=8), shares(2, None, cores=8), shares(None, None, cores=16, gpus=4)
    ((8, 1), (2, 4), (4, 4))
    """
    if workers is None:
        workers = gpus if gpus else max(1, cores // (threads or 1))
    if workers < 1 or (threads is not None and threads < 1):
        raise ArgumentError(f"--workers {workers} and --threads {threads} must be 1 or more")
    return workers, max(1, cores // workers) if threads is None else threads


def open_search(
    search: Search, folder: Path, url: str | None
) -> tuple[QueueStorage, dict[str, optuna.Study]]:
    """The folder and the database of a search, new or to be continued; another search's are refused."""
    check(search)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"{folder} cannot be a search's folder: {error.strerror}") from None
    kept = folder / "search.yaml"
    if kept.exists() and identity(search_from_yaml(kept)) != identity(search):
        raise ArgumentError(
            f"{kept} is another search: continue it with --resume --out {folder} alone, or use another folder"
        )
    write_synced(kept, search_to_yaml(search).encode())
    storage = open_storage(database_url(folder) if url is None else url, search)
    studies = {}
    for case in search.parsed_cases():
        study = open_study(storage, search, case, create=True)
        if study.user_attrs.get("search", identity(search)) != identity(search):
            raise ArgumentError(
                f"the database holds another search named {search.name!r}: use the same settings, or another --name"
            )
        study.set_user_attr("search", identity(search))
        studies[case.name] = study
    return storage, studies


def run_search(
    search: Search,
    folder: "str | Path",
    url: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    dashboard: int | None = None,
    retry_failed: bool = False,
) -> dict[str, Any]:
    """Run a search, or what is left of it, and return its results; they are written to the folder as well."""
    folder = Path(folder)
    check_coupled(search, folder)
    storage, studies = open_search(search, folder, url)
    for case in search.parsed_cases():
        fill(studies[case.name], search, case, retry_failed)
    cores, gpus = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        _gpus(),
    )
    count, each = shares(workers, threads, cores, gpus)
    owed = totals(collect(search, studies))
    say(
        f"{folder}: {owed.waiting + owed.running} of {owed.total} trainings to do, by "
        f"{count} worker{'s' if count > 1 else ''} with {each} thread{'s' if each > 1 else ''} each"
    )
    team = Team(folder, database_url(folder) if url is None else url, count, each, gpus)
    if dashboard is not None:
        server, address = start_dashboard(team.url, dashboard, folder / "workers" / "dashboard.log")
        say(f"optuna-dashboard: {address}")
    try:
        with StopRequest(hand_on=False) as stopping:
            team.start()
            _watch(team, search, studies, stopping)
    finally:
        team.stop()
        if dashboard is not None:
            server.terminate()
            server.wait()
        results = conclude(search, studies, folder)
        storage.engine.dispose()
    if stopping.asked:
        raise SearchStopped(f"stopped; {progress_line(results, count)}; the same command continues it")
    return results


def conclude(search: Search, studies: dict[str, optuna.Study], folder: Path) -> dict[str, Any]:
    """Collect the results and write them; of machines that share the folder, one after the other."""
    with alone(folder / "results.lock"):
        results = collect(search, studies)
        write_outcome(results, folder)
    return results


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _watch(team: "Team", search: Search, studies: dict[str, optuna.Study], stopping: StopRequest) -> None:
    """Show the search until its workers have ended."""
    began = shown = time.monotonic()
    line = ""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while team.alive() and not stopping.asked:
            looked = time.monotonic()
            results = collect(search, studies)
            team.replace_dead(
                sum(row["state"] == "complete" for c in results["cases"].values() for row in c["trials"])
            )
            if console.is_terminal:
                live.update(live_table(results, team.count, began), refresh=True)
            elif time.monotonic() - shown > 60:
                shown = time.monotonic()
                before, line = line, progress_line(results, team.count)
                if line != before:
                    say(line)
            # Looking takes at most a fiftieth of the time, however long the queue is.
            team.wait(max(REFRESH_SECONDS, 50 * (time.monotonic() - looked)))


@dataclass
class Team:
    """The worker processes of this machine; one that dies is replaced, and the heartbeat frees its trial."""

    folder: Path
    url: str
    count: int
    threads: int
    gpus: int = 0
    processes: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    deaths: int = 0
    done_at_death: int = -1

    def start(self) -> None:
        (self.folder / "workers").mkdir(parents=True, exist_ok=True)
        for index in range(self.count):
            self._start_one(index)

    def environment(self, index: int) -> dict[str, str]:
        """The variables of one worker: its threads, and its GPU where there are several."""
        own = {STORAGE_VARIABLE: self.url}
        own |= dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(self.threads)
        )
        if self.gpus > 1 and "CUDA_VISIBLE_DEVICES" not in os.environ:
            own["CUDA_VISIBLE_DEVICES"] = str(index % self.gpus)
        return {**os.environ, **own}

    def _start_one(self, index: int) -> None:
        command = [sys.executable, "-m", "binaryduo.search.worker", str(self.folder)]
        with self.log(index).open("ab") as log:
            self.processes[index] = subprocess.Popen(
                [*command, "--worker", str(index), "--threads", str(self.threads)],
                env=self.environment(index),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches this process, which tells its workers
            )

    def log(self, index: int) -> Path:
        return self.folder / "workers" / f"worker-{index}.log"

    def alive(self) -> bool:
        """Whether any worker runs or has ended badly."""
        return any(process.poll() != 0 for process in self.processes.values())

    def replace_dead(self, done: int) -> None:
        """Start a new worker for each that was killed; give up when they die without finishing anything."""
        for index, process in self.processes.items():
            code = process.poll()
            if code is None or code == 0:
                continue
            if code == 2:
                raise BinaryDuoError(f"worker {index} stopped: {self._last_words(index)}")
            self.deaths = 1 if done != self.done_at_death else self.deaths + 1
            self.done_at_death = done
            if self.deaths > 3 * self.count:
                raise BinaryDuoError(
                    f"the workers keep ending (exit code {code}); see {self.log(index)}: "
                    f"{self._last_words(index)}"
                )
            say(f"worker {index} ended with code {code}; another one takes its place")
            self._start_one(index)

    def _last_words(self, index: int) -> str:
        lines = self.log(index).read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("binaryduo: ") if lines else "its log is empty"

    def wait(self, seconds: float) -> None:
        """Until that time has passed or all workers have ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(p.poll() is None for p in self.processes.values()):
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask every worker to save and end, and wait for it."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        self.wait(SAVING_SECONDS)
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
