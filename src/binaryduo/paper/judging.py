"""When a claim holds: one rule for every comparison over seeds.

A claim says that one mean is above another. It holds where Student's 95 % interval of the difference lies above zero,
does not hold where it lies below, and is undecided where it contains zero or where there is no spread to judge by.
The difference is paired where both sides have the same seeds, else its interval is Welch's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev, variance

from binaryduo.paper.experiment import Row
from binaryduo.paper.student import quantile


@dataclass(frozen=True)
class Interval:
    """A difference of means and the half width of its 95 % interval."""

    middle: float
    half: float

    @property
    def verdict(self) -> str:
        """Is the difference above zero?"""
        if self.middle - self.half > 0:
            return "holds"
        return "does not hold" if self.middle + self.half < 0 else "undecided"

    def shown(self, digits: int = 2) -> str:
        """ "+1.25 ± 0.40", or "+1.25 ± ?" where nothing shows how much runs scatter."""
        if math.isinf(self.half):
            return f"{self.middle:+.{digits}f} ± ?"
        return f"{self.middle:+.{digits}f} ± {self.half:.{digits}f}"


def _interval(middle: float, half: float) -> Interval:
    """Runs that agree to the last digit, by chance or because nothing is random, do not say how much others scatter."""
    return Interval(middle, half if half > 1e-9 else math.inf)


def paired(differences: Sequence[float]) -> Interval:
    """The mean of paired differences over seeds.

    >>> paired([1.0, 2.0, 3.0]).shown()
    '+2.00 ± 2.48'
    """
    count = len(differences)
    if count < 2:  # no spread to judge by
        return Interval(mean(differences) if differences else math.nan, math.inf)
    return _interval(mean(differences), quantile(count - 1) * stdev(differences) / math.sqrt(count))


def welch(high: Sequence[float], low: Sequence[float]) -> Interval:
    """The difference of two means whose runs do not pair, with Welch's degrees of freedom."""
    middle = mean(high) - mean(low)
    if min(len(high), len(low)) < 2:
        return Interval(middle, math.inf)
    a, b = variance(high) / len(high), variance(low) / len(low)
    if a + b == 0:
        return Interval(middle, math.inf)
    df = (a + b) ** 2 / (a**2 / (len(high) - 1) + b**2 / (len(low) - 1))
    return _interval(middle, quantile(df) * math.sqrt(a + b))


def difference(high: Mapping[int, float], low: Mapping[int, float]) -> Interval:
    """High minus low, each by seed: paired where the seeds are the same.

    >>> difference({0: 2.0, 1: 3.0}, {0: 1.0, 1: 2.5}).middle
    0.75
    """
    if high.keys() == low.keys():
        return paired([high[seed] - low[seed] for seed in sorted(high)])
    return welch(list(high.values()), list(low.values()))


@dataclass(frozen=True)
class Pooled:
    """One standard deviation for all groups of runs, for groups that are too small to have their own."""

    deviation: float
    df: int

    @classmethod
    def of(cls, groups: Sequence[Sequence[float]]) -> "Pooled":
        """From the scatter of each group round its own mean."""
        df = sum(len(group) - 1 for group in groups if group)
        if df == 0:
            return cls(math.nan, 0)
        squares = sum((value - mean(group)) ** 2 for group in groups if group for value in group)
        return cls(math.sqrt(squares / df), df)

    def difference(self, high: Sequence[float], low: Sequence[float]) -> Interval:
        """The difference of two means; also of single runs, as long as others say how much runs scatter."""
        return self.contrast([(1.0, high), (-1.0, low)])

    def contrast(self, parts: Sequence[tuple[float, Sequence[float]]]) -> Interval:
        """A weighted sum of means of groups: (weight, values) each.

        >>> Pooled(1.0, 100).contrast([(1.0, [4.0]), (-0.5, [2.0]), (-0.5, [3.0])]).shown()
        '+1.50 ± 2.43'
        """
        middle = sum(weight * mean(values) for weight, values in parts)
        if self.df == 0:
            return Interval(middle, math.inf)
        spread = math.sqrt(sum(weight**2 / len(values) for weight, values in parts))
        return _interval(middle, quantile(self.df) * self.deviation * spread)


def all_of(parts: Sequence[str]) -> str:
    """A claim about several things holds if each does, and fails if one does not."""
    if "does not hold" in parts:
        return "does not hold"
    return "undecided" if "undecided" in parts else "holds"


def by_seed(rows: Sequence[Row], layer: str) -> dict[int, float]:
    """A layer's cosine by seed."""
    return {row["seed"]: row["cosine"][layer] for row in rows if row["cosine"][layer] is not None}


def gap(high: Sequence[Row], low: Sequence[Row], layer: str) -> Interval:
    """How far a layer's cosine is higher, paired over the seeds that both have."""
    a, b = by_seed(high, layer), by_seed(low, layer)
    return paired([a[seed] - b[seed] for seed in sorted(a) if seed in b])
