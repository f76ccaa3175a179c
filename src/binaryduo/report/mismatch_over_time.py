"""The gradient mismatch over a training, as a heat map: layers from top to bottom, epochs from left to right."""

from pathlib import Path

from binaryduo._common.hostile import MEGABYTE, parse_json, read_bytes
from binaryduo.errors import BinaryDuoError, DataError
from binaryduo.mismatch.time_plot import TITLES
from binaryduo.report import checked
from binaryduo.report.checked import Json
from binaryduo.report.runs import RunView

MOST = 4000  # lines that are looked at

QUANTITIES = {name: TITLES[name] for name in ("cosine", "flipped", "never_flipped", "outside")}


def profiles(path: Path) -> list[Json]:
    """The lines of kind "profile" of a metrics.jsonl, as far as they can be read."""
    try:
        lines = read_bytes(path, "the metrics", DataError, limit=1024 * MEGABYTE).splitlines()
    except BinaryDuoError:
        return []
    found: list[Json] = []
    for line in lines:
        if b'"profile"' not in line or len(found) == MOST:
            continue
        try:
            entry = checked.mapping(parse_json(line, "a line of the metrics", DataError, finite=False))
        except BinaryDuoError:
            continue
        if entry.get("kind") == "profile" and checked.number(entry.get("epoch")) is not None:
            found.append(entry)
    return found


def heat_map(run: RunView, quantity: str) -> Json | None:
    """Both stages one after the other, the moment of decoupling marked; None where nothing was measured."""
    times: list[float] = []
    columns: list[dict[str, float]] = []
    borders: list[float] = []
    start = 0.0
    for number, stage in enumerate(run.stages):
        folder = run.path if stage.name == "single" else run.path / stage.name
        if number > 0:
            borders.append(start)
        for line in profiles(folder / "metrics.jsonl"):
            values = {
                key.partition("/")[2]: value
                for key, text in line.items()
                if key.startswith(f"{quantity}/") and (value := checked.number(text)) is not None
            }
            times.append(start + float(line["epoch"]))
            columns.append(values)
        start += float(stage.epochs[-1]["epoch"]) if stage.epochs else 0.0
    layers = list(dict.fromkeys(name for column in columns for name in column))
    if not layers:
        return None
    low, high = (-1, 1) if quantity == "cosine" else (0, 1)
    heat: Json = {
        "type": "heatmap",
        "x": times,
        "y": layers,
        "z": [[column.get(name) for column in columns] for name in layers],
        "zmin": low,
        "zmax": high if quantity != "flipped" else None,
        "colorscale": "RdBu" if quantity == "cosine" else "Viridis",
        "colorbar": {"thickness": 12},
        "hovertemplate": "%{y}<br>epoch %{x:.2f}<br>%{z:.3f}<extra></extra>",
    }
    marks = [
        {
            "type": "line",
            "x0": at,
            "x1": at,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"dash": "dot", "width": 2},
        }
        for at in borders
    ]
    notes = [
        {"x": at, "y": 1.02, "yref": "paper", "yanchor": "bottom", "text": "decoupled", "showarrow": False}
        for at in borders
    ]
    return {
        "data": [heat],
        "layout": {
            "title": {"text": QUANTITIES[quantity], "x": 0, "xanchor": "left", "font": {"size": 15}},
            "xaxis": {"title": {"text": "epoch"}, "automargin": True, "zeroline": False},
            "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
            "margin": {"l": 50, "r": 14, "t": 62, "b": 50},
            "height": 170 + 26 * len(layers),
            "shapes": marks,
            "annotations": notes,
        },
    }
