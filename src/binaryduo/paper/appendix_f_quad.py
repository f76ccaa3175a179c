"""Appendix F: BinaryDuo-Q, whose decoupled network has exactly the baseline's architecture.

Claim: the coupled network, a quarter of the weights, is worse than BinaryDuo's; fine-tuning brings +1.67 points to
89.72 %, below BinaryDuo (90.44 %) and above the baseline (89.07 %). Ours: results/appendix_f_quad.

Chosen before running: see trainings.py; the baseline gets as many epochs as both stages together in `cpu`. In `hours`
one anneal goes over both stages, so that the coupled network's rate has not fallen yet when it is decoupled: that
fine-tuning improves on it is not judged there.
"""

from matplotlib.figure import Figure

from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import compare_all, numbers_of, select, setting
from binaryduo.paper.experiment import HALF_WIDTH, Experiment, Row, Unit, Verdict
from binaryduo.paper.pictures import bars
from binaryduo.paper_values import CIFAR10


def units(profile: str) -> list[Unit]:
    longer = t.as_long_as_two(profile)
    out = []
    for seed in t.seeds(profile):
        out += [
            t.unit(profile, seed, longer=longer),
            t.unit(profile, seed, stages=2, variant="coupled", levels=3),
            t.unit(profile, seed, stages=2, variant="coupled", levels=3, topology="quad"),
        ]
    return out


PAPER = {
    name: CIFAR10[name.replace(" Q", "-quad")]
    for name in ("baseline", "coupled", "decoupled", "coupled Q", "decoupled Q")
}


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    return {
        "baseline": select(rows, stage="single"),
        "coupled": select(rows, stage="coupled", topology="duo"),
        "decoupled": select(rows, stage="decoupled", topology="duo"),
        "coupled Q": select(rows, stage="coupled", topology="quad"),
        "decoupled Q": select(rows, stage="decoupled", topology="quad"),
    }


def verdicts(rows: list[Row]) -> list[Verdict]:
    pairs = [
        ("coupled", "coupled Q", "Q's coupled network, smaller, is below BinaryDuo's"),
        ("decoupled", "decoupled Q", "BinaryDuo-Q stays below BinaryDuo"),
        ("decoupled Q", "baseline", "BinaryDuo-Q beats the baseline"),
    ]
    if rows[0]["recipe"] != t.HOURS:
        pairs.insert(1, ("decoupled Q", "coupled Q", "fine-tuning improves on Q's coupled network"))
    return compare_all(groups(rows), pairs, PAPER)


def numbers(rows: list[Row]) -> str:
    return numbers_of(groups(rows))


def draw(rows: list[Row]) -> dict[str, Figure]:
    found = [(name, some, PAPER[name]) for name, some in groups(rows).items()]
    return {"quad.png": bars(found, f"BinaryDuo-Q\n{setting(rows[0])}")}


EXPERIMENT = Experiment(
    "appendix_f_quad",
    "Appendix F: BinaryDuo-Q",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=HALF_WIDTH,
    numbers=numbers,
    estimate=t.estimate,
)
