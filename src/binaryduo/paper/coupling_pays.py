"""When does coupling pay? VGG-7 on CIFAR-10 at full width, three ways, from 10 to 200 epochs, with spread.

The question that a user has: at which budget does which way win, and by how much? Ways (`ways`): the binary baseline;
the decoupled topology from scratch; duo, which is coupled, decoupled and fine-tuned. Float weights, all 50,000 images,
batches of 256, trained in bfloat16 (as autocast does) and tested in float32 on the 10,000 test images; nothing is
chosen by these runs.

Units in this order, so that wherever it stops the result is worth most: 10 epochs in total with five seeds; 40 with
one; duo at 40 and the others at 20 with three, which is the paper's comparison (20 + 20 epochs against 20); the rest
of 40 with three seeds; then the paper's own schedule, 100 + 100 epochs with step drops against 100, one seed.

Six runs of ten epochs with one rate for all, 5e-3, are kept beside the results (`before_tuning.json`) and judge nothing
any more: they put duo 3.3 points above the baseline, most of which was the baseline's rate.

Eight runs of duo with one rate for both stages, 1e-2, are kept there too (`one_rate.json`): five of ten epochs (83.25 %
in the mean) and three of 40 (87.17 %). They were the study's until `coupling_choices` found, on held-out images, that
fine-tuning wants half of the coupled stage's rate; every test image had been looked at by then, but nothing was chosen
on them.

Claim of the paper: after 200 epochs (duo: 200 + 200) and the best of a grid, duo reaches 90.44 %, the baseline 89.07 %,
scratch 88.93 %. The sentences for every outcome are in `coupling_outcomes`, written before the results. With the
paper's own schedule all five comparisons of Figure 6, right, are judged, the coupled network (89.69 %) among them; this
too was written while those runs were going on.
"""

from collections import Counter
from itertools import pairwise, product
from statistics import mean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from binaryduo.paper import coupling_choices
from binaryduo.paper import ways as w
from binaryduo.paper.accuracies import EQUAL, PAPERS, shown
from binaryduo.paper.coupling_outcomes import (
    accuracies,
    comparisons,
    minutes_sentence,
    of_kind,
    papers_sentence,
    pooled,
    sentence,
)
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict
from binaryduo.paper.judging import Interval
from binaryduo.paper.rates import BEST, FINETUNE
from binaryduo.paper.results import key_of
from binaryduo.paper_values import CIFAR10

LR = BEST  # chosen on held-out images, each way's rate doubled until the accuracy fell
SHARE, ANNEALS = 0.5, 1
QUICK = coupling_choices.QUICK

# Seconds of a training step of 256 images, `binaryduo bench train`; a run's own clock says how busy the machine was.
STEP_SECONDS = {"baseline": 0.152, "coupled": 0.106, "decoupled": 0.155}
MACHINE = "two idle cores of an AMD EPYC (Zen 5)"

NETWORK = "vgg7 at full width on cifar10"
COLOURS = coupling_choices.COLOURS
INK = "#1b1f24"
BESIDE = {"baseline": 0.98, "scratch": 1.0, "duo": 1.02}  # equal epochs are drawn side by side
# The paper's numbers.
CASES = {"baseline": "baseline", "scratch": "scratch", "duo": "decoupled", "coupled": "coupled"}
SIDES = {"baseline": "baseline", "scratch": "from scratch", "duo": "duo", "coupled": "coupled"}
NAMES = {
    "baseline": "binary baseline",
    "scratch": "decoupled topology, from scratch",
    "duo": "duo, both stages",
}


def unit(way: str, epochs: int, seed: int, **settings: object) -> Unit:
    """A run of the study, with the settings chosen for its way."""
    anneals = 2 if "schedule" in settings else ANNEALS  # the paper anneals each stage by itself
    duo = {"finetune_lr": FINETUNE, "share": SHARE, "anneals": anneals} if way == "duo" else {}
    return w.unit(way, epochs, seed, LR[way], **duo, **QUICK, **settings)


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        return [unit(way, 2, 0, network="mlp", width=0.05) for way in w.WAYS]
    single = ("baseline", "scratch")
    return [
        *(unit(way, 10, seed) for seed, way in product(range(5), w.WAYS)),
        *(unit(way, 40, 0) for way in w.WAYS),
        *(unit("duo", 40, seed) for seed in (1, 2)),
        *(unit(way, 20, seed) for way, seed in product(single, range(3))),
        *(unit(way, 40, seed) for seed, way in product((1, 2), single)),
        *(unit(way, 200 if way == "duo" else 100, 0, schedule="step") for way in w.WAYS),
    ]


def missing(rows: list[Row]) -> str:
    """What of the study is still to be run, in words; empty if nothing is."""
    planned = units("hours")
    keys = set().union(*planned)
    done = {key_of({key: row[key] for key in keys if key in row}) for row in rows}
    left = Counter(
        ("with the paper's schedule" if "schedule" in work else f"of {work['epochs']} epochs")
        for work in planned
        if key_of(work) not in done
    )
    return ", ".join(f"{count} run{'' if count == 1 else 's'} {what}" for what, count in left.items())


def _planned(epochs: int) -> int:
    return sum(work["way"] == "baseline" and work["epochs"] == epochs for work in units("hours"))


def verdicts(rows: list[Row]) -> list[Verdict]:
    """At equal epochs and as the paper compares; only of budgets that have all their seeds."""
    out = []
    for found in comparisons(rows):
        planned = _planned(found.epochs)
        if not planned or min(len(accuracies(rows, way, found.epochs)) for way in w.WAYS) < planned:
            continue
        setting = f"{EQUAL}, {found.epochs} each; {NETWORK}"
        claims = (
            ("duo beats the binary baseline", "duo", "baseline", found.over_baseline),
            ("duo beats its own topology from scratch", "duo", "scratch", found.over_scratch),
            ("the decoupled topology from scratch beats the baseline", "scratch", "baseline", found.topology),
        )
        out += [_verdict(claim, setting, high, low, interval) for claim, high, low, interval in claims]
    return out + _papers_verdicts(rows, 20) + _papers_verdicts(rows, 100, "step")


def _papers_verdicts(rows: list[Row], epochs: int, schedule: str | None = None) -> list[Verdict]:
    """Figure 6 at E + E epochs against E, each claim once both of its sides have all their seeds.

    What the paper claims of the coupled network by itself is judged with its step schedule only: with one anneal over
    both stages its rate has not fallen yet when it is decoupled.
    """
    found = {way: accuracies(rows, way, 2 * epochs if way == "duo" else epochs, schedule) for way in w.WAYS}
    each, against = f"{epochs} epochs each", f"{epochs} + {epochs} epochs against {epochs}"
    claims = [
        ("duo beats the binary baseline", against, "duo", "baseline"),
        ("the decoupled topology from scratch is below the baseline", each, "baseline", "scratch"),
        ("duo beats its own topology from scratch", against, "duo", "scratch"),
    ]
    more = ""
    if schedule is not None:
        scatter = ": how much runs scatter is known from the other lengths" if pooled(rows).df else ""
        more = f", with its step schedule, one seed{scatter}"
        found["coupled"] = [row["coupled"]["last"] for row in of_kind(rows, "duo", 2 * epochs, schedule)]
        claims += [
            (
                "the coupled ternary network, half the weights, beats the baseline",
                each,
                "coupled",
                "baseline",
            ),
            ("fine-tuned, the binary network beats its coupled one", against, "duo", "coupled"),
        ]
    return [
        _verdict(
            claim,
            f"{PAPERS}, {setting}{more}; {NETWORK}",
            high,
            low,
            pooled(rows).difference(found[high], found[low]),
            f"{CIFAR10[CASES[high]] - CIFAR10[CASES[low]]:+.2f}",
        )
        for claim, setting, high, low in claims
        if min(len(found[high]), len(found[low])) >= _planned(epochs)
    ]


def _verdict(claim: str, setting: str, high: str, low: str, found: Interval, printed: str = "") -> Verdict:
    evidence = f"difference in points: {found.shown()}"
    number = f"{SIDES[high]} − {SIDES[low]}: {found.shown()} points"
    return Verdict(claim, setting, found.verdict, evidence, number, printed)


def numbers(rows: list[Row]) -> str:
    """The answer so far, the paper's comparisons, every mean, and what is missing."""
    equal = minutes_sentence(rows, lambda way, epochs: _at(way, epochs, STEP_SECONDS))
    parts = [sentence(rows), equal, papers_sentence(rows, 20), papers_sentence(rows, 100, "step")]
    kinds = dict.fromkeys((row["epochs"], row["way"], row.get("schedule")) for row in rows)
    means = [
        f"{epochs} epochs{'' if schedule is None else ', step schedule'}, {way} {shown(some)}"
        for epochs, way, schedule in kinds
        if (
            some := [r for r in rows if (r["epochs"], r["way"], r.get("schedule")) == (epochs, way, schedule)]
        )
    ]
    parts.append("After the last epoch: " + "; ".join(means) + ".")
    if left := missing(rows):
        parts.append(f"Still missing: {left}.")
    return " ".join(part for part in parts if part is not None)


def draw(rows: list[Row]) -> dict[str, Figure]:
    figure = Figure(figsize=(12, 5.0), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, rows, {})
    _panel(right, rows, STEP_SECONDS)
    left.set_ylabel("test accuracy after the last epoch (%)")
    left.set_xlabel("epochs in total, both stages of duo added")
    right.set_xlabel(f"minutes of training on {MACHINE}")
    signs = [Line2D([], [], marker="o", color=COLOURS[way], label=NAMES[way]) for way in w.WAYS]
    signs.append(
        Line2D([], [], marker="D", ls="", mfc="none", mec=INK, label="the paper, best epoch of its grid")
    )
    if any(row.get("schedule") == "step" for row in rows):
        signs.append(
            Line2D([], [], marker="s", ls="", color=INK, label="the paper's step schedule, one seed")
        )
    figure.legend(handles=signs, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    left_over = missing(rows)
    notes = "Mean and standard deviation over seeds, each seed a dot; minutes are epochs × the idle step time"
    dotted = "; dotted: not trained at the budget in between"
    lines = [notes + dotted, *([f"still missing: {left_over}"] if left_over else [])]
    figure.suptitle("\n".join(lines), fontsize=9.5, x=0.01, ha="left")
    return {"coupling_pays.png": figure}


def _panel(axes: Axes, rows: list[Row], step: dict[str, float]) -> None:
    """Accuracy over epochs, or over minutes where the seconds of a step are given."""
    budgets = {row["epochs"] for row in rows if row.get("schedule") is None}
    for way in w.WAYS:
        colour = COLOURS[way]
        places = sorted({r["epochs"] for r in rows if r["way"] == way and r.get("schedule") is None})
        values = [accuracies(rows, way, epochs) for epochs in places]
        xs = [_at(way, epochs, step) * (1.0 if step else BESIDE[way]) for epochs in places]
        spread = [stdev(some) if len(some) > 1 else 0.0 for some in values]
        means = [mean(some) for some in values]
        axes.errorbar(xs, means, spread, fmt="o", color=colour, capsize=4)
        for first, second in pairwise(
            range(len(places))
        ):  # dotted over a budget that this way was not trained for
            passed = any(places[first] < epochs < places[second] for epochs in budgets)
            style = {"ls": ":", "lw": 1.0} if passed else {"ls": "-", "lw": 1.5}
            axes.plot(xs[first : second + 1], means[first : second + 1], color=colour, **style)  # type: ignore[arg-type]
        for x, some in zip(xs, values, strict=True):
            axes.plot([x] * len(some), some, ".", color=colour, alpha=0.5, ms=5)
        for epochs in {r["epochs"] for r in rows if r["way"] == way and r.get("schedule") == "step"}:
            found = accuracies(rows, way, epochs, "step")
            axes.plot([_at(way, epochs, step)] * len(found), found, "s", ms=7, color=colour)
        case, length = CASES[way], 400 if way == "duo" else 200
        at = _at(way, length, step)
        axes.plot(at, CIFAR10[case], "D", ms=8, mfc="none", mec=colour)
        offset, side = {
            "baseline": ((-9, 3), "right"),
            "scratch": ((9, -10), "left"),
            "duo": ((0, 9), "center"),
        }[way]
        text = {"textcoords": "offset points", "fontsize": 8, "color": colour, "ha": side}
        axes.annotate(f"{CIFAR10[case]:.2f}", (at, CIFAR10[case]), offset, **text)  # type: ignore[arg-type]
    axes.set_xscale("log")
    ticks = [5, 10, 20, 40, 80, 160] if step else [10, 20, 40, 100, 200, 400]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.margins(x=0.08, y=0.12)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _at(way: str, epochs: int, step: dict[str, float]) -> float:
    return w.seconds_of(unit(way, epochs, 0), step) / 60 if step else float(epochs)


EXPERIMENT = Experiment(
    "coupling_pays",
    "When does coupling pay? Three ways from 10 to 200 epochs",
    units,
    w.measure,
    verdicts,
    draw,
    profiles=STUDY,
    numbers=numbers,
    estimate=w.estimate,
    judges_parts=True,
)
