"""How the accuracies of trained networks are compared.

Judged is the accuracy after the last epoch, because the best epoch is chosen by looking at the test set; the rule is
that of `judging`. Each verdict says how long both sides were trained: equally long, or as in the paper, where two
stages of E epochs each are compared with networks of E epochs. Anything else decides nothing, and neither does a
network of a quarter of the width after three epochs (the profile cpu): that is too small to say.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from binaryduo.paper.experiment import TOO_SMALL, Row, Verdict
from binaryduo.paper.judging import Interval, difference
from binaryduo.paper.trainings import recipe_named

PAPERS = "the paper's comparison"
EQUAL = "equal epochs"


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def shown(rows: Sequence[Row], key: str = "last") -> str:
    """ "61.23 ± 0.40 (n 2)": the mean and the standard deviation over seeds."""
    values = [row[key] for row in rows]
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread} (n {len(values)})"


def both(rows: Sequence[Row]) -> str:
    """Accuracy after the last epoch, and the best epoch's where it is another one."""
    last, best = shown(rows), shown(rows, "best")
    return last if last == best else f"last {last}, best {best}"


def numbers_of(groups: dict[str, list[Row]]) -> str:
    """The accuracies of every group that has rows."""
    return "; ".join(f"{name}: {both(some)}" for name, some in groups.items() if some)


def network_of(row: Row) -> str:
    """The reduced network and data that stand beside every number."""
    return f"{row['network']} at width {row['width']:g} on {row['data']}"


def setting(row: Row) -> str:
    """The same with the epochs."""
    return f"{network_of(row)}, {row['epochs']:g} epochs"


def trained_epochs(row: Row) -> float:
    """How long a network was trained in all: a decoupled one has both stages behind it."""
    if "total_epochs" in row:  # of `ways`, whose recipe has a length of its own
        return float(row["total_epochs"])
    before = recipe_named(row["recipe"]).train.epochs if row["stage"] == "decoupled" else 0
    return float(before + row["epochs"])


def training_of(high: Row, low: Row) -> str:
    """How long both sides were trained, and whether that is a comparison.

    >>> one = {"stage": "single", "recipe": "vgg7-cifar10", "epochs": 200}
    >>> training_of(one | {"stage": "decoupled"}, one)
    "the paper's comparison, 200 + 200 epochs against 200"
    """
    a, b = trained_epochs(high), trained_epochs(low)
    if a == b:
        return f"{EQUAL}, {a:g} each"
    if {high["stage"], low["stage"]} == {"coupled", "decoupled"}:
        return f"{PAPERS}, {min(a, b):g} epochs and {abs(a - b):g} more"
    if "decoupled" in (high["stage"], low["stage"]) and max(a, b) == 2 * min(a, b):
        short = min(a, b)
        return f"{PAPERS}, {short:g} + {short:g} epochs against {short:g}"
    return f"unequal epochs, {a:g} against {b:g}"


def ruling(rows: Sequence[Row], verdict: str, training: str = EQUAL) -> str:
    """The verdict, unless the networks are too small or were trained unequally."""
    if any(is_small(row) for row in rows):
        return TOO_SMALL
    return "undecided" if training.startswith("unequal") else verdict


def is_small(row: Row) -> bool:
    """Whether a network is only of a reduced profile (smoke, cpu)."""
    return str(row["recipe"]).startswith("reproduce-")


def difference_of(high: Sequence[Row], low: Sequence[Row]) -> Interval:
    """How far the accuracy after the last epoch is higher."""
    a, b = ({row["seed"]: row["last"] for row in rows} for rows in (high, low))
    return difference(a, b)


def compare(
    claim: str,
    high: Sequence[Row],
    low: Sequence[Row],
    names: tuple[str, str],
    paper: Mapping[str, float] = {},
) -> Verdict:
    """Is `high` more accurate than `low`? `paper` has the accuracies that the paper prints, by name."""
    if not high or not low:
        return Verdict(claim, "", "not run", "rows are missing")
    found, training = difference_of(high, low), training_of(high[0], low[0])
    evidence = f"{names[0]} {shown(high)}, {names[1]} {shown(low)}: difference {found.shown()}"
    verdict = ruling([*high, *low], found.verdict, training)
    number = f"{names[0]} − {names[1]}: {found.shown()} points"
    printed = f"{paper[names[0]] - paper[names[1]]:+.2f}" if paper.keys() >= set(names) else ""
    return Verdict(claim, f"{training}; {network_of(high[0])}", verdict, evidence, number, printed)


def compare_all(
    groups: dict[str, list[Row]], pairs: Sequence[tuple[str, str, str]], paper: Mapping[str, float] = {}
) -> list[Verdict]:
    """One verdict for each (more accurate group, less accurate group, claim)."""
    return [compare(claim, groups[high], groups[low], (high, low), paper) for high, low, claim in pairs]
