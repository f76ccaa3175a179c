"""The gradient mismatch over a training, as a heat map: layers from top to bottom, epochs from left to right."""

from pathlib import Path

from binaryduo._common.hostile import MEGABYTE, parse_json, read_bytes
from binaryduo.errors import BinaryDuoError, DataError
from binaryduo.report import checked
from binaryduo.report.checked import Json
from binaryduo.report.runs import RunView

MOST = 4000  # lines that are looked at

# What is shown: its title, short enough for a phone, and what to read in it.
QUANTITIES = {
    "cosine": (
        "Cosine between coarse gradient and CDG",
        "Blue means that training follows the loss, red that it goes the other way. A cell is empty where one of "
        "the two gradients is zero and has no direction.",
    ),
    "slopes": (
        "Slope along the coarse gradient",
        "How much steeper the loss is along the coarse gradient than along random directions, all weights of a layer "
        "moving together, as a cosine: less noise than single weights. Blue means that training follows the loss.",
    ),
    "flipped": (
        "Weight signs flipped since last time",
        "The share of each layer's weights whose sign has changed since the column before.",
    ),
    "never_flipped": (
        "Weight signs that never flipped",
        "The share of each layer's weights whose sign has never changed since the start.",
    ),
    "outside": (
        "Activations outside the STE's support",
        "The share of each layer's activations where the STE's derivative is zero: no gradient passes there.",
    ),
}


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
    signed = quantity in ("cosine", "slopes")
    low, high = (-1, 1) if signed else (0, 1)
    heat: Json = {
        "type": "heatmap",
        "x": times,
        "y": layers,
        "z": [[column.get(name) for column in columns] for name in layers],
        "zmin": low,
        "zmax": high if quantity != "flipped" else None,
        "colorscale": "RdBu" if signed else "Viridis",
        "reversescale": signed,
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
            "title": {"text": QUANTITIES[quantity][0], "x": 0, "xanchor": "left", "font": {"size": 15}},
            "xaxis": {"title": {"text": "epoch"}, "automargin": True, "zeroline": False},
            "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
            "margin": {"l": 50, "r": 14, "t": 62, "b": 50},
            "height": 170 + 26 * len(layers),
            "shapes": marks,
            "annotations": notes,
        },
    }
