"""Learning curves as a picture: test accuracy over epochs, one line a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from binaryduo.training.runlog import read_metrics

COLOURS = ("#888888", "#1f77b4", "#d62728", "#2ca02c")


@dataclass(frozen=True)
class Curve:
    """A named line: epochs and the accuracy (percent) behind each; `begins` draws the value before the first."""

    name: str
    epochs: tuple[float, ...]
    accuracies: tuple[float, ...]
    begins: tuple[float, float] | None = None


def read_curve(
    name: str, folder: Path, offset: float = 0.0, begins: float | None = None, key: str = "test_top1"
) -> Curve:
    """The curve of a stage from its metrics; `offset` epochs were trained before it."""
    lines = [line for line in read_metrics(folder) if line["kind"] == "epoch" and key in line]
    per_epoch = lines[0]["step"] / lines[0]["epoch"]
    epochs = tuple(offset + line["step"] / per_epoch for line in lines)
    start = None if begins is None else (offset, begins)
    return Curve(name, epochs, tuple(line[key] for line in lines), start)


def draw_curves(path: Path, curves: Sequence[Curve], title: str, ylabel: str = "test accuracy (%)") -> None:
    """Draw the curves into a PNG, each with its last value written at its end."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for curve, colour in zip(curves, COLOURS, strict=False):
        xs, ys = list(curve.epochs), list(curve.accuracies)
        if curve.begins is not None:
            xs, ys = [curve.begins[0], *xs], [curve.begins[1], *ys]
            axis.plot(*curve.begins, "o", color=colour, markerfacecolor="white", zorder=3)
        label = f"{curve.name}: {ys[-1]:.1f} %"
        axis.plot(xs, ys, "-", marker=".", color=colour, label=label)
    axis.set_xlabel("epochs")
    axis.set_ylabel(ylabel)
    axis.set_title(title, fontsize=11)
    axis.grid(True, alpha=0.25)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.legend(frameon=False, loc="lower right", title="at the end")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
