"""The pictures of Figure 3 and of Appendices B, C and H, drawn from rows and curves.

Every function returns a matplotlib Figure that was made without pyplot, so that no global state changes.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from math import isnan
from statistics import mean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryduo.mismatch.sweeps import BINARY_STES, PRECISIONS, Case, Row, select

_COLOURS = ("#1b1b1b", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#999999")


def spread_of(rows: Sequence[Row], layer: str) -> tuple[float, float]:
    """Mean and standard deviation (over seeds) of a layer's cosine; NaN (None in JSON) is left out.

    >>> spread_of([{"cosine": {"fc1": 0.5}}, {"cosine": {"fc1": 0.7}}], "fc1")[0]
    0.6
    """
    cosines = [row["cosine"][layer] for row in rows]
    values = [value for value in cosines if value is not None and not isnan(value)]
    if not values:
        return float("nan"), 0.0
    return mean(values), stdev(values) if len(values) > 1 else 0.0


def _letter(number: int) -> str:
    """a, b, …, z, aa, ab, …

    >>> _letter(0), _letter(25), _letter(26)
    ('a', 'z', 'aa')
    """
    return (_letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def _layers(rows: Sequence[Row]) -> list[str]:
    """The hidden layers and the total: the output layer's cosine is 1 by construction."""
    return [name for name in rows[0]["cosine"] if name != "out"]


def bars(rows: Sequence[Row], title: str = "") -> Figure:
    """Figure 3: (a) precisions, (b) STEs of a binary network; layers in groups, seeds as error bars."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, cases, name in zip(
        panels, (PRECISIONS, BINARY_STES), ("(a) precision", "(b) STE, binary"), strict=True
    ):
        _bar_panel(axes, rows, [c for c in cases if select(rows, levels=c.levels, ste=c.ste)], name)
    panels[0].set_ylabel("cosine (coarse gradient, CDG)")
    if title:
        figure.suptitle(title)
    return figure


def _bar_panel(axes: Axes, rows: Sequence[Row], cases: Sequence[Case], name: str) -> None:
    layers = _layers(rows)
    width = 0.84 / max(1, len(cases))
    for i, case in enumerate(cases):
        some = select(rows, levels=case.levels, ste=case.ste)
        points = [spread_of(some, layer) for layer in layers]
        x = [k + (i - (len(cases) - 1) / 2) * width for k in range(len(layers))]
        family = PRECISIONS if name.startswith("(a)") else BINARY_STES
        label = case.label if family is PRECISIONS else case.ste
        axes.bar(
            x,
            [p[0] for p in points],
            width,
            yerr=[p[1] for p in points] if any(p[1] for p in points) else None,
            capsize=2,
            color=_COLOURS[family.index(case) % len(_COLOURS)],
            error_kw={"elinewidth": 0.8},
            label=label,
        )
    axes.set_xticks(range(len(layers)), layers)
    axes.set_title(name, loc="left")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.legend(ncols=4, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False)
    axes.grid(axis="y", alpha=0.3)


def panels(rows: Sequence[Row], step_name: str, title: str = "") -> Figure:
    """Appendices C and H: cosine against ε or σ; a row for each layer, precisions left, STEs right."""
    layers = _layers(rows)
    figure = Figure(figsize=(9, 2.3 * len(layers) + 1), layout="constrained")
    grid = figure.subplots(len(layers), 2, sharex=True, sharey="row", squeeze=False)
    number = count()
    for i, layer in enumerate(layers):
        for axes, cases in zip(grid[i], (PRECISIONS, (Case(3), *BINARY_STES)), strict=True):
            left = cases is PRECISIONS
            for k, case in enumerate(cases):
                some = select(rows, levels=case.levels, ste=case.ste)
                steps = sorted({row["step"] for row in some})
                if not steps:
                    continue
                points = [spread_of(select(some, step=step), layer) for step in steps]
                label = case.label if left or case.levels != 2 else f"binary, {case.ste}"
                axes.errorbar(
                    steps,
                    [p[0] for p in points],
                    [p[1] for p in points],
                    color=_COLOURS[k % len(_COLOURS)],
                    linestyle="-" if left or case.levels == 2 else "--",
                    marker="o",
                    markersize=3,
                    capsize=2,
                    linewidth=1.2,
                    label=label,
                )
            axes.set_xscale("log")
            axes.grid(alpha=0.3)
            axes.set_title(f"({_letter(next(number))}) {layer}", loc="left", fontsize=10)
            if i == 0:
                axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1.12), ncols=3, frameon=False)
        grid[i][0].set_ylabel("cosine")
    for axes in grid[-1]:
        axes.set_xlabel(step_name)
    if title:
        figure.suptitle(title)
    return figure


def curves(items: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """Appendix C's loss curves: one panel for each item, its curve and the secant that CDG measures.

    An item has "title", "offsets", "losses", "step" and "ends" (the losses at -step and +step).
    """
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    grid = figure.subplots(-(-len(items) // 2), 2, squeeze=False)
    for i, (axes, item) in enumerate(zip(grid.flat, items, strict=False)):
        axes.plot(item["offsets"], item["losses"], color=_COLOURS[1], linewidth=1, label="loss")
        step, (low, high) = item["step"], item["ends"]
        axes.plot(
            [-step, step],
            [low, high],
            "o-",
            color=_COLOURS[5],
            markersize=4,
            label=f"CDG = {(high - low) / (2 * step):+.4f}",
        )
        axes.axvline(0, color="grey", linewidth=0.7, linestyle=":")
        axes.set_title(f"({'abcdefgh'[i]}) {item['title']}", loc="left", fontsize=10)
        axes.set_xlabel("change of the weight")
        axes.set_ylabel("loss")
        axes.ticklabel_format(useOffset=False)
        axes.locator_params(axis="x", nbins=5)
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    if title:
        figure.suptitle(title)
    return figure


def surface(
    first: Sequence[float],
    second: Sequence[float],
    losses: Sequence[Sequence[float]],
    step: float,
    gradient: tuple[float, float],
    title: str = "",
) -> Figure:
    """Appendix B: a loss surface over two weights, with the true gradient (left) and the CDG (right).

    `losses[a][b]` is the loss at (first[a], second[b]); ±step are points of both grids. The cross-sections
    through the middle are drawn at the edges, with the tangents whose slopes are `gradient` (left) and the
    secants over ±step (right).
    """
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    halves: Any = figure.subfigures(1, 2)
    middle = len(first) // 2, len(second) // 2
    across = [row[middle[1]] for row in losses]  # along the first weight
    upward = list(losses[middle[0]])
    for half, kind in zip(halves, ("true gradient", "CDG"), strict=True):
        grid = half.subplots(2, 2, width_ratios=(4, 1.5), height_ratios=(1.5, 4))
        grid[0][1].axis("off")
        main, top, side = grid[1][0], grid[0][0], grid[1][1]
        main.contourf(first, second, list(zip(*losses, strict=True)), levels=24, cmap="Greens")
        main.axhline(second[middle[1]], color=_COLOURS[5], linestyle="--", linewidth=1)
        main.axvline(first[middle[0]], color=_COLOURS[1], linestyle="--", linewidth=1)
        main.plot(first[middle[0]], second[middle[1]], "k.", markersize=8)
        main.set_xlabel("change of $w_1$")
        main.set_ylabel("change of $w_2$")
        slopes = []
        for axes, place, curve, colour, tangent in (
            (top, first, across, _COLOURS[5], gradient[0]),
            (side, second, upward, _COLOURS[1], gradient[1]),
        ):
            x, y, slope = _slope_line(place, curve, step, tangent if kind == "true gradient" else None)
            slopes.append(slope)
            turned = axes is side
            axes.plot(*((curve, place) if turned else (place, curve)), color=colour, linewidth=1.2)
            axes.plot(*((y, x) if turned else (x, y)), "k.-", linewidth=1.6, markersize=5)
            axes.tick_params(labelsize=7)
            axes.margins(0.08)
            axes.ticklabel_format(useOffset=False)
        side.locator_params(axis="x", nbins=3)
        side.tick_params(axis="x", rotation=60)
        top.set_ylabel("loss", fontsize=8)
        side.set_xlabel("loss", fontsize=8)
        half.suptitle(f"{kind}: ({slopes[0]:+.3f}, {slopes[1]:+.3f})")
    if title:
        figure.suptitle(title)
    return figure


def _slope_line(
    place: Sequence[float], curve: Sequence[float], step: float, tangent: float | None
) -> tuple[list[float], list[float], float]:
    """Two points and the slope: of the given tangent at the middle, or of the secant over ±step."""
    middle = len(place) // 2
    if tangent is not None:
        return [-step, step], [curve[middle] - tangent * step, curve[middle] + tangent * step], tangent
    reach = min(range(1, middle + 1), key=lambda r: abs(place[middle + r] - place[middle] - step))
    low, high = middle - reach, middle + reach
    return [place[low], place[high]], [curve[low], curve[high]], (curve[high] - curve[low]) / (2 * step)
