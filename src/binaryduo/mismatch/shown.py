"""How results by layer are shown: a table in text, and bars with intervals beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in columns; the first row is its head.

    >>> table([("layer", "cosine"), ("fc1", "0.5")])
    ['layer  cosine', '-----  ------', 'fc1    0.5']
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return [line.rstrip() for line in lines]


@dataclass(frozen=True)
class Bars:
    """A bar per name: heights, and the ends of their intervals."""

    label: str
    heights: list[float]
    intervals: list[tuple[float, float]]


def draw_bars(series: list[Bars], names: list[str], ylabel: str, title: str, path: str | Path) -> Path:
    """Bars of one or more STEs beside each other, one colour for each; returns the path of the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(5.0, 0.9 * len(names) + 1.1), 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(series)
    for i, bars in enumerate(series):
        x = [k + (i - (len(series) - 1) / 2) * width for k in range(len(names))]
        pairs = list(zip(bars.heights, bars.intervals, strict=True))
        low = [max(0.0, height - ends[0]) for height, ends in pairs]
        high = [max(0.0, ends[1] - height) for height, ends in pairs]
        axes.bar(x, bars.heights, width, yerr=[low, high], capsize=3, label=bars.label)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_ylabel(ylabel)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.axhline(1, color="grey", linewidth=0.8, linestyle=":")
    axes.set_title(title)
    axes.legend(title="STE", loc="lower right", framealpha=0.9)
    figure.savefig(str(path), dpi=150)
    return Path(path)
