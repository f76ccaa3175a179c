"""Appendix E: a coupled network with two-bit activations, decoupled into three binary ones.

Claim: the coupled 2-bit network (89.61 %) is above the baseline, about as good as the ternary one, but its decoupled
network stays below the one from ternary (90.44 %; its own number is not printed). Ours: results/appendix_e_two_bits.

Chosen before running: see trainings.py.
"""

from matplotlib.figure import Figure

from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import compare, numbers_of, select, setting
from binaryduo.paper.experiment import HALF_WIDTH, Experiment, Row, Unit, Verdict
from binaryduo.paper.pictures import bars
from binaryduo.paper_values import CIFAR10


def units(profile: str) -> list[Unit]:
    return [
        t.unit(profile, seed, stages=2, variant="coupled", levels=levels)
        for seed in t.seeds(profile)
        for levels in (3, 4)
    ]


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    return {
        "coupled ternary": select(rows, stage="coupled", levels=3),
        "decoupled from ternary": select(rows, stage="decoupled", coupled_levels=3),
        "coupled 2-bit": select(rows, stage="coupled", levels=4),
        "decoupled from 2-bit": select(rows, stage="decoupled", coupled_levels=4),
    }


def verdicts(rows: list[Row]) -> list[Verdict]:
    by = groups(rows)
    names = ("decoupled from ternary", "decoupled from 2-bit")
    claim = "the binary network decoupled from ternary is better than the one from 2 bits"
    return [compare(claim, by[names[0]], by[names[1]], names)]


def numbers(rows: list[Row]) -> str:
    return numbers_of(groups(rows))


def draw(rows: list[Row]) -> dict[str, Figure]:
    paper = {
        "coupled ternary": CIFAR10["coupled"],
        "decoupled from ternary": CIFAR10["decoupled"],
        "coupled 2-bit": CIFAR10["coupled:4"],
    }
    found = [(name, some, paper.get(name)) for name, some in groups(rows).items()]
    return {"two_bits.png": bars(found, f"Coupled with two bits\n{setting(rows[0])}")}


EXPERIMENT = Experiment(
    "appendix_e_two_bits",
    "Appendix E: coupled with two bits",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=HALF_WIDTH,
    numbers=numbers,
    estimate=t.estimate,
)
