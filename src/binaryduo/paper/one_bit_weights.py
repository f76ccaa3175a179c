"""Does coupling pay with one-bit weights too? VGG-7 on CIFAR-10, baseline and duo, 20 epochs in total.

The paper's Table 2 is about networks whose weights are one bit as well (on ImageNet, which is too large for these
machines); nothing of that was trained here before. Written down before running: both ways have the rate of the study
with float weights (5e-3, one anneal over duo's two stages), tuned for neither; all 50,000 images, batches of 256,
trained in bfloat16 and tested in float32 on the 10,000 test images; seed by seed. The claim holds where duo is ahead at
equal epochs by the rule of `judging`, paired over seeds.
"""

from itertools import product

from matplotlib.figure import Figure

from binaryduo.paper import ways as w
from binaryduo.paper.accuracies import EQUAL, both
from binaryduo.paper.coupling_choices import QUICK
from binaryduo.paper.coupling_pays import COLOURS, NAMES
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict
from binaryduo.paper.judging import difference

EPOCHS, LR, SEEDS = 20, 5e-3, 3
WAYS = ("duo", "baseline")


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        return [_unit(way, 2, 0, network="mlp", width=0.05) for way in WAYS]
    return [_unit(way, EPOCHS, seed) for seed, way in product(range(SEEDS), WAYS)]


def _unit(way: str, epochs: int, seed: int, **settings: object) -> Unit:
    one = {"anneals": 1} if way == "duo" else {}
    return w.unit(way, epochs, seed, LR, **{"weight_bits": 1, **QUICK, **one, **settings})


def by_seed(rows: list[Row], way: str) -> dict[int, float]:
    """The accuracies after the last epoch of a way."""
    return {row["seed"]: row["last"] for row in rows if row["way"] == way}


def verdicts(rows: list[Row]) -> list[Verdict]:
    ours, baseline = by_seed(rows, "duo"), by_seed(rows, "baseline")
    if not ours or not baseline:
        return []
    found = difference(ours, baseline)
    setting = f"{EQUAL}, {EPOCHS} each; vgg7 at full width on cifar10, one-bit weights"
    claim = "duo beats the binary baseline with one-bit weights"
    return [Verdict(claim, setting, found.verdict, f"difference in points: {found.shown()}")]


def numbers(rows: list[Row]) -> str:
    """Every mean, and how many seeds are missing."""
    groups = {NAMES[way]: [row for row in rows if row["way"] == way] for way in WAYS}
    text = "; ".join(f"{name}: {both(some)}" for name, some in groups.items() if some)
    left = 2 * SEEDS - len(rows)
    return f"One-bit weights, {EPOCHS} epochs in total: {text}." + (
        f" {left} runs are missing." if left else ""
    )


def draw(rows: list[Row]) -> dict[str, Figure]:
    figure = Figure(figsize=(7, 2.2), layout="constrained")
    axis = figure.subplots()
    for place, way in enumerate(reversed(WAYS)):
        found = list(by_seed(rows, way).values())
        axis.plot(found, [place] * len(found), "o", color=COLOURS[way], ms=8, alpha=0.7)
        for value in found:
            text = {"textcoords": "offset points", "fontsize": 8, "ha": "center"}
            axis.annotate(f"{value:.2f}", (value, place), (0, 9), **text)  # type: ignore[arg-type]
    axis.set_yticks(range(len(WAYS)), [NAMES[way] for way in reversed(WAYS)])
    axis.set_ylim(-0.5, len(WAYS) - 0.3)
    axis.set_xlabel(f"test accuracy after {EPOCHS} epochs in total (%), one-bit weights; a dot per seed")
    axis.margins(x=0.15)
    axis.grid(axis="x", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
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
