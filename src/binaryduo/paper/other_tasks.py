"""Other tasks: does the scheme help with speech and with detection, as the paper's conclusion hopes?

Claim (the paper's outlook, without numbers): "the scheme may help speech recognition and object detection". Ours:
results/other_tasks, two small tasks that are made here (`tasks`): ten words spoken by espeak-ng in noise, tested on
speakers that nobody trained with; and scenes of one garment among snippets of others, with a class and a box to find.
Written down before running: networks with one-bit weights, three ways at eight epochs in total each, the settings of
each way chosen with equal effort on held-out training data (`other_tasks_choices`), eight seeds that chose nothing,
judged on the accuracy (keywords) and on the share of scenes with the right class and a box that overlaps by half
(detector) after the last epoch. A claim holds by the rule of `judging`, paired over seeds. These networks have tens of
thousands of weights: what is found is about such networks.
"""

from itertools import product
from typing import Any

from matplotlib.figure import Figure

from binaryduo.paper import tasks as t
from binaryduo.paper.accuracies import EQUAL, shown
from binaryduo.paper.coupling_pays import COLOURS, NAMES
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict
from binaryduo.paper.judging import difference

SEEDS = range(1, 9)
ENOUGH = 5  # seeds of each way: below, nothing is judged
# What other_tasks_choices has chosen: a test compares them, and the settings of the examples.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("keywords", "baseline"): {"lr": 1e-2, "hold": True},
    ("keywords", "scratch"): {"lr": 1e-2, "hold": True},
    ("keywords", "duo"): {"lr": 3e-2, "finetune": 1.0},
    ("detector", "baseline"): {"lr": 1e-2, "hold": True},
    ("detector", "scratch"): {"lr": 3e-3, "hold": True},
    ("detector", "duo"): {"lr": 1e-2, "finetune": 1 / 3},
}
CLAIMS = (
    ("duo beats the binary baseline", "duo", "baseline"),
    ("duo beats its own topology from scratch", "duo", "scratch"),
    ("the decoupled topology from scratch beats the baseline", "scratch", "baseline"),
)


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        small: dict[str, Any] = {"epochs": 2, "small": True}
        return [_unit("detector", way, seed, **small) for seed, way in product((1, 2), t.WAYS)]
    return [_unit(task, way, seed) for seed, task, way in product(SEEDS, t.TASKS, t.WAYS)]


def _unit(task: str, way: str, seed: int, **more: Any) -> Unit:
    return t.unit(task, way, seed, held_out=False, **SETTINGS[task, way], **more)


def by_seed(rows: list[Row], task: str, way: str, metric: str | None = None) -> dict[int, float]:
    """What a way reached, by seed."""
    name = t.METRIC[task] if metric is None else metric
    return {row["seed"]: row[name] for row in rows if (row["task"], row["way"]) == (task, way)}


def verdicts(rows: list[Row]) -> list[Verdict]:
    """Each claim of each task, as far as enough seeds were run."""
    out = []
    for task, (claim, high, low) in product(t.TASKS, CLAIMS):
        first, second = by_seed(rows, task, high), by_seed(rows, task, low)
        common = sorted(first.keys() & second.keys())
        if len(common) < ENOUGH:
            continue
        found = difference({s: first[s] for s in common}, {s: second[s] for s in common})
        epochs = next(row["epochs"] for row in rows if row["task"] == task)
        out.append(
            Verdict(
                f"{claim} ({task})",
                f"{EQUAL}, {epochs} each; {t.SETTINGS_OF[task]}",
                found.verdict,
                f"difference in points, {len(common)} seeds: {found.shown()}",
                f"{task}: {high} − {low} {found.shown()} points",
            )
        )
    return out


def numbers(rows: list[Row]) -> str:
    """Every mean of every metric."""
    parts = []
    for task in t.TASKS:
        for metric in t.METRICS[task]:
            ways = []
            for way in t.WAYS:
                own = [row for row in rows if (row["task"], row["way"]) == (task, way)]
                if own:
                    ways.append(f"{way} {shown(own, metric)}")
            if ways:
                parts.append(f"{task}, {t.METRICS[task][metric]}: {', '.join(ways)}")
    return "; ".join(parts)


def draw(rows: list[Row]) -> dict[str, Figure]:
    """A line for each seed through the three ways, and their means."""
    tasks = [task for task in t.TASKS if any(row["task"] == task for row in rows)]
    figure = Figure(figsize=(4.9 * len(tasks), 4.2), layout="constrained")
    for axis, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        found = {way: by_seed(rows, task, way) for way in t.WAYS}
        for seed in sorted(set().union(*found.values())):
            places = [place for place, way in enumerate(t.WAYS) if seed in found[way]]
            axis.plot(
                places, [found[t.WAYS[p]][seed] for p in places], "-", color="#8c959f", lw=0.8, alpha=0.6
            )
        for place, way in enumerate(t.WAYS):
            values = list(found[way].values())
            if not values:
                continue
            mean = sum(values) / len(values)
            axis.plot([place] * len(values), values, "o", color=COLOURS[way], ms=6, alpha=0.7)
            axis.plot([place - 0.2, place + 0.2], [mean, mean], color=COLOURS[way], lw=2.5)
            axis.annotate(f"{mean:.2f}", (place + 0.24, mean), va="center", fontsize=9, color=COLOURS[way])
        axis.set_xticks(range(len(t.WAYS)), [NAMES[way].replace(", ", ",\n") for way in t.WAYS], fontsize=8.5)
        axis.set_xlim(-0.4, len(t.WAYS) - 0.4)
        axis.set_ylabel(t.WORDS[task])
        axis.set_title(f"{task}: a dot per seed, lines join equal seeds", fontsize=10)
        axis.grid(axis="y", alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return {"other_tasks.png": figure}


EXPERIMENT = Experiment(
    "other_tasks",
    "Other tasks: keyword spotting and a detector",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=STUDY,
    numbers=numbers,
    judges_parts=True,
)
