"""The mismatch over a training as a picture file: layers from top to bottom, epochs from left to right."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from binaryduo.errors import ArgumentError

TITLES = {
    "cosine": "Cosine between coarse gradient and CDG",
    "slopes": "Slope along the coarse gradient against random directions (cosine)",
    "flipped": "Share of weight signs flipped since the last time",
    "never_flipped": "Share of weight signs that have never flipped",
    "outside": "Share of activations outside of the STE's support",
}


def cells(lines: Sequence[Mapping[str, Any]], quantity: str) -> tuple[list[str], list[list[float]]]:
    """The layers, and for each its values over time; NaN where a line has none.

    >>> cells([{"kind": "profile", "cosine/fc": 0.5}, {"kind": "profile", "cosine/fc": None}], "cosine")
    (['fc'], [[0.5, nan]])
    """
    mark = f"{quantity}/"
    profiles = [line for line in lines if line["kind"] == "profile"]
    names = list(
        dict.fromkeys(key.removeprefix(mark) for line in profiles for key in line if key.startswith(mark))
    )
    found = [[line.get(mark + name) for line in profiles] for name in names]
    return names, [[float("nan") if value is None else float(value) for value in row] for row in found]


def undecided(lines: Sequence[Mapping[str, Any]], layer: str) -> list[bool]:
    """Of each line whether the interval of this layer's cosine holds zero.

    >>> undecided([{"kind": "profile", "cosine_low/fc": -0.1, "cosine_high/fc": 0.4}], "fc")
    [True]
    """
    ends = [
        (line.get(f"cosine_low/{layer}"), line.get(f"cosine_high/{layer}"))
        for line in lines
        if line["kind"] == "profile"
    ]
    return [low is not None and high is not None and low <= 0 <= high for low, high in ends]


def plot_over_time(
    lines: Sequence[Mapping[str, Any]], path: "str | Path", quantities: Sequence[str] = ("cosine",)
) -> Path:
    """Draw heat maps of the lines that `on_profile` was called with; returns the picture's path.

    A dotted line is the moment of decoupling, where there is one among the lines (of `training.duo`). A dot in a cell
    of the cosine says that its interval holds zero: nothing is decided there.
    """
    from matplotlib.figure import Figure

    for quantity in quantities:
        if quantity not in TITLES:
            raise ArgumentError(f"unknown quantity {quantity!r}: choose one of {', '.join(TITLES)}")
    borders = [_time(line) for line in lines if line["kind"] == "decoupling"]
    times = [_time(line) for line in lines if line["kind"] == "profile"]
    if not times:
        raise ArgumentError("there is no line of kind profile to draw: set loop.profile_every")
    tables = [cells(lines, quantity) for quantity in quantities]
    height = sum(1.3 + 0.28 * len(names) for names, _ in tables)
    figure = Figure(figsize=(8.5, height), layout="constrained")
    axes = figure.subplots(
        len(tables), 1, squeeze=False, sharex=True, height_ratios=[len(t[0]) + 3 for t in tables]
    )
    for axis, quantity, (names, values) in zip(axes[:, 0], quantities, tables, strict=True):
        axis.set_facecolor("#d0d7de")  # where a line has no number
        signed = quantity in ("cosine", "slopes")
        low, high, colours = (-1.0, 1.0, "RdBu") if signed else (0.0, None, "viridis")
        if quantity in ("never_flipped", "outside"):
            high = 1.0
        if high is None:
            high = max((v for row in values for v in row if v == v), default=1.0)
        for part, edges in _stages(times, borders):
            shown = [row[part] for row in values]
            mesh = axis.pcolormesh(edges, range(len(names) + 1), shown, vmin=low, vmax=high, cmap=colours)
        if quantity == "cosine":
            for row, name in enumerate(names):
                at = [time for time, open_ in zip(times, undecided(lines, name), strict=True) if open_]
                axis.plot(at, [row + 0.5] * len(at), ".", color="#1b1f24", ms=3)
        for border in borders:
            axis.axvline(border, color="#1b1f24", ls=":", lw=1.8)
            text = {"textcoords": "offset points", "fontsize": 8, "annotation_clip": False}
            axis.annotate("decoupled", (border, 0), (3, 3), **text)
        axis.set_yticks([row + 0.5 for row in range(len(names))], names, fontsize=8)
        axis.invert_yaxis()
        axis.set_title(TITLES[quantity], fontsize=10, loc="left", pad=16)
        figure.colorbar(mesh, ax=axis, pad=0.01, aspect=12)
    axes[-1, 0].set_xlabel("epoch, both stages counted through" if borders else "epoch")
    figure.savefig(str(path), dpi=130, metadata={"Software": None})
    return Path(path)


def _time(line: Mapping[str, Any]) -> float:
    return float(line.get("total_epoch", line["epoch"]))


def _stages(times: Sequence[float], borders: Sequence[float]) -> list[tuple[slice, list[float]]]:
    """The lines of each stage, and where their cells begin and end: half way between two lines, never past a border.

    >>> _stages([1.0, 2.0, 3.5], borders=[3.0])
    [(slice(0, 2, None), [0.0, 1.5, 3.0]), (slice(2, 3, None), [3.0, 3.5])]
    """
    found, begin = [], 0.0
    for end in (*borders, times[-1]):
        own = [i for i, time in enumerate(times) if begin < time <= end]
        if own:
            part = slice(own[0], own[-1] + 1)
            middle = [(a + b) / 2 for a, b in pairwise(times[part])]
            found.append((part, [begin, *middle, end]))
        begin = end
    return found
