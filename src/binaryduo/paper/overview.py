"""The README's picture: why binary activations train badly, what coupling does about it, and what it is worth.

Drawn from committed results alone: results/figure3_cosine (cosine of the coarse gradient with CDG, toy problem),
results/cifar10_budget (VGG-7, half an hour each) and results/bench_infer (packed ResNet-18 against other engines).
`binaryduo reproduce overview` draws it as docs/overview.png.
"""

import json
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from binaryduo.paper.experiment import Records
from binaryduo.paper.results import documents
from binaryduo.paper_values import IMAGENET

BINARY, TERNARY, TUNED, INK = "#b45309", "#0a58ca", "#0f766e", "#1b1f24"
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


def train(axes: Axes, results: Path) -> None:
    """Test accuracy over the minutes of the two budgets."""
    found = read(results, "cifar10_budget", "metrics.json")

    def curve(stage: dict[str, Any], offset: float) -> tuple[list[float], list[float]]:
        tested = [line for line in stage["epochs"] if "test_top1" in line]
        return [offset + line["seconds"] / 60 for line in tested], [line["test_top1"] for line in tested]

    coupled, tuned = (found["duo"]["stages"][name] for name in ("coupled", "decoupled"))
    split = coupled["epochs"][-1]["seconds"] / 60
    axes.plot(
        *curve(found["baseline"]["stages"]["baseline"], 0), "s-", color=BINARY, ms=4, label="binary baseline"
    )
    axes.plot(*curve(coupled, 0), "o-", color=TERNARY, ms=4, label="coupled, three levels")
    axes.plot(*curve(tuned, split), "o-", color=TUNED, ms=4, label="decoupled: bits, fine-tuned")
    axes.axvline(split, color=INK, lw=0.8, ls=":")
    axes.annotate("decoupled here", (split, 70), (3, 0), textcoords="offset points", fontsize=8)
    axes.set_xlabel("minutes of training on two CPU cores")
    axes.set_ylabel("test accuracy (%)")
    axes.set_title("Train: VGG-7 on CIFAR-10, one seed", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="lower right")


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
    figure = Figure(figsize=(13, 3.9), layout="constrained", dpi=110)
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
