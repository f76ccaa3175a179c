"""Figure 2, right: cumulative difference of an STE against the accuracy that it gives.

Claim: sophisticated STEs have a far smaller cumulative difference than ReLU1, yet a binary network trained with
any of them stays far below 2-bit activations. The paper prints no numbers. Ours: results/figure2_accuracy.

Chosen before running: see trainings.py. SwishSign's β is 5 (the paper prints none).
"""

from matplotlib.figure import Figure

import binaryduo as bd
from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import compare, numbers_of, select, setting
from binaryduo.paper.experiment import HALF_WIDTH, Experiment, Row, Unit, Verdict
from binaryduo.paper.pictures import scatter

STES = ("relu1", "steep2", "steep4", "polynomial", "swishsign")


def units(profile: str) -> list[Unit]:
    cases = [(2, ste) for ste in STES] + [(4, "relu1")]
    return [
        t.unit(profile, seed, levels=levels, ste=ste) for seed in t.seeds(profile) for levels, ste in cases
    ]


def verdicts(rows: list[Row]) -> list[Verdict]:
    two_bits = select(rows, levels=4)
    return [
        compare(
            f"2 bits are more accurate than 1 bit with {ste}",
            two_bits,
            select(rows, levels=2, ste=ste),
            ("2 bits", f"1 bit with {ste}"),
        )
        for ste in STES
    ]


def numbers(rows: list[Row]) -> str:
    named = {ste: select(rows, levels=2, ste=ste) for ste in STES}
    return numbers_of({**named, "2 bits": select(rows, levels=4)})


def draw(rows: list[Row]) -> dict[str, Figure]:
    points = [
        (ste, bd.ste.cumulative_difference(ste), [row["last"] for row in some])
        for ste in STES
        if (some := select(rows, levels=2, ste=ste))
    ]
    if some := select(rows, levels=4):
        points.append(
            ("2 bits, relu1", bd.ste.cumulative_difference("relu1", 4), [row["last"] for row in some])
        )
    labels = ("cumulative difference (Eq. 2)", "test accuracy, last epoch (%)")
    return {"accuracy.png": scatter(points, *labels, f"Does the area matter?\n{setting(rows[0])}")}


EXPERIMENT = Experiment(
    "figure2_accuracy",
    "Figure 2, right: accuracy by STE",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=HALF_WIDTH,
    numbers=numbers,
    estimate=t.estimate,
)
