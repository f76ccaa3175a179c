"""With which settings should each way be trained on the tasks beyond images? Chosen on held-out training data.

Written down before running: AdamW, batches of 64, no decay, seed 0. Each of the three ways gets the same effort, eight
trainings: four rates, and of each two schedules. Of one stage: a cosine over all epochs, or a constant rate for the
first half and the cosine in the second. Of duo, whose coupled stage is half of the epochs at a constant rate: a cosine
from the same rate in fine-tuning, or from a third of it. Speakers (every fourth) and garments (2,000 that nothing else
is trained with) are held out of the training data; the test sets are not looked at. The rule: of each way the setting
with the best metric after the last epoch is taken, whatever its margin. `other_tasks` then trains with it, on other
seeds.
"""

from itertools import product

from matplotlib.figure import Figure

from binaryduo.paper import tasks as t
from binaryduo.paper.coupling_pays import COLOURS, NAMES
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict

RATES = (1e-3, 3e-3, 1e-2, 3e-2)
HOLDS, SHARES = (False, True), (1.0, 1 / 3)


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        return [t.unit("detector", way, 0, 1e-2, True, epochs=2, small=True) for way in t.WAYS]
    return [
        t.unit(task, way, 0, lr, True, **second)
        for task, lr, which, way in product(t.TASKS, RATES, (0, 1), t.WAYS)
        for second in [{"finetune": SHARES[which]} if way == "duo" else {"hold": HOLDS[which]}]
    ]


def best_of(rows: list[Row], task: str, way: str) -> Row | None:
    """The training with the best metric; the first of several equal ones."""
    found = [row for row in rows if (row["task"], row["way"]) == (task, way)]
    return max(found, key=lambda row: row[t.METRIC[task]], default=None)


def schedule_of(row: Row) -> str:
    """What a reader calls the second setting.

    >>> schedule_of({"way": "duo", "finetune": 1 / 3}), schedule_of({"way": "scratch", "hold": True})
    ('fine-tuned from a third of it', 'held for half')
    """
    if row["way"] == "duo":
        return "fine-tuned from the same" if row["finetune"] == 1 else "fine-tuned from a third of it"
    return "held for half" if row["hold"] else "cosine"


def verdicts(rows: list[Row]) -> list[Verdict]:
    """None: these runs choose settings, with one seed, and judge no claim."""
    return []


def numbers(rows: list[Row]) -> str:
    parts = []
    for task, way in product(t.TASKS, t.WAYS):
        best = best_of(rows, task, way)
        if best is not None:
            value = best[t.METRIC[task]]
            parts.append(f"{task}, {way}: rate {best['lr']:g}, {schedule_of(best)} ({value:.2f} %)")
    return f"Best on held-out data: {'; '.join(parts)}. One seed, eight settings for each way."


def draw(rows: list[Row]) -> dict[str, Figure]:
    """The metric over the rate, a line for each way and schedule."""
    shown = [task for task in t.TASKS if any(row["task"] == task for row in rows)]
    figure = Figure(figsize=(5.2 * len(shown), 4.6), layout="constrained")
    for axis, task in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        own = [row for row in rows if row["task"] == task]
        for way, schedule in dict.fromkeys((row["way"], schedule_of(row)) for row in own):
            some = [row for row in own if (row["way"], schedule_of(row)) == (way, schedule)]
            some.sort(key=lambda row: row["lr"])
            simple = schedule in ("cosine", "fine-tuned from the same")
            axis.plot(
                [row["lr"] for row in some],
                [row[t.METRIC[task]] for row in some],
                "o-" if simple else "s--",
                color=COLOURS[way],
                label=f"{NAMES[way]}: {schedule}",
            )
        axis.set_xscale("log")
        axis.set_xlabel("rate")
        axis.set_ylabel(t.WORDS[task])
        axis.set_title(f"{task}: held-out training data, seed 0", fontsize=10)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return {"choices.png": figure}


EXPERIMENT = Experiment(
    "other_tasks_choices",
    "Settings for the tasks beyond images",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=STUDY,
    numbers=numbers,
)
