"""When a claim holds: the 95 % interval of the mean difference over seeds lies on its side of zero."""

import math
from collections.abc import Sequence
from statistics import mean, stdev

from binaryduo.paper.experiment import Row

# 97.5 % quantiles of Student's t by degrees of freedom: a difference of means over few seeds needs them.
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def margin(differences: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of the 95 % interval of paired differences over seeds."""
    count = len(differences)
    if count < 2:  # no spread to judge by
        return mean(differences) if differences else math.nan, math.inf
    return mean(differences), _T.get(count - 1, 2.0) * stdev(differences) / math.sqrt(count)


def judge(differences: Sequence[float]) -> str:
    """Is the mean above zero? "holds" / "does not hold" if the interval says so, else "undecided"."""
    middle, half = margin(differences)
    if middle - half > 0:
        return "holds"
    return "does not hold" if middle + half < 0 else "undecided"


def all_of(parts: Sequence[str]) -> str:
    """A claim about several things holds if each does, and fails if one does not."""
    if "does not hold" in parts:
        return "does not hold"
    return "undecided" if "undecided" in parts else "holds"


def by_seed(rows: Sequence[Row], layer: str) -> dict[int, float]:
    """A layer's cosine by seed."""
    return {row["seed"]: row["cosine"][layer] for row in rows if row["cosine"][layer] is not None}


def differences(high: Sequence[Row], low: Sequence[Row], layer: str) -> list[float]:
    """Paired over seeds: high minus low."""
    a, b = by_seed(high, layer), by_seed(low, layer)
    return [a[seed] - b[seed] for seed in sorted(a) if seed in b]
