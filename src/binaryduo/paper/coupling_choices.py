"""How should the two stages be trained? Cheap tests at ten epochs in total, on held-out images, before the long runs.

Written down before running (seed 0, VGG-7 at full width, float weights, 45,000 images; 5,000 held out decide):

rate      Halving the weights at decoupling doubles the relative step, growth in training shrinks it. Hypothesis: 1e-3,
          today's rate of fine-tuning, is too small for a short run; 3e-3 or 1e-2 is better.
anneal    Two anneals cost one: the rate falls to zero, then starts again. Hypothesis: a constant rate in the coupled
          stage and one fall over the fine-tuning is better than two cycles.
share     Hypothesis: the coupled network needs fewer epochs than the fine-tuning: 1/3 is better than 1/2 and 2/3.
shifted   The decoupled topology has BN biases of ±1/4, the baseline has zeros. Hypothesis: the baseline gains from
          biases that alternate ±1/4, which would be a gain of the topology and not of coupling.

The rule that follows: of each test the better value is taken where it is more than 0.3 points ahead (about one standard
deviation of a run at this length), else the simpler one (two cycles, one half, biases of zero). Rates of baseline,
scratch, coupled and fine-tuning come from `binaryduo search` on the same images with as many epochs for each way. For
longer budgets all rates stay what they are here; at 40 epochs half and twice the rate are tried once, as a check.
"""

from matplotlib.figure import Figure

from binaryduo.paper import ways as w
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict

EPOCHS, LR, RATE = 10, 5e-3, 3e-3
VALIDATION = 0.1
MARGIN = 0.3  # points


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        small = {"network": "mlp", "width": 0.05, "validation": VALIDATION}
        return [w.unit("baseline", 2, 0, LR, **small), w.unit("duo", 2, 0, LR, question="rate", **small)]
    common = {"validation": VALIDATION}
    duo = {**common, "finetune_lr": RATE}
    return [
        w.unit("duo", EPOCHS, 0, LR, question="rate", **duo),
        w.unit("baseline", EPOCHS, 0, LR, question="rate", **common),
        w.unit("duo", EPOCHS, 0, LR, question="rate", **{**duo, "finetune_lr": 1e-2}),
        w.unit("duo", EPOCHS, 0, LR, question="anneal", **{**duo, "anneals": 1, "finetune_lr": LR}),
        w.unit("baseline", EPOCHS, 0, 2 * LR, question="rate", **common),
        w.unit("scratch", EPOCHS, 0, LR, question="rate", **common),
        w.unit("duo", EPOCHS, 0, LR, question="share", **{**duo, "share": 1 / 3}),
        w.unit("duo", EPOCHS, 0, LR, question="share", **{**duo, "share": 2 / 3}),
        w.unit("baseline", EPOCHS, 0, LR, question="shifted", start="shifted", **common),
        w.unit("scratch", EPOCHS, 0, 2 * LR, question="rate", **common),
        w.unit("duo", EPOCHS, 0, 2 * LR, question="rate", **duo),
        w.unit("duo", EPOCHS, 0, LR, question="rate", **{**duo, "finetune_lr": 1e-3}),
        w.unit("baseline", EPOCHS, 0, LR / 2, question="rate", **common),
        w.unit("scratch", EPOCHS, 0, LR / 2, question="rate", **common),
    ]


def name_of(row: Row) -> str:
    """What a reader calls a run."""
    text = f"{row['way']}, rate {row['lr']:g}"
    if row["way"] == "duo":
        first = round(row["share"] * row["epochs"])
        text += f", then {row['finetune_lr']:g}, {first} + {row['epochs'] - first} epochs"
        text += ", one anneal" if row["anneals"] == 1 else ""
    return text + (", biases ±1/4" if row.get("start") == "shifted" else "")


def verdicts(rows: list[Row]) -> list[Verdict]:
    return []


def draw(rows: list[Row]) -> dict[str, Figure]:
    ordered = sorted(rows, key=lambda row: row["last"])
    figure = Figure(figsize=(8.5, 0.6 + 0.42 * len(ordered)), layout="constrained")
    axis = figure.subplots()
    colours = {"baseline": "#57606a", "scratch": "#9a6700", "duo": "#c2410c"}
    for place, row in enumerate(ordered):
        axis.plot([row["last"]], [place], "o", color=colours[row["way"]], ms=8)
        axis.annotate(
            f"{row['last']:.2f}", (row["last"], place), (9, -3), textcoords="offset points", fontsize=8
        )
    axis.set_yticks(range(len(ordered)), [name_of(row) for row in ordered], fontsize=8.5)
    axis.set_xlabel("accuracy on 5,000 held-out images after the last epoch (%), seed 0")
    axis.margins(x=0.12)
    axis.grid(axis="x", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    return {"choices.png": figure}


EXPERIMENT = Experiment(
    "coupling_choices",
    "How the two stages should be trained",
    units,
    w.measure,
    verdicts,
    draw,
    profiles=STUDY,
    estimate=w.estimate,
)
