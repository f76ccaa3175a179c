"""Does coupling pay with one-bit weights too? VGG-7 on CIFAR-10, baseline and duo, 20 epochs in total.

The paper's Table 2 is about networks whose weights are one bit as well (on ImageNet, which is too large for these
machines); nothing of that was trained here before. Written down before running: first the rate of each way, as in
`coupling_choices` (ten epochs, seed 0, 5,000 held-out images; from 5e-3 on doubled until the accuracy falls; duo with
one anneal over its two stages), then the runs that judge: all 50,000 images, batches of 256, trained in bfloat16 and
tested in float32 on the 10,000 test images; seed by seed. The claim holds where duo is ahead at equal epochs by the
rule of `judging`, paired over seeds. A first run of duo at 5e-3, before any tuning, has 84.30 % after the last epoch
(`before_tuning.json`); it is the shipped network vgg7-cifar10-duo-w1 and judges nothing.
"""

from itertools import product
from typing import Any

from matplotlib.figure import Figure

from binaryduo.paper import ways as w
from binaryduo.paper.accuracies import EQUAL, both
from binaryduo.paper.coupling_choices import QUICK, VALIDATION
from binaryduo.paper.coupling_pays import COLOURS, NAMES
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict
from binaryduo.paper.judging import difference

EPOCHS, SEEDS = 20, 3
WAYS = ("duo", "baseline")
RATES, TUNING_EPOCHS = (5e-3, 1e-2, 2e-2, 4e-2), 10
LR = {"duo": 1e-2, "baseline": 2e-2}  # those of float weights, until the tests of the rate are complete


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        return [_unit(way, 2, 0, LR[way], network="mlp", width=0.05) for way in WAYS]
    held_out = {"validation": VALIDATION, "question": "rate"}
    return [
        *(_unit(way, TUNING_EPOCHS, 0, rate, **held_out) for rate, way in product(RATES, WAYS)),
        *(_unit(way, EPOCHS, seed, LR[way]) for seed, way in product(range(SEEDS), WAYS)),
    ]


def _unit(way: str, epochs: int, seed: int, lr: float, **settings: object) -> Unit:
    one = {"anneals": 1} if way == "duo" else {}
    return w.unit(way, epochs, seed, lr, **{"weight_bits": 1, **QUICK, **one, **settings})


def runs(rows: list[Row], way: str) -> list[Row]:
    """The runs of a way that judge: not those that only chose its rate."""
    return [row for row in rows if row["way"] == way and "question" not in row]


def by_rate(rows: list[Row], way: str) -> dict[float, float]:
    """The accuracies on held-out images of a way, by rate."""
    return {row["lr"]: row["last"] for row in rows if row["way"] == way and "question" in row}


def by_seed(rows: list[Row], way: str) -> dict[int, float]:
    """The accuracies after the last epoch of a way."""
    return {row["seed"]: row["last"] for row in runs(rows, way)}


def verdicts(rows: list[Row]) -> list[Verdict]:
    ours, baseline = by_seed(rows, "duo"), by_seed(rows, "baseline")
    if not ours or not baseline:
        return []
    found = difference(ours, baseline)
    setting = f"{EQUAL}, {EPOCHS} each; vgg7 at full width on cifar10, one-bit weights"
    claim = "duo beats the binary baseline with one-bit weights"
    return [Verdict(claim, setting, found.verdict, f"difference in points: {found.shown()}")]


def numbers(rows: list[Row]) -> str:
    """Every mean, the tests of the rate, and how many runs are missing."""
    means = [f"{NAMES[way]}: {both(some)}" for way in WAYS if (some := runs(rows, way))]
    tests = [
        f"{NAMES[way]} " + ", ".join(f"{rate:g}: {last:.2f}" for rate, last in sorted(found.items()))
        for way in WAYS
        if (found := by_rate(rows, way))
    ]
    parts = [f"One-bit weights, {EPOCHS} epochs in total: {'; '.join(means)}."] if means else []
    parts += [f"Rates, on held-out images after {TUNING_EPOCHS} epochs: {'; '.join(tests)}."] if tests else []
    left = len(WAYS) * SEEDS - sum(len(runs(rows, way)) for way in WAYS)
    parts += [f"{left} runs of {EPOCHS} epochs are missing."] if left else []
    return " ".join(parts)


def draw(rows: list[Row]) -> dict[str, Figure]:
    """Left: accuracy over the rate of each way, on held-out images; right: the runs that judge."""
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "ha": "center"}
    for way in WAYS:
        points = sorted(by_rate(rows, way).items())
        left.plot([x for x, _ in points], [y for _, y in points], "o-", color=COLOURS[way], label=NAMES[way])
        for place in points:
            left.annotate(f"{place[1]:.2f}", place, (0, 7), color=COLOURS[way], **text)
    left.set_xscale("log")
    left.set_xticks(RATES, [f"{rate:g}" for rate in RATES])
    left.minorticks_off()
    left.set_xlabel(f"learning rate (log scale); {TUNING_EPOCHS} epochs, seed 0")
    left.set_ylabel("accuracy on 5,000 held-out images (%)")
    left.legend(frameon=False, fontsize=9)
    for height, way in enumerate(reversed(WAYS)):
        found = list(by_seed(rows, way).values())
        right.plot(found, [height] * len(found), "o", color=COLOURS[way], ms=8, alpha=0.7)
        for value in found:
            right.annotate(f"{value:.2f}", (value, height), (0, 9), **text)
    right.set_yticks(range(len(WAYS)), [NAMES[way] for way in reversed(WAYS)])
    right.set_ylim(-0.5, len(WAYS) - 0.3)
    right.set_xlabel(f"test accuracy after {EPOCHS} epochs in total (%); a dot per seed")
    for axis in (left, right):
        axis.margins(x=0.15, y=0.15)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("VGG-7 with one-bit weights on CIFAR-10", fontsize=10, x=0.01, ha="left")
    return {"one_bit_weights.png": figure}


EXPERIMENT = Experiment(
    "one_bit_weights",
    "Does coupling pay with one-bit weights?",
    units,
    w.measure,
    verdicts,
    draw,
    profiles=STUDY,
    numbers=numbers,
    estimate=w.estimate,
)
