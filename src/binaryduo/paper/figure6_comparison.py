"""Figure 6, right: baseline, coupled, decoupled and fine-tuned, and the decoupled topology from scratch.

Claim: coupled (89.69 %) beats the baseline (89.07 %), fine-tuning the decoupled network beats both (90.44 %), and
its topology trained from scratch does not (88.93 %). Ours: results/figure6_comparison.

Chosen before running: see trainings.py. In the `cpu` profile, where few epochs are not enough to converge, baseline
and from-scratch get as many epochs as both stages of the coupled network together: whoever is trained longer has an
advantage there, and the claim must not win by it. In the `paper` profile each has 200 epochs, as in the paper.
"""

from matplotlib.figure import Figure

from binaryduo.paper import trainings as t
from binaryduo.paper.experiment import TRAINED, Experiment, Row, Unit, Verdict
from binaryduo.paper.pictures import bars
from binaryduo.paper_values import CIFAR10

PAPER = {**CIFAR10, "from scratch": CIFAR10["scratch"]}


def units(profile: str) -> list[Unit]:
    longer = t.longer(profile)
    out = []
    for seed in t.SEEDS:
        out += [
            t.unit(profile, seed, longer=longer),
            t.unit(profile, seed, stages=2, variant="coupled", levels=3),
            t.unit(profile, seed, longer=longer, variant="decoupled", levels=3),
        ]
    return out


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    return {
        "baseline": t.select(rows, stage="single", variant="baseline"),
        "coupled": t.select(rows, stage="coupled"),
        "decoupled": t.select(rows, stage="decoupled"),
        "from scratch": t.select(rows, stage="single", variant="decoupled"),
    }


def verdicts(rows: list[Row]) -> list[Verdict]:
    pairs = (
        ("coupled", "baseline", "the coupled ternary network, half the weights, beats the binary baseline"),
        ("decoupled", "baseline", "decoupled and fine-tuned beats the binary baseline"),
        ("decoupled", "coupled", "fine-tuning the decoupled network improves on the coupled one"),
        ("baseline", "from scratch", "the decoupled topology from scratch is below the baseline"),
        ("decoupled", "from scratch", "it is the training, not the topology: fine-tuned beats from scratch"),
    )
    return t.compare_all(groups(rows), pairs)


def numbers(rows: list[Row]) -> str:
    return t.numbers_of(groups(rows))


def draw(rows: list[Row]) -> dict[str, Figure]:
    bars_of = [(name, some, PAPER[name]) for name, some in groups(rows).items()]
    setting = t.setting(max(rows, key=lambda row: row["epochs"]))
    return {"comparison.png": bars(bars_of, f"Baseline, coupled, decoupled, from scratch\n{setting}")}


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
