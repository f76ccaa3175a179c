"""Pictures of activation functions and their stand-ins: the paper's Figure 2 (left) and Figure 4."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryduo import ste as stes
from binaryduo.nn.staircase import staircase

INK, STEP, GRADIENT, AREA = "#1b1f24", "#0a58ca", "#c2410c", "#9ec5fe"


def ste_figure(names: list[str] | None = None) -> Figure:
    """Each STE beside the binary activation it stands for, its derivative below, the area between shaded."""
    chosen = stes.names() if names is None else names
    figure = Figure(figsize=(2.15 * len(chosen), 4.4), layout="constrained")
    axes = figure.subplots(2, len(chosen), sharex=True, sharey="row", squeeze=False)
    x = torch.linspace(-0.6, 1.6, 2201, dtype=torch.float64)
    step = staircase(x, 2)
    for column, name in enumerate(chosen):
        top, bottom = axes[0, column], axes[1, column]
        curve = stes.function(name, x)
        top.fill_between(x, step, curve, color=AREA, lw=0)
        top.plot(x, step, color=STEP, lw=1.8, label="forward")
        top.plot(x, curve, color=GRADIENT, lw=1.5, ls="--", label="stand-in")
        area = stes.cumulative_difference(name)
        top.set_title(f"{name}\narea {area:.4g}", fontsize=10, color=INK)
        bottom.plot(x, stes.derivative(name, x), color=GRADIENT, lw=1.5)
        bottom.set_xlabel("x")
        for axis in (top, bottom):
            _tidy(axis)
    axes[0, 0].set_ylabel("value")
    axes[1, 0].set_ylabel("derivative")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def activation_figure() -> Figure:
    """Baseline binary, coupled ternary and decoupled binary activations: where 0.7 goes in each (Figure 4)."""
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3, sharey=True)
    x = torch.linspace(-0.2, 1.3, 1501, dtype=torch.float64)
    left.plot(x, staircase(x, 2), color=STEP, lw=2)
    left.set_title("baseline: binary")
    middle.plot(x, staircase(x, 3), color=STEP, lw=2)
    middle.set_title("coupled: ternary")
    for threshold, color, style in ((0.25, STEP, "--"), (0.75, GRADIENT, "-")):
        right.plot(x, (x >= threshold).double(), color=color, ls=style, lw=2, label=f"threshold {threshold}")
    right.set_title("decoupled: two binary")
    right.legend(loc="center right", frameon=False, fontsize=9, handlelength=1.6)
    for axis, values in ((left, [1.0]), (middle, [0.5]), (right, [1.0, 0.0])):
        axis.axvline(0.7, color=INK, lw=0.8, ls=":")
        axis.plot([0.7] * len(values), values, "o", color=INK, ms=5)
        axis.set_xlabel("input (0.7 marked)")
        _tidy(axis)
    left.set_ylabel("activation")
    return figure


def _tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    axis.tick_params(labelsize=9)
