"""The interactive pictures of the HTML report, as plain Plotly figures (dictionaries); colours come from the page."""

from typing import Any

from binaryduo.report.checked import Json
from binaryduo.report.headline import best_setting
from binaryduo.report.runs import RunView

# Colours that can be told apart by people who see few colours, on light and on dark ground.
PALETTE = ("#3b82f6", "#e07b39", "#10a37f", "#c45ab3", "#b8860b", "#64748b")
BEST = "#ef4444"  # the best setting of a search, here and in the pictures of `binaryduo search`


def _layout(title: str, x: str, y: str, **more: Any) -> Json:
    axis = {"zeroline": False, "automargin": True, "exponentformat": "e"}
    return {
        "title": {"text": title, "x": 0, "xanchor": "left", "font": {"size": 15}},
        "xaxis": {**axis, "title": {"text": x}},
        "yaxis": {**axis, "title": {"text": y}},
        "margin": {"l": 50, "r": 14, "t": 46, "b": 50},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        "hovermode": "x unified",
        **more,
    }


def learning_curves(run: RunView, quantity: str) -> Json | None:
    """Training and test curves of both stages one after the other, the moment of decoupling marked.

    `quantity` is "top1" or "loss".
    """
    traces: list[Json] = []
    shapes: list[Json] = []
    notes: list[Json] = []
    start = 0.0
    for number, stage in enumerate(run.stages):
        if not stage.epochs:
            continue
        if number > 0:
            shapes.append(
                {
                    "type": "line",
                    "x0": start,
                    "x1": start,
                    "y0": 0,
                    "y1": 1,
                    "yref": "paper",
                    "line": {"dash": "dot"},
                }
            )
            notes.append(
                {
                    "x": start,
                    "y": 1,
                    "yref": "paper",
                    "text": "decoupled",
                    "showarrow": False,
                    "xanchor": "left",
                }
            )
        colour = PALETTE[number % len(PALETTE)]
        for split, dash, lines in (("train", "dot", stage.epochs), ("test", "solid", stage.tested())):
            key = f"{split}_{quantity}"
            points = [(start + line["epoch"], line[key]) for line in lines if key in line]
            if points:
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "lines+markers" if len(points) < 60 else "lines",
                        "name": f"{stage.title}, {'training' if split == 'train' else 'test'}",
                        "x": [p[0] for p in points],
                        "y": [p[1] for p in points],
                        "line": {"color": colour, "dash": dash},
                    }
                )
        start += float(stage.epochs[-1]["epoch"])
    if not traces:
        return None
    if quantity == "top1" and run.decoupled_before is not None and len(run.stages) > 1:
        at = float(run.stages[0].epochs[-1]["epoch"]) if run.stages[0].epochs else 0.0
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "decoupled, before fine-tuning",
                "x": [at],
                "y": [run.decoupled_before],
                "marker": {"symbol": "diamond", "size": 11, "color": PALETTE[2]},
            }
        )
    names = {"top1": ("Accuracy", "top-1 (%)"), "loss": ("Loss", "cross-entropy")}
    title, unit = names[quantity]
    layout = _layout(title, "epoch", unit, shapes=shapes, annotations=notes)
    layout["xaxis"] |= {"tick0": 0, "dtick": whole_step(start)}
    layout["yaxis"]["hoverformat"] = ".2f" if quantity == "top1" else ".4f"
    return {"data": traces, "layout": layout}


def whole_step(epochs: float) -> int:
    """The distance between ticks: whole epochs, about eight of them.

    >>> whole_step(3), whole_step(20), whole_step(200)
    (1, 5, 50)
    """
    step = 1
    while step * 8 < epochs:
        step = int(step * (2.5 if str(step)[0] == "2" else 2))
    return step


def mismatch_bars(profiles: list[Json]) -> Json:
    """Cosine between coarse gradient and CDG, layer by layer, with its interval; one colour an STE."""
    traces = []
    for number, profile in enumerate(profiles):
        layers = profile["layers"]
        names = [layer["name"] for layer in layers] + ["total"]
        values = [layer["cosine"] for layer in layers] + [profile["total"]]
        ends = [layer["interval"] or [layer["cosine"]] * 2 for layer in layers]
        low = [max(0.0, layer["cosine"] - end[0]) for layer, end in zip(layers, ends, strict=True)] + [0.0]
        high = [max(0.0, end[1] - layer["cosine"]) for layer, end in zip(layers, ends, strict=True)] + [0.0]
        traces.append(
            {
                "type": "bar",
                "name": str(profile.get("ste", "")),
                "x": names,
                "y": values,
                "marker": {"color": PALETTE[number % len(PALETTE)]},
                "error_y": {"type": "data", "symmetric": False, "array": high, "arrayminus": low},
            }
        )
    layout = _layout("Gradient mismatch", "layer", "cosine (coarse gradient, CDG)", barmode="group")
    return {"data": traces, "layout": layout}


def cost_bars(names: list[str], bits: list[float], operations: list[float]) -> Json:
    """Share of each layer in the parameters' bits and in the operations."""
    traces = [
        {"type": "bar", "name": name, "x": names, "y": _shares(values), "marker": {"color": PALETTE[number]}}
        for number, (name, values) in enumerate((("parameter bits", bits), ("operations", operations)))
    ]
    return {"data": traces, "layout": _layout("Where the cost is", "layer", "share (%)", barmode="group")}


def _shares(values: list[float]) -> list[float]:
    total = sum(values) or 1.0
    return [round(100 * value / total, 3) for value in values]


def settings(case: Json) -> Json | None:
    """A search's accuracies over decay and rate, the best setting ringed.

    From four values a side on, contours on logarithmic axes with a dot for every setting; fewer are cells with their
    numbers, because nothing is known between them.
    """
    found = [s for s in case["settings"] if s.get("mean") is not None]
    if not found:
        return None
    decays = sorted({s["weight_decay"] for s in found})
    rates = sorted({s["lr"] for s in found})
    means = {(s["weight_decay"], s["lr"]): s["mean"] for s in found}
    grid = [[means.get((decay, rate)) for decay in decays] for rate in rates]
    best = best_setting(case)
    many = min(len(decays), len(rates)) >= 4
    x, y = (decays, rates) if many else ([f"{v:g}" for v in decays], [f"{v:g}" for v in rates])
    bar = {"title": {"text": "top-1 (%)"}, "thickness": 12}
    common = {"x": x, "y": y, "z": grid, "colorscale": "Viridis", "colorbar": bar}
    traces: list[Json]
    if many:
        traces = [
            {"type": "contour", "connectgaps": False, "hoverinfo": "skip", **common},
            _marks(
                "settings",
                found,
                True,
                {"size": 6, "color": "#ffffff", "line": {"color": "#1b1f24", "width": 1}},
            ),
        ]
    else:
        label = {"texttemplate": "%{z:.2f}", "xgap": 3, "ygap": 3}
        hover = "decay %{x}, rate %{y}: %{z:.2f} %<extra></extra>"
        traces = [{"type": "heatmap", "hovertemplate": hover, **label, **common}]
    title = case["title"]
    ring = {
        "size": 26 if many else 46,
        "symbol": "circle-open",
        "color": BEST,
        "line": {"width": 3, "color": BEST},
    }
    if best is not None:
        traces.append(_marks("best", [best], many, ring))
        title += f": best {best['mean']:.2f} %"
    layout = _layout(title, "weight decay", "learning rate", hovermode="closest", showlegend=False)
    layout["xaxis"]["type"] = layout["yaxis"]["type"] = "log" if many else "category"
    return {"data": traces, "layout": layout}


def _marks(name: str, found: list[Json], many: bool, marker: Json) -> Json:
    """A mark at each of these settings."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [s["weight_decay"] if many else f"{s['weight_decay']:g}" for s in found],
        "y": [s["lr"] if many else f"{s['lr']:g}" for s in found],
        "text": [f"{s['mean']:.2f} % (n {s.get('n', 1)})" for s in found],
        "hovertemplate": "decay %{x}, rate %{y}: %{text}<extra></extra>",
        "marker": marker,
    }
