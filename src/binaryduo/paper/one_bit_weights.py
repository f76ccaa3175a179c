"""Does coupling pay with one-bit weights too? VGG-7 and a narrow ResNet-18 on CIFAR-10, baseline and duo.

The paper's Table 2 is about networks whose weights are one bit as well (on ImageNet, which is too large for these
machines). VGG-7 is trained for 20 epochs in total at full width; ResNet-18 with a shortcut around each convolution
(Bi-Real-Net's, the paper's "+sc"), in its form for small images, for 10 epochs at a quarter of the width.

Written down before running: first the rate of each way, as in `coupling_choices` (half of the epochs, seed 0, 5,000
held-out images; from 5e-3 on doubled until the accuracy falls; duo with one anneal over its two stages), then the runs
that judge: all 50,000 images, batches of 256, trained in bfloat16 and tested in float32 on the 10,000 test images; seed
by seed. The claim holds where duo is ahead at equal epochs by the rule of `judging`, paired over seeds.

The narrow ResNet had one more test, once its rates were seen: the higher the rate, the lower is the coupled network's
loss (1.57, 1.53, 1.49, 1.49, 1.49 from 5e-3 to 8e-2), and from 1e-2 on the higher that of the fine-tuning (1.17, 1.08,
1.13, 1.18, 1.26). Decoupling halves the latent weights, and it is the step beside them that decides how many signs
flip. Hypothesis: fine-tuning wants a quarter or an eighth of the coupled network's rate, which is more than 0.3 points
better than one rate for both. This tunes duo harder than the baseline. It held (67.4 and 66.1 against 63.6 %), and was
then tested on VGG-7 too: 81.94 (2e-2, then 5e-3) and 81.34 (1e-2, then 5e-3) against 81.06 %. VGG-7's runs had been
done by then, at 1e-2 for both stages (83.98, 83.73 and 83.48 %; `one_rate.json`): duo's were done again.

Seeds 1 and 2 of duo, and of both ways for the ResNet, ran on an Intel CPU with AMX, whose bfloat16 convolutions are by
matrix tiles; all others on Zen 5, by Winograd's method.

A first run of VGG-7 by duo at 5e-3, before any tuning, has 84.30 % after the last epoch (`before_tuning.json`); it
judges nothing. The shipped network vgg7-cifar10-duo-w1 is one run of 20 + 20 epochs at the rates above (2e-2, then
5e-3), seed 0, 85.80 %.
"""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryduo.paper import ways as w
from binaryduo.paper.accuracies import EQUAL, both
from binaryduo.paper.coupling_choices import QUICK, VALIDATION
from binaryduo.paper.coupling_pays import COLOURS, NAMES
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict
from binaryduo.paper.judging import difference
from binaryduo.paper.rates import BEST

SEEDS = 3
WAYS = ("duo", "baseline")
RATES = (5e-3, 1e-2, 2e-2, 4e-2, 8e-2)


@dataclass(frozen=True)
class Case:
    """A network, how long it is trained, the rates that are tested of each way, and those that its runs have.

    These are the rates of float weights until the tests are done. The narrow ResNet's baseline wants a higher rate than
    those four that were planned: it is tested one further, duo too.
    """

    network: str
    width: float
    epochs: int
    title: str
    lr: dict[str, float] = field(default_factory=lambda: {way: BEST[way] for way in WAYS})
    finetune_lr: float | None = None  # of duo, where it is another
    rates: dict[str, tuple[float, ...]] = field(default_factory=lambda: dict.fromkeys(WAYS, RATES))
    slower: tuple[tuple[float, float], ...] = ()  # rates of both stages of duo, tested where they differ

    def unit(self, way: str, epochs: int, seed: int, lr: float, **settings: object) -> Unit:
        one = {"anneals": 1} if way == "duo" else {}
        size = {"network": self.network, "width": self.width, "weight_bits": 1}
        return w.unit(way, epochs, seed, lr, **{**size, **QUICK, **one, **settings})

    def units(self) -> list[Unit]:
        """The tests of the rate, then the runs that judge."""
        held_out = {"validation": VALIDATION, "question": "rate"}
        return [
            *(
                self.unit(way, self.epochs // 2, 0, rate, **held_out)
                for rate, way in product(RATES, WAYS)
                if rate in self.rates[way]
            ),
            *(
                self.unit(
                    "duo",
                    self.epochs // 2,
                    0,
                    rate,
                    **{**held_out, "question": "finetune"},
                    finetune_lr=second,
                )
                for rate, second in self.slower
            ),
            *(self.run(way, seed) for seed, way in product(range(SEEDS), WAYS)),
        ]

    def run(self, way: str, seed: int) -> Unit:
        """A run that judges."""
        second = {"finetune_lr": self.finetune_lr} if way == "duo" and self.finetune_lr is not None else {}
        return self.unit(way, self.epochs, seed, self.lr[way], **second)

    def runs(self, rows: list[Row], way: str) -> list[Row]:
        """The runs of a way that judge: not those that only chose its rate."""
        return [row for row in self._mine(rows, way) if "question" not in row]

    def by_rate(self, rows: list[Row], way: str) -> dict[float, float]:
        """The accuracies on held-out images of a way, by rate."""
        return {row["lr"]: row["last"] for row in self._mine(rows, way) if row.get("question") == "rate"}

    def by_finetuning(self, rows: list[Row]) -> dict[tuple[float, float], float]:
        """The accuracies on held-out images of duo, by the rates of its stages where they differ."""
        found = [row for row in self._mine(rows, "duo") if row.get("question") == "finetune"]
        return {(row["lr"], row["finetune_lr"]): row["last"] for row in found}

    def by_seed(self, rows: list[Row], way: str) -> dict[int, float]:
        """The accuracies after the last epoch of a way."""
        return {row["seed"]: row["last"] for row in self.runs(rows, way)}

    def _mine(self, rows: list[Row], way: str) -> list[Row]:
        return [row for row in rows if (row["network"], row["way"]) == (self.network, way)]


CASES = (
    # Each way was tested until its accuracy fell on both sides.
    Case(
        "vgg7",
        1.0,
        20,
        "VGG-7 at full width",
        lr={"duo": 2e-2, "baseline": 2e-2},
        finetune_lr=5e-3,
        rates={"duo": (5e-3, 1e-2, 2e-2), "baseline": (1e-2, 2e-2, 4e-2)},
        slower=((2e-2, 5e-3), (1e-2, 5e-3)),
    ),
    Case(
        "resnet18-sc-small",
        0.25,
        10,
        "ResNet-18 +sc at a quarter of the width",
        lr={"duo": 4e-2, "baseline": 4e-2},
        finetune_lr=1e-2,
        slower=((4e-2, 1e-2), (4e-2, 5e-3)),
    ),
)


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        small = Case("mlp", 0.05, 2, "MLP")
        return [small.unit(way, 2, 0, small.lr[way]) for way in WAYS]
    return [unit for case in CASES for unit in case.units()]


def verdicts(rows: list[Row]) -> list[Verdict]:
    out = []
    for case in CASES:
        duo, baseline = (case.by_seed(rows, way) for way in WAYS)
        if min(len(duo), len(baseline)) < SEEDS:
            continue
        found = difference(duo, baseline)
        claim = "with one-bit weights duo beats the binary baseline"
        setting = f"{EQUAL}, {case.epochs} each; {case.title} on cifar10"
        evidence = f"difference in points: {found.shown()}"
        out.append(Verdict(claim, setting, found.verdict, evidence, f"{found.shown()} points"))
    return out


def numbers(rows: list[Row]) -> str:
    """Of each network every mean, the tests of the rate, and how many runs are missing."""
    return " ".join(_numbers(case, rows) for case in CASES)


def _numbers(case: Case, rows: list[Row]) -> str:
    means = [f"{NAMES[way]}: {both(some)}" for way in WAYS if (some := case.runs(rows, way))]
    tests = [
        f"{NAMES[way]} " + ", ".join(f"{rate:g}: {last:.2f}" for rate, last in sorted(found.items()))
        for way in WAYS
        if (found := case.by_rate(rows, way))
    ]
    parts = [f"{case.epochs} epochs in total: {'; '.join(means)}."] if means else []
    if tests:
        slower = [
            f"{first:g} then {second:g}: {last:.2f}"
            for (first, second), last in case.by_finetuning(rows).items()
        ]
        tests += [f"duo with {', '.join(slower)}"] if slower else []
        parts.append(f"Rates, on held-out images after {case.epochs // 2} epochs: {'; '.join(tests)}.")
    left = len(WAYS) * SEEDS - sum(len(case.runs(rows, way)) for way in WAYS)
    parts += [f"{left} runs of {case.epochs} epochs are missing."] if left else []
    return f"{case.title}, one-bit weights. {' '.join(parts)}"


def draw(rows: list[Row]) -> dict[str, Figure]:
    """A line per network. Left: accuracy over the rate of each way, on held-out images; right: the runs that judge."""
    cases = [case for case in CASES if any(row["network"] == case.network for row in rows)]
    if not cases:
        return {}
    figure = Figure(figsize=(12, 0.4 + 3.6 * len(cases)), layout="constrained")
    for (left, right), case in zip(figure.subplots(len(cases), 2, squeeze=False), cases, strict=True):
        _draw_rates(left, case, rows)
        _draw_runs(right, case, rows)
        for axis in (left, right):
            axis.margins(x=0.15, y=0.15)
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("One-bit weights on CIFAR-10", fontsize=10, x=0.01, ha="left")
    return {"one_bit_weights.png": figure}


TEXT: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "ha": "center"}


def _draw_rates(axis: Axes, case: Case, rows: list[Row]) -> None:
    rates: set[float] = set()
    for way in WAYS:
        points = sorted(case.by_rate(rows, way).items())
        rates |= {rate for rate, _ in points}
        axis.plot([x for x, _ in points], [y for _, y in points], "o-", color=COLOURS[way], label=NAMES[way])
        for rate, last in points:  # numbers of equal rates stay apart: the lower one is below its dot
            lower = any(case.by_rate(rows, other).get(rate, last) > last for other in WAYS)
            offset = (0, -14 if lower else 7)
            axis.annotate(f"{last:.2f}", (rate, last), offset, color=COLOURS[way], **TEXT)
    slower = "duo, then a lower rate for fine-tuning"
    for (rate, second), last in case.by_finetuning(rows).items():
        axis.plot(rate, last, "D", color=COLOURS["duo"], mfc="none", label=slower)
        slower = ""  # one line of the legend for all of them
        axis.annotate(
            f"{last:.2f}, then {second:g}",
            (rate, last),
            (8, -3),
            color=COLOURS["duo"],
            **{**TEXT, "ha": "left"},
        )
    axis.set_xscale("log")
    axis.set_xticks(sorted(rates), [f"{rate:g}" for rate in sorted(rates)])
    axis.minorticks_off()
    axis.set_xlabel(f"learning rate (log scale); {case.epochs // 2} epochs, seed 0")
    axis.set_ylabel("held-out accuracy (%)")
    axis.set_title(f"{case.title}: which rate?\n5,000 held-out images decide", fontsize=9, loc="left")
    axis.legend(frameon=False, fontsize=9)


def _draw_runs(axis: Axes, case: Case, rows: list[Row]) -> None:
    for height, way in enumerate(reversed(WAYS)):
        found = list(case.by_seed(rows, way).values())
        axis.plot(found, [height] * len(found), "o", color=COLOURS[way], ms=8, alpha=0.7)
        for place, value in enumerate(sorted(found)):  # above and below in turn, for runs that are close
            axis.annotate(f"{value:.2f}", (value, height), (0, -16 if place % 2 else 9), **TEXT)
    axis.set_yticks(range(len(WAYS)), [NAMES[way] for way in reversed(WAYS)])
    axis.set_ylim(-0.5, len(WAYS) - 0.3)
    axis.set_xlabel(f"test accuracy after {case.epochs} epochs in total (%); a dot per seed")
    if not any(case.runs(rows, way) for way in WAYS):
        axis.set_xticks([])
        axis.text(0.5, 0.5, "not run yet", transform=axis.transAxes, ha="center", color="#57606a")


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
    judges_parts=True,
)
