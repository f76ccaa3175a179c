"""The pictures that several experiments share: every point a seed, the mean as a bar or a line, the paper beside it."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from binaryduo.paper.experiment import Row

OURS, PAPER, INK = "#0a58ca", "#c2410c", "#1b1f24"
COLOURS = ("#1b1f24", "#0a58ca", "#0f766e", "#b45309", "#be123c")


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)


def bars(groups: Sequence[tuple[str, Sequence[Row], float | None]], title: str) -> Figure:
    """Mean accuracy behind the last epoch as bars, each seed as a dot, the best epoch as a dash.

    `groups` are (name, rows, the paper's accuracy or None).
    """
    present = [group for group in groups if group[1]]
    figure = Figure(figsize=(1.5 * max(4, len(present)), 4.2), layout="constrained")
    axes = figure.subplots()
    values = [row[key] for _, rows, _ in present for row in rows for key in ("last", "best")]
    for x, (_, rows, paper) in enumerate(present):
        last = [row["last"] for row in rows]
        mean = sum(last) / len(last)
        axes.bar(x, mean, 0.6, color="#9ec5fe", label="ours, last epoch (mean)" if x == 0 else None)
        axes.plot([x] * len(last), last, "o", color=OURS, ms=5, label="each seed" if x == 0 else None)
        best = [row["best"] for row in rows]
        axes.plot([x] * len(best), best, "_", color=INK, ms=16, label="best epoch" if x == 0 else None)
        axes.annotate(f"{mean:.2f}", (x, max(last + best)), (0, 6), textcoords="offset points", ha="center")
        if paper is not None:
            values.append(paper)
            axes.plot(x, paper, "D", color=PAPER, ms=6, label=_once(axes, "the paper, full setting"))
    low, high = min(values), max(values)
    pad = max(0.5, 0.15 * (high - low))
    axes.set_ylim(max(0, low - 2 * pad), min(100, high + 2 * pad))
    axes.set_xticks(range(len(present)), [name.replace(" from ", "\nfrom ") for name, _, _ in present])
    axes.set_ylabel("test accuracy (%), axis cut")
    axes.set_title(title, loc="left", fontsize=10.5)
    axes.legend(fontsize=8, framealpha=0.9)
    _tidy(axes)
    return figure


def _once(axes: Axes, label: str) -> str | None:
    return None if label in axes.get_legend_handles_labels()[1] else label


def lines(
    series: Sequence[tuple[str, Sequence[float], Sequence[Sequence[float]]]], x: str, y: str, title: str
) -> Figure:
    """One line a series through the means, every seed a dot."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for (name, at, values), colour in zip(series, COLOURS, strict=False):
        axes.plot(at, [sum(v) / len(v) for v in values], "-", color=colour, label=name)
        for place, found in zip(at, values, strict=True):
            axes.plot([place] * len(found), found, "o", color=colour, ms=5)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10.5)
    axes.legend(framealpha=0.9)
    _tidy(axes)
    return figure


def scatter_on(
    axes: Axes, points: Sequence[tuple[str, float, Sequence[float]]], x: str, y: str, title: str
) -> None:
    """Named points (name, x, y of each seed) with their range, the name beside each."""
    top = sorted(points, key=lambda point: sum(point[2]) / len(point[2]))
    for number, (name, at, values) in enumerate(top):
        mean = sum(values) / len(values)
        quantized = name.split(",")[0] in ("2 bits", "3 bits", "4 bits", "ternary", "full precision")
        colour = OURS if quantized else PAPER
        axes.errorbar(
            at, mean, [[mean - min(values)], [max(values) - mean]], fmt="o", color=colour, capsize=3
        )
        offset = (6, 5) if number % 2 == 0 else (6, -11)
        axes.annotate(name, (at, mean), offset, textcoords="offset points", fontsize=8.5)
    axes.margins(0.2, 0.12)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10.5)
    _tidy(axes)


def scatter(points: Sequence[tuple[str, float, Sequence[float]]], x: str, y: str, title: str) -> Figure:
    """A picture of its own of named points."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    scatter_on(figure.subplots(), points, x, y, title)
    return figure


def curves(rows: Sequence[Row], paper: dict[str, float]) -> Figure:
    """Learning curves of both stages, one panel a network, the moment of decoupling marked."""
    names = list(dict.fromkeys(row["network"] for row in rows))
    figure = Figure(figsize=(4.2 * len(names), 3.6), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        start = 0.0
        for row in rows:
            if row["network"] == name:
                epochs = [start + point[0] for point in row["curve"]]
                axes.plot(epochs, [p[1] for p in row["curve"]], "--", color=OURS, lw=1)
                axes.plot(epochs, [p[2] for p in row["curve"]], "-", color=OURS, marker=".")
                start += row["epochs"]
                if row["stage"] == "coupled":
                    axes.axvline(start, color=INK, lw=0.8, ls=":")
                    axes.annotate("decoupled", (start, axes.get_ylim()[0]), fontsize=8)
        axes.axhline(paper[name], color=PAPER, lw=1)
        axes.set_title(f"{name}: training (dashed), test; paper {paper[name]}", loc="left", fontsize=9)
        axes.set_xlabel("epoch")
        axes.set_ylabel("top-1 (%)")
        _tidy(axes)
    return figure
