"""What a search costs beside its trainings, and how workers should share the cores.

Claims: the search's own overhead is below 2 % of the training time on trials of a few seconds; on a CPU two workers
with one thread each finish sooner than one worker with two. Trials: VGG-7 at an eighth of its width, two epochs of the
embedded images.
"""

import dataclasses
import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

from binaryduo._common.files import write_synced
from binaryduo.paper.experiment import Records, Workspace
from binaryduo.search import Search
from binaryduo.search.results import overhead
from binaryduo.training import named, with_settings

SEARCH = Search(
    name="overhead",
    weight_decay="1e-3:1e-1:3",
    lr="1e-3:1e-2:2",
    repeats=1,
    recipe=with_settings(
        named("demo"),
        ["model.width=0.125", "model.weight_bits=32", "train.epochs=2", "loop.engine=eager"],
    ),
)


def measure(workers: int, threads: int) -> dict[str, Any]:
    """Wall-clock time from the first trial's start to the last one's end, and what was not training."""
    from binaryduo.search.local import Team, open_search
    from binaryduo.search.queueing import fill
    from binaryduo.search.storage import database_url

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        storage, studies = open_search(SEARCH, folder, None)
        study = studies["baseline"]
        fill(study, SEARCH, SEARCH.parsed_cases()[0])
        team = Team(folder, database_url(folder), workers, threads)
        team.start()
        while any(process.poll() is None for process in team.processes.values()):
            team.wait(1.0)
        trials = study.get_trials(deepcopy=False)
        starts = [t.datetime_start for t in trials if t.datetime_start is not None]
        ends = [t.datetime_complete for t in trials if t.datetime_complete is not None]
        storage.engine.dispose()
        return {
            "workers": workers,
            "threads": threads,
            "trials": len(ends),
            "seconds": round((max(ends) - min(starts)).total_seconds(), 2),
            "load_before": os.getloadavg()[0],
            "overhead": overhead(folder),
        }


def run(results: Path, place: Workspace, minutes: float | None) -> bool:
    """About a minute on two idle cores."""
    rows = [measure(2, 1), measure(1, 2), measure(1, 1)]
    found = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "search": dataclasses.asdict(SEARCH),
        "rows": rows,
    }
    results.mkdir(parents=True, exist_ok=True)
    write_synced(results / "results.json", (json.dumps(found, indent=1) + "\n").encode())
    return True


def collect(results: Path) -> list[str]:
    """One sentence for each way to share the cores."""
    return [
        f"{row['workers']} workers × {row['threads']} threads: {row['trials']} trials in {row['seconds']} s; "
        f"overhead {row['overhead']['overhead_percent']} % with the first trials, "
        f"{row['overhead']['later_percent']} % after them"
        for row in json.loads((results / "results.json").read_text())["rows"]
    ]


RECORDS = Records("search_overhead", "What a search costs beside its trainings", run, collect, None)
