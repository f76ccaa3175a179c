"""Figure 1a: test accuracy of VGG-7 on CIFAR-10 with full-precision, 4-, 3-, 2- and 1-bit activations.

Claim: the step from 2 bits to 1 bit costs far more than any step before it. The paper prints no numbers for
its bars (its binary baseline is 89.07 % in Section 6.1). Ours: results/figure1a_precision.

Chosen before running: see trainings.py. The paper takes the best of a grid of 13 decays and 10 rates for each
precision; here all have the same, the `paper` profile included.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import compare, numbers_of, ruling, select, setting
from binaryduo.paper.experiment import HALF_WIDTH, Experiment, Row, Unit, Verdict
from binaryduo.paper.judging import all_of, paired
from binaryduo.paper.pictures import bars

PRECISIONS = (None, 16, 8, 4, 2)


def units(profile: str) -> list[Unit]:
    return [t.unit(profile, seed, levels=levels) for seed in t.seeds(profile) for levels in PRECISIONS]


def verdicts(rows: list[Row]) -> list[Verdict]:
    by = {levels: select(rows, levels=levels) for levels in PRECISIONS}
    first = compare("2 bits are more accurate than 1 bit", by[4], by[2], ("2 bits", "1 bit"))
    if not all(by.values()):
        return [first]
    last = {levels: {row["seed"]: row["last"] for row in some} for levels, some in by.items()}
    seeds = sorted(set.intersection(*(set(values) for values in last.values())))
    drops = {
        (high, low): [last[high][seed] - last[low][seed] for seed in seeds]
        for high, low in pairwise(PRECISIONS)
    }
    parts, evidence = [], []
    for (high, low), values in drops.items():
        text = f"{t.LABELS[high]} → {t.LABELS[low]}: {-paired(values).middle:+.2f}"
        if (high, low) != (4, 2):
            more = paired([final - drop for final, drop in zip(drops[4, 2], values, strict=True)])
            parts.append(more.verdict)
            text += f" (the last one is larger by {more.shown()})"
        evidence.append(text)
    claim = "the drop from 2 bits to 1 bit is larger than every other step"
    verdict = ruling(rows, all_of(parts))
    return [first, Verdict(claim, first.setting, verdict, ", ".join(evidence))]


def numbers(rows: list[Row]) -> str:
    return numbers_of({t.LABELS[levels]: select(rows, levels=levels) for levels in PRECISIONS})


def draw(rows: list[Row]) -> dict[str, Figure]:
    groups = [(t.LABELS[levels], select(rows, levels=levels), None) for levels in PRECISIONS]
    return {"precision.png": bars(groups, f"Accuracy by activation precision\n{setting(rows[0])}")}


EXPERIMENT = Experiment(
    "figure1a_precision",
    "Figure 1a: accuracy by precision",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=HALF_WIDTH,
    numbers=numbers,
    estimate=t.estimate,
)
