"""How should the two stages be trained? Cheap tests at ten epochs in total, on held-out images, before the long runs.

Written down before running (seed 0, VGG-7 at full width, float weights, 45,000 images; 5,000 held out decide):

rate      Halving the weights at decoupling doubles the relative step, growth in training shrinks it. Hypothesis: 1e-3,
          today's rate of fine-tuning, is too small for a short run; 3e-3 or 1e-2 is better.
anneal    Two anneals cost one: the rate falls to zero, then starts again. Hypothesis: a constant rate in the coupled
          stage and one fall over the fine-tuning is better than two cycles.
share     Hypothesis: the coupled network needs fewer epochs than the fine-tuning: 1/3 is better than 1/2 and 2/3.
shifted   The decoupled topology has BN biases of ±1/4, the baseline has zeros. Hypothesis: the baseline gains from
          biases that alternate ±1/4, which would be a gain of the topology and not of coupling.
moments   Fine-tuning begins without Adam's moments. Hypothesis: copying those of the coupled network to both copies of
          each weight makes no difference, because Adam corrects for the missing ones within some ten steps.

The rule that follows: of each test the better value is taken where it is more than 0.3 points ahead (about one standard
deviation of a run at this length), else the simpler one (two cycles, one half, biases of zero). Then the rate of each
way, so that all three are tuned equally hard; duo with one rate for both stages, once one anneal was found to be
better. Planned were three rates for each: 2.5e-3, 5e-3, 1e-2. The baseline was better at 1e-2 than at 5e-3 and better
still at 2e-2, so that the plan became: from 5e-3 on, each way's rate is doubled until the accuracy falls, and the best
is taken. For longer budgets all rates stay what they are here. Share, shifted and moments are tested at the best
rates.

The first four runs are float32. From the fifth on training is in bfloat16 (as autocast does; tests stay in float32),
which takes less than half of the time on CPUs with AMX, and these compare with each other only.

Found beside the accuracies: with copied moments the weights move a third as far in the fine-tuning (|Δw| / |w| of the
third convolution 0.73 instead of 2.25) and the training loss ends lower (0.454 instead of 0.468), at an accuracy within
the margin: the first steps of an Adam without moments are large. So one more run, with a hypothesis of its own: without
these steps duo takes the rate of the others, 2e-2, and gains more than the margin. (With the moments of BN not divided
among the copies, as a first version had it, the two runs gave 83.14 and 82.94 %.)

slower    One rate for both stages is twice as fast for halved weights. With one-bit weights a narrow ResNet gained 3.9
          points from fine-tuning at a quarter of the coupled network's rate (`one_bit_weights`), which was seen after
          `coupling_pays` had been run to 40 epochs with one rate. Hypothesis: with float weights too, fine-tuning at
          half or a quarter of the rate is more than the margin better, and the coupled network then takes the rate of
          the others, 2e-2. With it duo is tuned in two rates where the others have one.
"""

from typing import Any

from matplotlib.figure import Figure

from binaryduo.paper import ways as w
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict
from binaryduo.paper.rates import BEST
from binaryduo.paper.results import key_of

EPOCHS, LR, RATE = 10, 5e-3, 3e-3
VALIDATION = 0.1
MARGIN = 0.3  # points
QUICK = {"precision": "bf16", "test_every": 2}  # the settings of the study itself


SLOWER = ((2e-2, 1e-2), (2e-2, 5e-3), (1e-2, 5e-3))  # rates of the coupled stage and of the fine-tuning


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        small = {"network": "mlp", "width": 0.05, "validation": VALIDATION}
        return [w.unit("baseline", 2, 0, LR, **small), w.unit("duo", 2, 0, LR, question="rate", **small)]
    common = {"validation": VALIDATION}
    duo = {**common, "finetune_lr": RATE}
    first = [  # in float32
        w.unit("duo", EPOCHS, 0, LR, question="rate", **duo),
        w.unit("baseline", EPOCHS, 0, LR, question="rate", **common),
        w.unit("duo", EPOCHS, 0, LR, question="rate", **{**duo, "finetune_lr": 1e-2}),
        w.unit("duo", EPOCHS, 0, LR, question="anneal", **{**duo, "anneals": 1, "finetune_lr": LR}),
    ]
    once: dict[str, Any] = {**common, **QUICK}
    return [
        *first,
        at_rate("baseline", LR, **once),
        at_rate("baseline", 2 * LR, **once),  # the baseline first, so that it is never tuned less than ours
        at_rate("duo", LR, **once),
        at_rate("scratch", LR, **once),
        at_rate("scratch", 2 * LR, **once),
        at_rate("duo", 2 * LR, **once),
        *(at_rate(way, 4 * LR, **once) for way in w.WAYS),
        at_rate("baseline", 8 * LR, **once),
        at_rate("scratch", 8 * LR, **once),
        at_rate("duo", BEST["duo"], question="share", share=1 / 3, **once),
        at_rate("duo", BEST["duo"], question="share", share=2 / 3, **once),
        at_rate("baseline", BEST["baseline"], question="shifted", start="shifted", **once),
        *(at_rate("duo", rate, question="slower", finetune_lr=second, **once) for rate, second in SLOWER),
        *(at_rate("duo", rate, question="moments", moments="copied", **once) for rate in (2 * LR, 4 * LR)),
    ]


def at_rate(way: str, lr: float, question: str = "rate", epochs: int = EPOCHS, **settings: Any) -> Unit:
    """A run at one rate; duo with one anneal over both stages, so that it has one rate as the others."""
    one = {"finetune_lr": lr, "anneals": 1} if way == "duo" else {}
    return w.unit(way, epochs, 0, lr, question=question, **{**one, **settings})


def name_of(row: Row) -> str:
    """What a reader calls a run."""
    text = f"{row['way']}, rate {row['lr']:g}"
    if row["way"] == "duo":
        first = round(row["share"] * row["epochs"])
        text += "" if row["finetune_lr"] == row["lr"] else f", then {row['finetune_lr']:g}"
        text += f", {first} + {row['epochs'] - first} epochs"
        text += ", one anneal" if row["anneals"] == 1 else ""
    text += ", moments copied" if row.get("moments") == "copied" else ""
    text += ", biases ±1/4" if row.get("start") == "shifted" else ""
    return text + ("" if row.get("precision") == "bf16" else ", float32")


def verdicts(rows: list[Row]) -> list[Verdict]:
    """None: these runs choose settings, with one seed, and judge no claim."""
    return []


def numbers(rows: list[Row]) -> str:
    """What each test chooses by the rule above, as far as it was run."""
    first = {"way": "duo", "lr": LR, "share": 0.5, "finetune_lr": RATE, "anneals": 2, "precision": None}
    tuning = {f"{rate:g}": {**first, "finetune_lr": rate} for rate in (RATE, 1e-2)}
    anneals = {"two": tuning["0.01"], "one": {**first, "anneals": 1, "finetune_lr": LR}}
    quick = {"precision": "bf16"}
    one = {"lr": BEST["duo"], "finetune_lr": BEST["duo"]}
    usual = {"way": "duo", **one, "share": 0.5, "moments": None, **quick}
    baseline = {"way": "baseline", "lr": BEST["baseline"], "start": None, **quick}
    shares = {"1/2": usual, "1/3": {**usual, "share": 1 / 3}, "2/3": {**usual, "share": 2 / 3}}
    moments = {"none": usual, "copied": {**usual, "moments": "copied"}}
    moments["copied, at 0.02"] = {**moments["copied"], "lr": 4 * LR, "finetune_lr": 4 * LR}
    biases = {"zero": baseline, "±1/4": {**baseline, "start": "shifted"}}
    slower = {f"{BEST['duo']:g} for both": usual}
    slower |= {f"{lr:g} then {second:g}": {**usual, "lr": lr, "finetune_lr": second} for lr, second in SLOWER}
    parts = [
        _choice(rows, "rate of fine-tuning", tuning, 0.0),
        _choice(rows, "anneals", anneals),
        _choice(rows, "share of the coupled stage", shares),
        _choice(rows, "the baseline's biases", biases),
        _choice(rows, "moments that fine-tuning begins with", moments),
        _choice(rows, "rates of both stages of duo", slower),
    ]
    for way, settings in (("baseline", baseline), ("scratch", {"way": "scratch", **quick}), ("duo", usual)):
        keys = ("lr", "finetune_lr") if way == "duo" else ("lr",)
        rates = {
            f"{rate:g}": {**settings, **dict.fromkeys(keys, rate)} for rate in (LR, 2 * LR, 4 * LR, 8 * LR)
        }
        parts.append(_choice(rows, f"rate of {way}", rates, 0.0))
    return "; ".join(parts) + ". One seed, held-out images."


def _choice(rows: list[Row], question: str, options: dict[str, Unit], margin: float = MARGIN) -> str:
    """The first option is the simple one: another is taken where it is more than the margin ahead."""
    planned = [name for name, wanted in options.items() if any(_is(unit, wanted) for unit in units("hours"))]
    found = {name: row["last"] for name in planned for row in rows if _is(row, options[name])}
    if not found:
        return f"{question}: not run"
    simple = next(iter(options))
    best = max(found, key=lambda name: found[name])
    taken = best if simple not in found or found[best] - found[simple] > margin else simple
    shown = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
    left = len(planned) - len(found)
    return f"{question}: {shown}, so {taken}" + (f" so far ({left} to run)" if left else "")


def _is(row: Row, wanted: Unit) -> bool:
    """Whether a run has these settings; numbers are kept to seven digits."""
    return key_of({key: row.get(key) for key in wanted}) == key_of(wanted)


COLOURS = {"baseline": "#57606a", "scratch": "#9a6700", "duo": "#c2410c"}


def draw(rows: list[Row]) -> dict[str, Figure]:
    """Left: accuracy over the rate of each way; right: the other tests, one below the other."""
    figure = Figure(figsize=(12.5, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.05))
    usual = [row for row in rows if _is(row, {"question": "rate", "precision": "bf16"})]
    for way, colour in COLOURS.items():
        points = sorted((row["lr"], row["last"]) for row in usual if row["way"] == way)
        left.plot([x for x, _ in points], [y for _, y in points], "o-", color=colour, label=way)
        for place in points:
            left.annotate(
                f"{place[1]:.2f}", place, (0, 7), textcoords="offset points", fontsize=8, ha="center"
            )
    rates = sorted({row["lr"] for row in usual})
    left.set_xscale("log")
    left.set_xticks(rates, [f"{rate:g}" for rate in rates])
    left.minorticks_off()
    left.set_xlabel("learning rate (log scale); duo: one anneal over both stages")
    left.set_ylabel("accuracy on 5,000 held-out images (%)")
    left.legend(frameon=False, loc="lower right")
    others = sorted((row for row in rows if row not in usual), key=lambda row: row["last"])
    for height, row in enumerate(others):
        right.plot([row["last"]], [height], "o", color=COLOURS[row["way"]], ms=8)
        value = f"{row['last']:.2f}"
        right.annotate(value, (row["last"], height), (9, -3), textcoords="offset points", fontsize=8)
    right.set_yticks(range(len(others)), [name_of(row) for row in others], fontsize=8.5)
    right.set_ylim(-0.6, len(others) - 0.4)
    right.set_title("other tests, in bfloat16 unless they say float32", fontsize=10, loc="left")
    for axis in (left, right):
        axis.margins(x=0.14, y=0.12)
        axis.grid(axis="x" if axis is right else "both", alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    right.set_xlabel("accuracy on 5,000 held-out images (%)")
    figure.suptitle("After ten epochs in total, seed 0", fontsize=10, x=0.01, ha="left")
    return {"choices.png": figure}


EXPERIMENT = Experiment(
    "coupling_choices",
    "How the two stages should be trained",
    units,
    w.measure,
    verdicts,
    draw,
    profiles=STUDY,
    numbers=numbers,
    estimate=w.estimate,
)
