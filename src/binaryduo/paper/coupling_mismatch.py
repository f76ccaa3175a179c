"""Does the accuracy follow the gradient mismatch? The cosines of VGG-7's layers over the runs of `coupling_pays`.

The paper's causal claim (Sections 4 and 5): coupled activations have a smaller mismatch, and that is why the network
made this way ends higher. It shows the cosines on a toy problem only; here they are measured on the networks of the
study while they train, four times in a run (`loop.profile_every`, steps chosen for each layer). Nothing is run here.

Chosen before running: the layers in front of a quantized activation, of which the last two of VGG-7 are none; the mean
of their cosines; over the epochs of the coupled stage for its claim, over those of the fine-tuning for the other, each
against the baseline's in the same epochs, paired over seeds. A first try with 2 % of the training's time for profiles
(16 images, 8 weights of a layer) gave noise and was thrown away; now they have 10 %, and fewer than 128 images count as
none.
"""

from statistics import mean

from matplotlib.figure import Figure

from binaryduo.paper.accuracies import EQUAL
from binaryduo.paper.coupling_pays import COLOURS, NAMES, NETWORK
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.judging import Interval, difference

LAYERS = ("features.0", "features.3", "features.7", "features.11", "dense.0")
STEPS = 50_000 // 256  # in an epoch
CLAIM = "the {} network's gradients are closer to the truth than the baseline's"
Curve = list[tuple[float, float]]  # (epochs since the run began, cosine)


def units(profile: str) -> list[Unit]:
    return []


def measure(work: Unit, place: Workspace) -> list[Row]:
    return []


def curve(row: Row, layer: str, first: bool | None = None) -> Curve:
    """A layer's cosines over a run; `first` True or False: of duo's coupled stage or of its fine-tuning only."""
    parts = [] if "coupled" not in row else [(0, row["coupled"])]
    begun = row["coupled"]["steps"] if parts else 0
    parts.append((begun, row))
    if first is not None:
        parts = parts[:1] if first else parts[1:]
    return [
        ((before + step) / STEPS, cosine)
        for before, stage in parts
        for step, cosine, *_ in stage.get("mismatch", {}).get(layer, [])
        if cosine is not None
    ]


def level(row: Row, since: float, until: float) -> float | None:
    """The mean cosine over layers and the epochs after `since` up to `until`; None where nothing was measured."""
    found = [
        mean(inside)
        for layer in LAYERS
        if (inside := [cosine for epoch, cosine in curve(row, layer) if since < epoch <= until + 0.01])
    ]
    return mean(found) if found else None


def compared(rows: list[Row], epochs: int, coupled: bool) -> Interval | None:
    """Duo's level minus the baseline's at a budget, in the epochs of its coupled stage or of its fine-tuning."""
    ends = (0, epochs / 2) if coupled else (epochs / 2, epochs)
    sides: dict[str, dict[int, float]] = {"duo": {}, "baseline": {}}
    for row in rows:
        counts = row["epochs"] == epochs and row.get("schedule") is None and row["way"] in sides
        if counts and (found := level(row, *ends)) is not None:
            sides[row["way"]][row["seed"]] = found
    return difference(sides["duo"], sides["baseline"]) if all(sides.values()) else None


def budgets(rows: list[Row]) -> list[int]:
    """The budgets of which runs were profiled, the smallest first."""
    return sorted({row["epochs"] for row in rows if "mismatch" in row and row.get("schedule") is None})


def verdicts(rows: list[Row]) -> list[Verdict]:
    out = []
    for epochs in budgets(rows):
        for coupled, claim in (
            (
                True,
                "while it trains, the coupled network's gradients are closer to the truth than the baseline's",
            ),
            (
                False,
                "in fine-tuning, the decoupled network's gradients are closer to the truth than the baseline's",
            ),
        ):
            found = compared(rows, epochs, coupled)
            if found is not None:
                evidence = f"difference of the mean cosines: {found.shown(3)}"
                setting = f"{EQUAL}, {epochs} in total; {NETWORK}"
                out.append(Verdict(claim, setting, found.verdict, evidence, found.shown(3)))
    return out


def numbers(rows: list[Row]) -> str:
    """The mean cosine of each way in both halves of a run, at each budget."""
    parts = []
    for epochs in budgets(rows):
        for way, name in NAMES.items():
            mine = [r for r in rows if (r["way"], r["epochs"], r.get("schedule")) == (way, epochs, None)]
            halves = [
                [found for row in mine if (found := level(row, *ends)) is not None]
                for ends in ((0, epochs / 2), (epochs / 2, epochs))
            ]
            if all(halves):
                shown = ", then ".join(f"{mean(half):.3f}" for half in halves)
                parts.append(f"{epochs} epochs, {name}: {shown} (n {len(halves[0])})")
    if not parts:
        return "None of the runs was profiled yet."
    return "Mean cosine over layers in the first and in the second half of a run: " + "; ".join(parts) + "."


def draw(rows: list[Row]) -> dict[str, Figure]:
    """One picture per budget: a panel per layer, lines are means over seeds."""
    return {f"mismatch_{epochs}.png": _draw(rows, epochs) for epochs in budgets(rows)}


def _draw(rows: list[Row], epochs: int) -> Figure:
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    panels = figure.subplots(1, len(LAYERS), sharey=True)
    mine = [row for row in rows if row["epochs"] == epochs and row.get("schedule") is None]
    for axis, layer in zip(panels, LAYERS, strict=True):
        for way, name in NAMES.items():
            for first in (True, False) if way == "duo" else (None,):
                points: dict[float, list[float]] = {}
                for row in mine:
                    if row["way"] == way:
                        for epoch, cosine in curve(row, layer, first):
                            points.setdefault(round(epoch, 2), []).append(cosine)
                style = "--" if first else "-"
                label = f"{name}: coupled" if first else f"{name}: fine-tuning" if first is False else name
                xs = sorted(points)
                axis.plot(xs, [mean(points[x]) for x in xs], style, color=COLOURS[way], label=label, lw=1.6)
                for x in xs:
                    axis.plot([x] * len(points[x]), points[x], ".", color=COLOURS[way], alpha=0.35, ms=4)
        axis.axvline(epochs / 2, color="#8c959f", lw=0.8, ls=":")
        axis.set_title(layer, fontsize=10)
        axis.set_xlabel("epochs")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("cosine (coarse gradient, CDG)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    seeds = len({row["seed"] for row in mine if "mismatch" in row})
    figure.suptitle(
        f"Gradient mismatch while VGG-7 trains on CIFAR-10, {epochs} epochs in total, {seeds} seeds; dotted: duo is "
        "decoupled",
        fontsize=9.5, x=0.01, ha="left",
    )  # fmt: skip
    return figure


EXPERIMENT = Experiment(
    "coupling_mismatch",
    "Does the accuracy follow the mismatch? Cosines over the study's runs",
    units,
    measure,
    verdicts,
    draw,
    profiles=STUDY,
    numbers=numbers,
    sources=("coupling_pays",),
    judges_parts=True,
)
