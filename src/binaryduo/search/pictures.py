"""The paper's pictures of a search: contours over weight decay and learning rate, and Figure 6 (right).

Drawn from the JSON of `results` alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from binaryduo.paper_values import CIFAR10
from binaryduo.search.cases import parse_case
from binaryduo.search.results import accuracy_of, ranked

Row = dict[str, Any]
Entry = tuple[int | None, float, float | None, list[float]]  # levels, mean, deviation, single runs

MIN_SIDE = 4  # a contour over fewer values would be invented between them
INK, RED = "#1b1f24", "#d1242f"
KIND_COLOURS = {"baseline": "#57606a", "coupled": "#0a58ca", "scratch": "#9a6700", "decoupled": "#c2410c"}


def draw_contours(results: dict[str, Any], path: Path, names: list[str] | None = None) -> None:
    """One picture a case, each with its own colours: the five best circled, the best in red, its value above.

    Contours need enough settings to be true between them; fewer are drawn as dots with their numbers.
    """
    chosen = [n for n in (names or results["cases"]) if ranked(results["cases"][n]["settings"])]
    if not chosen:
        return
    columns = min(2, len(chosen))
    rows = -(-len(chosen) // columns)
    figure = Figure(figsize=(5.6 * columns, 4.4 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, name in zip(axes, chosen, strict=False):
        case = results["cases"][name]
        shown = _contour(axis, case, _levels([s["mean"] for s in case["settings"] if s["mean"] is not None]))
        bar = figure.colorbar(shown, ax=axis, format="%.1f", pad=0.02)
        bar.set_label(f"{accuracy_of(results)}, mean over repeats (%)", fontsize=9)
    for axis in axes[len(chosen) :]:
        axis.set_axis_off()
    figure.legend(handles=_explained(results, chosen), loc="outside lower center", ncols=3, frameon=False)
    _save(figure, path)


def _explained(results: dict[str, Any], names: list[str]) -> list[Line2D]:
    """What the marks in the pictures of these cases mean."""
    settings = [results["cases"][name]["settings"] for name in names]
    ring: dict[str, Any] = {"marker": "o", "ls": "", "mfc": "none", "mew": 2.0}
    marks = [Line2D([], [], mec=RED, ms=11, label="the best setting", **ring)]
    if any(len(ranked(of)) > 1 for of in settings):
        marks.append(Line2D([], [], mec=INK, ms=9, label="the next four", **ring))
    if any(setting["failed"] for of in settings for setting in of):
        marks.append(Line2D([], [], color=INK, marker="x", ls="", ms=8, label="a training failed"))
    return marks


def _levels(means: list[float]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Colour steps: fine near the best, where the question is; the lowest one holds all that is far below."""
    top = max(means)
    bottom = max(min(means), float(np.quantile(means, 0.25)) - 1.0)
    return np.linspace(min(bottom, top - 0.5), top + 1e-6, 13)


def _contour(axis: Axes, case: Row, levels: "np.ndarray[Any, np.dtype[np.float64]]") -> Any:
    settings = [s for s in case["settings"] if s["mean"] is not None]
    x, y = (np.array([s[key] for s in settings]) for key in ("weight_decay", "lr"))
    z = np.array([s["mean"] for s in settings])
    axis.set_xscale("log")
    axis.set_yscale("log")
    options: dict[str, Any] = {"levels": levels, "cmap": "viridis", "extend": "min"}
    grid = _as_grid(settings, case["axes"])
    if grid is not None:
        shown: Any = axis.contourf(*grid, **options)
        axis.contour(*grid, levels=levels, colors="white", linewidths=0.4, alpha=0.6)
    elif _spread(x, y):
        from matplotlib.tri import Triangulation

        triangles = Triangulation(np.log(x), np.log(y)).triangles  # as near as the axes show them
        shown = axis.tricontourf(Triangulation(x, y, triangles), z, **options)
    else:
        shown = axis.scatter(x, y, c=z, cmap="viridis", vmin=levels[0], vmax=levels[-1], s=120)
        for at in zip(x, y, z, strict=True):
            axis.annotate(
                f"{at[2]:.2f}", at[:2], (0, 12), textcoords="offset points", ha="center", fontsize=9
            )
    axis.plot(x, y, ".", color=INK, ms=2.5, alpha=0.7)
    _mark(axis, case)
    best = ranked(case["settings"], 1)[0]
    spread = "" if best["std"] is None else f" ± {best['std']:.2f}"
    title = f"{case['title']}\nbest: {best['mean']:.2f}{spread} % (n = {best['n']})"
    axis.set_title(title, color=INK, fontsize=11)
    axis.set_xlabel("weight decay")
    axis.set_ylabel("learning rate")
    # Room for the circles at the rim, and above them for their numbers.
    for values, limit, above in ((x, axis.set_xlim, 1), (y, axis.set_ylim, 2 if axis.texts else 1)):
        room = max(float(values.max() / values.min()) ** 0.07, 1.2)
        limit(values.min() / room, values.max() * room**above)
    axis.set_facecolor("#eef0f2")
    return shown


def _mark(axis: Axes, case: Row) -> None:
    """Circles round the five best, the best in red; crosses where trials failed."""
    for place, setting in enumerate(ranked(case["settings"])):
        size, colour = (15, RED) if place == 0 else (12, INK)
        at = (setting["weight_decay"], setting["lr"])
        axis.plot(*at, "o", ms=size, mfc="none", mec="white", mew=4.0, zorder=5)  # seen on any colour
        axis.plot(*at, "o", ms=size, mfc="none", mec=colour, mew=2.0, zorder=6)
    failed = [s for s in case["settings"] if s["failed"]]
    if failed:
        axis.plot([s["weight_decay"] for s in failed], [s["lr"] for s in failed], "x", color=INK, ms=8)


def _as_grid(settings: list[Row], axes: Row) -> tuple[Any, Any, Any] | None:
    """(x, y, z) where every setting lies on the grid and it has enough values a side; holes are masked."""
    decays, rates = axes["weight_decay"], axes["lr"]
    if min(len(decays), len(rates)) < MIN_SIDE:
        return None
    z = np.full((len(rates), len(decays)), np.nan)
    for setting in settings:
        if setting["weight_decay"] not in decays or setting["lr"] not in rates:
            return None
        z[rates.index(setting["lr"]), decays.index(setting["weight_decay"])] = setting["mean"]
    return np.array(decays), np.array(rates), np.ma.masked_invalid(z)


def _spread(x: Any, y: Any) -> bool:
    """Whether the points span an area, so that triangles can be laid between them."""
    if len(x) < MIN_SIDE**2:
        return False
    points = np.stack([np.log(x), np.log(y)])
    return bool(np.linalg.matrix_rank(points - points.mean(1, keepdims=True), tol=1e-6) == 2)


def draw_comparison(results: list[dict[str, Any]], path: Path) -> None:
    """Best accuracy of every case over the levels of its activations, beside the paper's (Figure 6 right)."""
    cases = {name: case for found in results for name, case in found["cases"].items() if case["best"]}
    if not cases:
        return
    recipe = results[0]["search"]["recipe"]
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    entries: dict[str, Entry] = {
        name: (case["levels"], case["best"]["mean"], case["best"]["std"], _runs(case))
        for name, case in cases.items()
    }
    _points(left, entries)
    left.set_title(
        f"ours: {recipe['model']['network']} (width {recipe['model']['width']:g}), {recipe['data']['name']}"
    )
    paper: dict[str, Entry] = {
        name: (parse_case(name).trained_levels, CIFAR10[name], None, []) for name in cases if name in CIFAR10
    }
    if paper:
        _points(right, paper)
        right.set_title("paper: VGG-7, CIFAR-10, 200 epochs")
    else:
        right.set_axis_off()
        right.text(0.5, 0.5, "the paper prints no number\nfor these cases", ha="center", va="center")
    left.set_ylabel(f"best mean {accuracy_of(results[0])} (%)")
    _save(figure, path)


def _runs(case: Row) -> list[float]:
    best = case["best"]
    return [
        t["value"]
        for t in case["trials"]
        if t["state"] == "complete" and all(t[k] == best[k] for k in ("lr", "weight_decay"))
    ]


def _points(axis: Axes, entries: dict[str, Entry]) -> None:
    places = {value: i for i, value in enumerate(sorted({e[0] for e in entries.values()}, key=_precision))}
    seen: dict[int, int] = {}
    for name, (levels, mean, std, runs) in entries.items():
        case = parse_case(name)
        column = places[levels]
        x = column + 0.3 * seen.get(column, 0)
        seen[column] = seen.get(column, 0) + 1
        colour = KIND_COLOURS[case.kind]
        axis.errorbar(x, mean, yerr=std, fmt="o", ms=8, color=colour, capsize=4, label=case.title)
        axis.plot([x] * len(runs), runs, "_", ms=9, color=colour, alpha=0.7)
        above = (0, 9 if std is None else 14)
        top = mean if std is None else mean + std
        text = {"textcoords": "offset points", "fontsize": 9, "color": colour, "ha": "center"}
        axis.annotate(f"{mean:.2f}", (x, top), above, **text)  # type: ignore[arg-type]
    centres = [place + 0.15 * (seen[place] - 1) for place in places.values()]
    axis.set_xticks(centres, [_precision_name(value) for value in places])
    axis.set_xlim(-0.35, max(p + 0.3 * (seen[p] - 1) for p in places.values()) + 0.35)
    axis.margins(y=0.2)
    axis.set_xlabel("activation")
    axis.grid(axis="y", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    if (
        len({parse_case(name).kind for name in entries}) > 1 or max(seen.values()) > 1
    ):  # else the axis says it all
        axis.legend(frameon=False, fontsize=8.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))


def _precision(levels: int | None) -> float:
    return float("inf") if levels is None else levels


def _precision_name(levels: int | None) -> str:
    names = {None: "full precision", 2: "binary", 3: "ternary", 4: "two-bit"}
    return names.get(levels, f"{levels} levels")


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
