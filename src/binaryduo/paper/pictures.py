"""The pictures that several experiments share: every point a seed, the mean as a bar or a line, the paper beside it."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from binaryduo.paper.experiment import Row

OURS, PAPER, INK = "#0a58ca", "#c2410c", "#1b1f24"
COLOURS = ("#1b1f24", "#0a58ca", "#0f766e", "#b45309", "#be123c")


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)


def bars(groups: Sequence[tuple[str, Sequence[Row], float | None]], title: str) -> Figure:
    """Mean accuracy after the last epoch as bars, each seed as a dot, the best epoch as a dash.

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
    """Every seed a dot, a dash at the mean, and one line a series through its means where it has several places."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for (name, at, values), colour in zip(series, COLOURS, strict=False):
        style = "o-" if len(at) > 1 else "o"  # the legend shows what is drawn
        axes.plot([], [], style, color=colour, label=name)
        axes.plot(at, [sum(v) / len(v) for v in values], style[1:] or "none", color=colour, marker="_", ms=18)
        for place, found in zip(at, values, strict=True):
            axes.plot([place] * len(found), found, "o", color=colour, ms=5)
    places = sorted({place for _, at, _ in series for place in at})
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.margins(x=0.25, y=0.15)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10.5)
    axes.legend(framealpha=0.9)
    _tidy(axes)
    return figure


def scatter_on(
    axes: Axes, points: Sequence[tuple[str, float, Sequence[float]]], x: str, y: str, title: str
) -> None:
    """Named points (name, x, y of each seed) with their range; `label_points` puts the names beside them."""
    for name, at, values in points:
        mean = sum(values) / len(values)
        quantized = name.split(",")[0] in ("2 bits", "3 bits", "4 bits", "ternary", "full precision")
        colour = OURS if quantized else PAPER
        axes.errorbar(
            at, mean, [[mean - min(values)], [max(values) - mean]], fmt="o", color=colour, capsize=3
        )
    axes.margins(0.2, 0.12)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=10.5)
    _tidy(axes)


# Where a name may stand, the best first: (horizontal, vertical) as parts of its own size beside the point.
_SIDES = (
    (1, 0),
    (-1, 0),
    (0, 1),
    (0, -1),
    (1, 1),
    (1, -1),
    (-1, 1),
    (-1, -1),
    (1, 2),
    (1, -2),
    (-1, 2),
    (-1, -2),
)


def label_points(axes: Axes, points: Sequence[tuple[str, float, Sequence[float]]], size: float = 8.5) -> None:
    """Write each name where it covers neither a point nor another name; call it when the axes are as they stay."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # fixes the layout, so that places on the paper are known
    unit = figure.dpi / 72
    frame = axes.get_window_extent()
    taken = []
    for _, at, values in points:
        low, high = (axes.transData.transform((at, value)) for value in (min(values), max(values)))
        room = 5 * unit
        taken.append(Bbox([[low[0] - room, low[1] - room], [high[0] + room, high[1] + room]]))
    for name, at, values in points:
        x, y = axes.transData.transform((at, sum(values) / len(values)))
        width, height = 0.56 * size * len(name) * unit, 1.15 * size * unit
        boxes = []
        for right, up in _SIDES:
            left = x + right * (width / 2 + 7 * unit) - width / 2
            bottom = y + up * (height / 2 + 5 * unit) - height / 2
            boxes.append(Bbox.from_bounds(left, bottom, width, height))
        box = min(boxes, key=lambda box: _covered(box, taken, frame))
        taken.append(box)
        middle = ((box.x0 + box.x1) / 2 - x, (box.y0 + box.y1) / 2 - y)
        offset = (middle[0] / unit, middle[1] / unit)
        text = {"textcoords": "offset points", "fontsize": size, "ha": "center", "va": "center"}
        axes.annotate(name, (at, sum(values) / len(values)), offset, **text)  # type: ignore[arg-type]


def _covered(box: Bbox, taken: Sequence[Bbox], frame: Bbox) -> float:
    """How much of what is there a name would cover, or how much of it would stick out."""
    hidden = box.width * box.height - _shared(box, frame)
    return hidden + sum(_shared(box, other) for other in taken)


def _shared(one: Bbox, other: Bbox) -> float:
    found = Bbox.intersection(one, other)
    return 0.0 if found is None else float(found.width * found.height)


def scatter(points: Sequence[tuple[str, float, Sequence[float]]], x: str, y: str, title: str) -> Figure:
    """A picture of its own of named points."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    scatter_on(axes, points, x, y, title)
    label_points(axes, points)
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
