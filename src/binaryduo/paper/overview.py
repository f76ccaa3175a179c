"""The README's picture: why binary activations train badly, what coupling does about it, and what it is worth.

Drawn from committed results alone: results/figure3_cosine (cosine of the coarse gradient with CDG, toy problem),
results/coupling_pays, one_bit_weights and other_tasks (what the ways reach, each tuned) and results/bench_infer (packed
ResNet-18 against other engines).
`binaryduo reproduce overview` draws it as docs/overview.png.
"""

import json
import math
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from binaryduo.paper import one_bit_weights
from binaryduo.paper.coupling_outcomes import accuracies, comparisons, pooled
from binaryduo.paper.experiment import Records
from binaryduo.paper.judging import Interval, difference
from binaryduo.paper.other_tasks import by_seed
from binaryduo.paper.results import documents, read_best
from binaryduo.paper.tasks import TASKS
from binaryduo.paper.ways import WAYS
from binaryduo.paper_values import IMAGENET

BINARY, TERNARY, TUNED, SCRATCH, INK = "#b45309", "#0a58ca", "#0f766e", "#8a6d00", "#1b1f24"
NETWORKS = {"vgg7": "VGG-7", "resnet18-sc-small": "narrow ResNet-18"}
LAYERS = ("fc1", "fc2", "fc3")
FULL_PRECISION = (
    69.8  # ImageNet top-1 of torchvision's ResNet18_Weights.IMAGENET1K_V1, as its documentation says
)


def read(results: Path, *parts: str) -> Any:
    """One committed JSON file."""
    return json.loads(results.joinpath(*parts).read_text())


def diagnose(axes: Axes, results: Path) -> None:
    """How far back-propagation points from the truth: binary against ternary, layer by layer."""
    rows = [row for unit in read(results, "figure3_cosine", "full.json")["units"] for row in unit["rows"]]
    for offset, levels, colour, name in ((-0.2, 3, TERNARY, "ternary"), (0.2, 2, BINARY, "binary")):
        chosen = [r for r in rows if r["init"] == "he" and r["levels"] == levels and r["ste"] == "relu1"]
        values = [[r["cosine"][layer] for r in chosen] for layer in LAYERS]
        middle = [median(v) for v in values]
        tenths = [
            quantiles(v, n=10, method="inclusive") for v in values
        ]  # of seeds: never above a cosine of 1
        reach = [[m - t[0] for m, t in zip(middle, tenths, strict=True)]]
        reach.append([t[-1] - m for m, t in zip(middle, tenths, strict=True)])
        at = [i + offset for i in range(len(LAYERS))]
        axes.bar(at, middle, 0.38, yerr=reach, color=colour, capsize=3, label=name)
    axes.set_xticks(range(len(LAYERS)), ["layer 1", "layer 2", "layer 3"])
    axes.set_xlabel(f"toy problem: median and middle 80 % of {len(chosen)} seeds")
    axes.set_ylabel("cosine with the true descent (CDG)")
    axes.set_ylim(0, 1.02)
    axes.set_title("Diagnose: a binary gradient points elsewhere", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=9)


def gains(results: Path) -> dict[str, tuple[Interval, ...]]:
    """The points that duo, and its topology from scratch where it was run, are above the baseline.

    As the paper compares, then at equal epochs.
    """
    study, tasks = read_best("coupling_pays", results), read_best("other_tasks", results)
    one_bit = read_best("one_bit_weights", results)
    assert study is not None
    assert tasks is not None
    assert one_bit is not None
    found: dict[str, tuple[Interval, ...]] = {}
    for epochs, schedule in ((100, "step"), (20, None)):
        ways = {way: accuracies(study.rows, way, epochs, schedule) for way in ("baseline", "scratch")}
        duo, scatter = accuracies(study.rows, "duo", 2 * epochs, schedule), pooled(study.rows)
        if duo and all(ways.values()):
            name = f"VGG-7, {epochs} + {epochs} epochs\nagainst {epochs}, {_seeds(len(duo))}"
            found[name] = (
                scatter.difference(duo, ways["baseline"]),
                scatter.difference(ways["scratch"], ways["baseline"]),
            )
    for budget in comparisons(study.rows):
        if not math.isinf(budget.over_baseline.half):
            count = min(len(accuracies(study.rows, way, budget.epochs)) for way in WAYS)
            name = f"VGG-7, {budget.epochs} epochs\neach, {_seeds(count)}"
            found[name] = (budget.over_baseline, budget.topology)
    for case in one_bit_weights.CASES:
        duo_runs, baseline_runs = (case.by_seed(one_bit.rows, way) for way in one_bit_weights.WAYS)
        network = NETWORKS[case.network]
        name = f"{network}, one-bit weights,\n{case.epochs} epochs each, {_seeds(len(duo_runs))}"
        found[name] = (difference(duo_runs, baseline_runs),)
    for task in TASKS:
        ours = {way: by_seed(tasks.rows, task, way) for way in WAYS}
        name = f"{task}, equal\nepochs, {_seeds(len(ours['duo']))}"
        found[name] = (
            difference(ours["duo"], ours["baseline"]),
            difference(ours["scratch"], ours["baseline"]),
        )
    return found


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def train(axes: Axes, results: Path) -> None:
    """What the method and its topology are worth, with every way tuned equally hard."""
    found = gains(results)
    for row, intervals in enumerate(found.values()):
        sides = ((-0.13, TUNED, "o"), (0.13, SCRATCH, "s"))
        if len(intervals) == 1:
            sides = ((0.0, TUNED, "o"), sides[1])
        for interval, (offset, colour, sign) in zip(intervals, sides, strict=False):
            axes.errorbar(
                interval.middle, row + offset, xerr=interval.half, fmt=sign, color=colour, capsize=3, ms=5
            )
    axes.plot([0, 0], [-0.5, len(found) - 0.4], color=INK, lw=0.8)
    axes.set_yticks(range(len(found)), list(found), fontsize=7.5)
    axes.set_ylim(len(found) - 0.4, -1.5)  # the first on top, below the legend
    axes.set_xlabel("points above the binary baseline, 95 % intervals")
    axes.set_title("Train: what it is worth (VGG-7, ResNet-18: CIFAR-10)", loc="left", fontsize=10)
    signs = [
        Line2D([], [], marker="o", ls="", color=TUNED, label="coupled, decoupled, fine-tuned"),
        Line2D([], [], marker="s", ls="", color=SCRATCH, label="the same topology from scratch"),
    ]
    axes.legend(handles=signs, frameon=False, fontsize=8, loc="upper left", borderaxespad=0)


def deploy(axes: Axes, results: Path) -> None:
    """Milliseconds of ResNet-18 for one image, one thread, and what each kind of network reaches on ImageNet."""
    rows = read(results, "bench_infer", "results.json")["rows"]
    row = next(r for r in rows if r["title"].startswith("resnet18") and r["threads"] == 1)
    times = dict(sorted(row["milliseconds"].items(), key=lambda item: item[1]))
    names = [name.replace("binaryduo", "binaryduo, packed") for name in times]
    colours = [TUNED if name == "binaryduo" else "#adb5bd" for name in times]
    bars = axes.barh(names, list(times.values()), color=colours)
    labels = [
        f"{value:.1f} ms" + ("" if name == "binaryduo" else f"  ({row['ratios'][name]:.1f} ×)")
        for name, value in times.items()
    ]
    axes.bar_label(bars, labels, padding=3, fontsize=8)
    axes.set_xlim(0, 1.35 * max(times.values()))
    axes.set_ylim(len(times) - 0.4, -1.6)  # the fastest on top, below the legend
    axes.set_xlabel("milliseconds for one image, one thread")
    axes.set_title("Deploy: ResNet-18, 224×224, 4 MB packed", loc="left", fontsize=10)
    binary = f"one-bit network: ImageNet {IMAGENET['resnet18']} % (paper)"
    full = f"full-precision network: {FULL_PRECISION} % (torchvision)"
    signs = [Patch(color=TUNED, label=binary), Patch(color="#adb5bd", label=full)]
    axes.legend(handles=signs, frameon=False, fontsize=8, loc="upper right")


def draw(results: Path) -> Figure:
    """The three panels."""
    figure = Figure(figsize=(13, 4.8), layout="constrained", dpi=110)
    for axes, panel in zip(figure.subplots(1, 3), (diagnose, train, deploy), strict=True):
        panel(axes, results)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def plot(folder: Path) -> list[Path]:
    """`folder` would be our own results; those of the other experiments lie beside it."""
    target = documents() / "overview.png"
    draw(folder.parent).savefig(target, metadata={"Software": None})
    return [target]


RECORDS = Records("overview", "The README's picture", None, None, plot)
