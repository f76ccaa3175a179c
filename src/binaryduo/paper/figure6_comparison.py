"""Figure 6, right: baseline, coupled, decoupled and fine-tuned, and the decoupled topology from scratch.

Claim: coupled (89.69 %) beats the baseline (89.07 %), fine-tuning the decoupled network beats both (90.44 %), and
its topology trained from scratch does not (88.93 %). Ours: results/figure6_comparison.

Chosen before running: see trainings.py. In the `cpu` profile, where few epochs are not enough to converge, baseline
and from-scratch get as many epochs as both stages of the coupled network together: whoever is trained longer has an
advantage there, and the claim must not win by it. The coupled network alone is compared with a baseline of its own
length. In the `paper` profile each has 200 epochs, as in the paper.
"""

from matplotlib.figure import Figure

from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import compare, compare_all, numbers_of, select, setting
from binaryduo.paper.experiment import TRAINED, Experiment, Row, Unit, Verdict
from binaryduo.paper.pictures import bars
from binaryduo.paper_values import CIFAR10

PAPER = {**CIFAR10, "from scratch": CIFAR10["scratch"]}


def units(profile: str) -> list[Unit]:
    longer = t.as_long_as_two(profile)
    out = []
    for seed in t.SEEDS:
        if longer:
            out.append(t.unit(profile, seed))  # as long as the coupled stage alone, for that comparison
        out += [
            t.unit(profile, seed, longer=longer),
            t.unit(profile, seed, stages=2, variant="coupled", levels=3),
            t.unit(profile, seed, longer=longer, variant="decoupled", levels=3),
        ]
    return out


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    baselines = select(rows, stage="single", variant="baseline")
    return {
        "baseline": [row for row in baselines if row["epochs"] == max(r["epochs"] for r in baselines)],
        "coupled": select(rows, stage="coupled"),
        "decoupled": select(rows, stage="decoupled"),
        "from scratch": select(rows, stage="single", variant="decoupled"),
    }


def verdicts(rows: list[Row]) -> list[Verdict]:
    by = groups(rows)
    as_long = [
        row
        for row in select(rows, stage="single", variant="baseline")
        if row["epochs"] in {coupled["epochs"] for coupled in by["coupled"]}
    ]
    first = compare(
        "the coupled ternary network, half the weights, beats the binary baseline",
        by["coupled"],
        as_long,
        ("coupled", "baseline"),
        PAPER,
    )
    pairs = (
        ("decoupled", "baseline", "decoupled and fine-tuned beats the binary baseline"),
        ("decoupled", "coupled", "fine-tuning the decoupled network improves on the coupled one"),
        ("baseline", "from scratch", "the decoupled topology from scratch is below the baseline"),
        ("decoupled", "from scratch", "it is the training, not the topology: fine-tuned beats from scratch"),
    )
    return [first, *compare_all(by, pairs, PAPER)]


def numbers(rows: list[Row]) -> str:
    return numbers_of(groups(rows))


def draw(rows: list[Row]) -> dict[str, Figure]:
    bars_of = [(name, some, PAPER[name]) for name, some in groups(rows).items()]
    longest = setting(max(rows, key=lambda row: row["epochs"]))
    return {"comparison.png": bars(bars_of, f"Baseline, coupled, decoupled, from scratch\n{longest}")}


EXPERIMENT = Experiment(
    "figure6_comparison",
    "Figure 6, right: the final comparison",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=TRAINED,
    numbers=numbers,
    estimate=t.estimate,
)
