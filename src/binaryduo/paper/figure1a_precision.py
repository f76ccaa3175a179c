"""Figure 1a: test accuracy of VGG-7 on CIFAR-10 with full-precision, 4-, 3-, 2- and 1-bit activations.

Claim: the step from 2 bits to 1 bit costs far more than any step before it. The paper prints no numbers for
its bars (its binary baseline is 89.07 % in Section 6.1). Ours: results/figure1a_precision.

Chosen before running: see trainings.py. The paper takes the best of a grid of 13 decays and 10 rates for each
precision; here all have the same, the `paper` profile included.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from binaryduo.paper import trainings as t
from binaryduo.paper.experiment import TRAINED, Experiment, Row, Unit, Verdict
from binaryduo.paper.pictures import bars

PRECISIONS = (None, 16, 8, 4, 2)


def units(profile: str) -> list[Unit]:
    return [t.unit(profile, seed, levels=levels) for seed in t.SEEDS for levels in PRECISIONS]


def verdicts(rows: list[Row]) -> list[Verdict]:
    by = {levels: t.select(rows, levels=levels) for levels in PRECISIONS}
    first = t.compare("2 bits are more accurate than 1 bit", by[4], by[2], ("2 bits", "1 bit"))
    if not all(by.values()):
        return [first]
    seeds = sorted({row["seed"] for row in rows})
    last = {(row["levels"], row["seed"]): row["last"] for row in rows}
    drops = {
        pair: [last[pair[0], s] - last[pair[1], s] for s in seeds if {(p, s) for p in pair} <= last.keys()]
        for pair in pairwise(PRECISIONS)
    }
    final = t.mean_spread(drops[4, 2])
    parts, evidence = [], []
    for (high, low), values in drops.items():
        middle, spread = t.mean_spread(values)
        evidence.append(f"{t.LABELS[high]} → {t.LABELS[low]}: {-middle:+.2f}")
        if (high, low) != (4, 2):
            gap, noise = final[0] - middle, (final[1] ** 2 + spread**2) ** 0.5
            parts.append("undecided" if abs(gap) <= noise else "holds" if gap > 0 else "does not hold")
    verdict = next((v for v in ("does not hold", "undecided") if v in parts), "holds")
    claim = "the drop from 2 bits to 1 bit is larger than every other step"
    return [first, Verdict(claim, t.setting(rows[0]), verdict, ", ".join(evidence))]


def numbers(rows: list[Row]) -> str:
    return t.numbers_of({t.LABELS[levels]: t.select(rows, levels=levels) for levels in PRECISIONS})


def draw(rows: list[Row]) -> dict[str, Figure]:
    groups = [(t.LABELS[levels], t.select(rows, levels=levels), None) for levels in PRECISIONS]
    return {"precision.png": bars(groups, f"Accuracy by activation precision\n{t.setting(rows[0])}")}


EXPERIMENT = Experiment(
    "figure1a_precision",
    "Figure 1a: accuracy by precision",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=TRAINED,
    numbers=numbers,
    estimate=t.estimate,
)
