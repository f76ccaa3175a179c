"""What the study "when does coupling pay?" has found so far, in sentences that were written before the results.

At each budget three differences are looked at, all with one deviation that is pooled over ways and budgets: duo against
the baseline, duo against its own topology from scratch, and that topology against the baseline. They put a budget into
one of five outcomes; the largest budget gives the sentence, smaller ones that say something else are named after it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from binaryduo.paper.experiment import Row
from binaryduo.paper.judging import Interval, Pooled
from binaryduo.paper.ways import WAYS

SHORT = {
    "duo": "coupling pays",
    "topology": "only the topology pays",
    "ahead": "duo is ahead of the baseline, but not shown to be ahead of its topology",
    "behind": "coupling does not pay",
    "undecided": "it is undecided",
}

WORDS = {"baseline": "the baseline", "scratch": "its topology from scratch"}


def of_kind(rows: Sequence[Row], way: str, epochs: int, schedule: str | None = None) -> list[Row]:
    """The rows of all seeds of a way at a budget."""
    return [
        row for row in rows if (row["way"], row["epochs"], row.get("schedule")) == (way, epochs, schedule)
    ]


def accuracies(rows: Sequence[Row], way: str, epochs: int, schedule: str | None = None) -> list[float]:
    """Their accuracies after the last epoch."""
    return [row["last"] for row in of_kind(rows, way, epochs, schedule)]


def pooled(rows: Sequence[Row]) -> Pooled:
    """How much runs that differ in their seed only scatter, over all ways and budgets."""
    kinds = dict.fromkeys((row["way"], row["epochs"], row.get("schedule")) for row in rows)
    return Pooled.of([accuracies(rows, *kind) for kind in kinds])


@dataclass(frozen=True)
class Comparison:
    """Duo and the two others at one budget."""

    epochs: int
    over_baseline: Interval
    over_scratch: Interval
    topology: Interval  # the topology from scratch, above the baseline

    @property
    def outcome(self) -> str:
        """One of the keys of SHORT."""
        baseline, scratch = self.over_baseline.verdict, self.over_scratch.verdict
        if (baseline, scratch) == ("holds", "holds"):
            return "duo"
        if self.topology.verdict == "holds" and scratch != "holds":
            return "topology"
        if "does not hold" in (baseline, scratch):
            return "behind"
        return "ahead" if baseline == "holds" else "undecided"


def comparisons(rows: Sequence[Row]) -> list[Comparison]:
    """Every budget that all three ways were trained for, the smallest first."""
    scatter, out = pooled(rows), []
    for epochs in sorted({row["epochs"] for row in rows if row.get("schedule") is None}):
        baseline, scratch, duo = (accuracies(rows, way, epochs) for way in WAYS)
        if baseline and scratch and duo:
            out.append(
                Comparison(
                    epochs,
                    scatter.difference(duo, baseline),
                    scatter.difference(duo, scratch),
                    scatter.difference(scratch, baseline),
                )
            )
    return out


def sentence(rows: Sequence[Row]) -> str:
    """The answer at equal epochs, as far as it is known."""
    found = comparisons(rows)
    if not found:
        return "When coupling pays is open: no budget has runs of all three ways yet."
    last = found[-1]
    since = last.epochs
    for comparison in reversed(found):
        if comparison.outcome != last.outcome:
            break
        since = comparison.epochs
    when = f"at {since} epochs" if since == last.epochs else f"from {since} epochs on"
    text = _SENTENCES[last.outcome](last, when)
    others = [f"at {c.epochs} epochs {SHORT[c.outcome]}" for c in found if c.epochs < since]
    return text + (f" Otherwise before: {', '.join(others)}." if others else "")


def _against_both(found: Comparison) -> str:
    return (
        f"with {found.epochs} epochs duo is at {found.over_baseline.shown()} points against the baseline and at "
        f"{found.over_scratch.shown()} against its own topology trained from scratch"
    )


def _duo(found: Comparison, when: str) -> str:
    return f"Coupling pays {when}: {_against_both(found)}."


def _topology(found: Comparison, when: str) -> str:
    return (
        f"The topology pays and coupling is not shown to add to it, {when}: with {found.epochs} epochs the decoupled "
        f"topology trained from scratch is at {found.topology.shown()} points against the baseline, and duo at "
        f"{found.over_scratch.shown()} against that topology."
    )


def _ahead(found: Comparison, when: str) -> str:
    open_ = "whether by coupling or by its topology is open"
    return f"Duo is ahead of the baseline {when}, {open_}: {_against_both(found)}."


def _behind(found: Comparison, when: str) -> str:
    return f"Coupling does not pay {when}: {_against_both(found)}."


def _undecided(found: Comparison, when: str) -> str:
    both = (found.over_baseline, found.over_scratch)
    if any(interval.half == float("inf") for interval in both):
        return (
            f"Undecided {when}: with one seed only, or seeds that agree, nothing shows how much runs scatter."
        )
    bound = max(abs(interval.middle) + interval.half for interval in both)
    return f"Undecided within ±{bound:.2f} points {when}: {_against_both(found)}."


_SENTENCES = {
    "duo": _duo,
    "topology": _topology,
    "ahead": _ahead,
    "behind": _behind,
    "undecided": _undecided,
}


def papers_sentence(rows: Sequence[Row], epochs: int, schedule: str | None = None) -> str | None:
    """The paper's comparison: E + E epochs of duo against E of the others; None where a side is missing."""
    duo = accuracies(rows, "duo", 2 * epochs, schedule)
    others = {way: accuracies(rows, way, epochs, schedule) for way in ("baseline", "scratch")}
    if not duo or not all(others.values()):
        return None
    scatter = pooled(rows)
    how = " with its step schedule" if schedule == "step" else ""
    text = " and at ".join(
        f"{scatter.difference(duo, values).shown()} against {WORDS[way]}" for way, values in others.items()
    )
    counts = [len(duo), *map(len, others.values())]
    seeds = str(counts[0]) if len(set(counts)) == 1 else "{}, {} and {}".format(*counts)
    return f"As the paper compares{how} ({epochs} + {epochs} epochs against {epochs}, n {seeds}), duo is at {text}."


def at_equal_minutes(
    rows: Sequence[Row], epochs: int, way: str, minutes: Callable[[str, int], float]
) -> Interval | None:
    """Duo with so many epochs against a way that trains for as many minutes.

    The other way's accuracy is interpolated over the logarithm of the minutes, by the parabola through its three
    nearest budgets: accuracies rise less from each doubling to the next, and a line would lie below them. None where it
    has fewer budgets, or none on one of the sides. The interval is of the seeds alone.
    """
    duo, now = accuracies(rows, "duo", epochs), math.log(minutes("duo", epochs))
    budgets = {row["epochs"] for row in rows if row["way"] == way and row.get("schedule") is None}
    at = {budget: math.log(minutes(way, budget)) for budget in budgets}
    if not duo or len(at) < 3 or not min(at.values()) <= now <= max(at.values()):
        return None
    nearest = sorted(at, key=lambda budget: abs(at[budget] - now))[:3]
    parts = [(1.0, duo)]
    for budget in nearest:  # Lagrange's weights
        others = [at[other] for other in nearest if other != budget]
        weight = math.prod((now - x) / (at[budget] - x) for x in others)
        parts.append((-weight, accuracies(rows, way, budget)))
    return pooled(rows).contrast(parts)


def minutes_sentence(rows: Sequence[Row], minutes: Callable[[str, int], float]) -> str | None:
    """The comparison at equal minutes of the largest budget of duo that has one."""
    for epochs in sorted({row["epochs"] for row in rows if row["way"] == "duo"}, reverse=True):
        found = {way: at_equal_minutes(rows, epochs, way, minutes) for way in WORDS}
        text = " and at ".join(
            f"{interval.shown()} against {WORDS[way]}"
            for way, interval in found.items()
            if interval is not None
        )
        if text:
            return (
                f"At equal minutes, for which the others are interpolated between their budgets, duo with {epochs} "
                f"epochs ({minutes('duo', epochs):.0f} minutes) is at {text}."
            )
    return None
