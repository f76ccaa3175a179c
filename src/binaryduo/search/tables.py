"""A search as a person watches it, and its results as tables."""

import time
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from binaryduo.search.results import ranked

Row = dict[str, Any]


@dataclass(frozen=True)
class Totals:
    """How far a search is, over all its cases."""

    done: int
    failed: int
    running: int
    waiting: int
    mean_seconds: float | None

    @property
    def total(self) -> int:
        return self.done + self.failed + self.running + self.waiting

    def eta(self, workers: int) -> float | None:
        """Seconds that are left: what waits, and half of each that runs, at the mean time of a trial so far.

        >>> Totals(done=4, failed=0, running=2, waiting=5, mean_seconds=10.0).eta(workers=2)
        30.0
        """
        if self.mean_seconds is None:
            return None
        return (self.waiting + 0.5 * self.running) * self.mean_seconds / max(1, self.running, workers)


def totals(results: dict[str, Any]) -> Totals:
    """Count the trials of all cases."""
    rows = [row for case in results["cases"].values() for row in case["trials"]]
    states = [row["state"] for row in rows]
    seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
    return Totals(
        states.count("complete") + states.count("pruned"),
        states.count("failed"),
        states.count("running"),
        states.count("waiting"),
        sum(seconds) / len(seconds) if seconds else None,
    )


def duration(seconds: float | None) -> str:
    """Hours, minutes, seconds.

    >>> duration(3723), duration(None)
    ('1:02:03', '?')
    """
    if seconds is None:
        return "?"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"


def accuracy(setting: Row) -> str:
    """Mean ± deviation and how many runs.

    >>> accuracy({"mean": 81.0, "std": 1.414, "n": 2})
    '81.00 ± 1.41 (n = 2)'
    """
    spread = "" if setting["std"] is None else f" ± {setting['std']:.2f}"
    return f"{setting['mean']:.2f}{spread} (n = {setting['n']})"


def progress_line(results: dict[str, Any], workers: int) -> str:
    """How far the search is, in one line."""
    now = totals(results)
    best = [
        f"{name} {accuracy(top[0])}"
        for name, case in results["cases"].items()
        if (top := ranked(case["settings"], 1))
    ]
    failed = f", {now.failed} failed" if now.failed else ""
    left = duration(now.eta(workers))
    text = f"{now.done} of {now.total} trials done{failed}, {now.running} running, ETA {left}"
    return "; best: ".join([text, ", ".join(best)]) if best else text


def live_table(results: dict[str, Any], workers: int, began: float) -> Group:
    """Done, running and waiting of each case, the best five of each, and the time that is left."""
    now = totals(results)
    table = Table("case", "done", "running", "waiting", "failed", "best so far")
    for name, case in results["cases"].items():
        states = [row["state"] for row in case["trials"]]
        finished = states.count("complete") + states.count("pruned")
        top = ranked(case["settings"], 1)
        table.add_row(
            name,
            f"{finished} of {len(states)}",
            *(str(states.count(state)) for state in ("running", "waiting", "failed")),
            accuracy(top[0]) if top else "",
        )
    passed = time.monotonic() - began
    head = Text(f"{duration(passed)} passed, about {duration(now.eta(workers))} left, {workers} workers")
    return Group(head, table, best_table(results))


def best_table(results: dict[str, Any]) -> Table:
    """The five best settings of every case."""
    table = Table("case", "place", "weight decay", "learning rate", "top-1 (%)")
    for name, case in results["cases"].items():
        for place, setting in enumerate(ranked(case["settings"])):
            table.add_row(
                name if place == 0 else "",
                str(place + 1),
                f"{setting['weight_decay']:.6g}",
                f"{setting['lr']:.6g}",
                accuracy(setting),
            )
    return table


def markdown(results: dict[str, Any]) -> str:
    """Every setting of every case with its mean ± deviation, and every failure with its reason."""
    lines = [f"# Search {results['search']['name']}", ""]
    for name, case in results["cases"].items():
        lines += [f"## {name}: {case['title']}", ""]
        if case["fixed"] is not None:
            lines += [
                f"Fine-tuned from {case['fixed']['from']}, {case['fixed']['top1']:.2f} % by itself.",
                "",
            ]
        lines += ["| weight decay | learning rate | top-1 (%) |", "| --- | --- | --- |"]
        for setting in case["settings"]:
            value = "failed" if setting["mean"] is None else accuracy(setting)
            value += (
                f", {setting['failed']} failed" if setting["failed"] and setting["mean"] is not None else ""
            )
            lines.append(f"| {setting['weight_decay']:.6g} | {setting['lr']:.6g} | {value} |")
        failed = [row for row in case["trials"] if row["state"] == "failed"]
        lines += ["", *(f"- {row['slot']} failed: {row['reason']}" for row in failed)]
        lines += [""] if failed else []
    return "\n".join(lines)
