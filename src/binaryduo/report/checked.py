"""What files of a run hold, made safe to show: numbers are finite numbers, the rest is left out and counted.

A report is made of whatever is there. Everything that is read passes here once, so that tables and pictures need not
ask again: a textual or missing value, NaN, a list where a mapping should be.
"""

import math
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

# Of an epoch's line in metrics.jsonl; a line may have others.
EPOCH_NUMBERS = (
    "step",
    "seconds",
    "train_loss",
    "train_top1",
    "train_top5",
    "test_loss",
    "test_top1",
    "test_top5",
)
SETTING_NUMBERS = ("weight_decay", "lr", "mean", "std", "n", "failed")


def number(value: object) -> "int | float | None":
    """The value, if it is a finite number of a size that can be drawn.

    >>> number(3), number(float("nan")), number("3"), number(True), number(10**400)
    (3, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e300 and math.isfinite(value) else None


def mapping(value: object) -> Json:
    """The value, if it is a mapping; else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[Json]:
    """Those entries of a list that are mappings."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def with_numbers(entry: Json, keys: Iterable[str]) -> tuple[Json, int]:
    """The entry without those of the named values that are no numbers, and how many these were; null is no value.

    >>> with_numbers({"name": "a", "loss": float("inf"), "top1": 3.0, "top5": None}, ("loss", "top1", "top5"))
    ({'name': 'a', 'top1': 3.0}, 1)
    """
    wrong = [key for key in keys if key in entry and number(entry[key]) is None]
    kept = {key: value for key, value in entry.items() if key not in wrong}
    return kept, sum(entry[key] is not None for key in wrong)


def epoch(line: Json) -> tuple[Json, int] | None:
    """An epoch's line, and how many of its values were left out; None where it does not say which epoch it is."""
    if line.get("kind") != "epoch" or number(line.get("epoch")) is None:
        return None
    return with_numbers(line, EPOCH_NUMBERS)


def profile(row: Json) -> tuple[Json, int]:
    """A mismatch profile with the layers that have a cosine; an interval that is none is left out."""
    layers, lost = [], 0
    for layer in mappings(row.get("layers")):
        cosine, interval = number(layer.get("cosine")), layer.get("interval")
        if cosine is None:
            lost += 1
            continue
        ends = [number(end) for end in interval] if isinstance(interval, list) else []
        whole = len(ends) == 2 and None not in ends
        lost += interval is not None and not whole
        layers.append(
            {"name": str(layer.get("name", "")), "cosine": cosine, "interval": ends if whole else None}
        )
    total = number(row.get("total"))
    return {"ste": str(row.get("ste", "")), "layers": layers, "total": total}, lost + (total is None)


def search(content: Json) -> tuple[Json, int]:
    """A search's cases with the settings that have a weight decay and a learning rate above zero."""
    cases, lost = {}, 0
    for name, case in mapping(content.get("cases")).items():
        settings = []
        for entry in mappings(mapping(case).get("settings")):
            kept, wrong = with_numbers(entry, SETTING_NUMBERS)
            lost += wrong
            if all(kept.get(key, 0) > 0 for key in ("weight_decay", "lr")):
                settings.append(kept)
        cases[str(name)] = {"title": str(mapping(case).get("title", name)), "settings": settings}
    return {"cases": cases}, lost
