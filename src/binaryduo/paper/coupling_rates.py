"""Do the rates that were tuned at ten epochs hold at forty? Each way at its rate, at half and at twice that rate.

Written down before running: `coupling_choices` tunes the rate of each way at ten epochs, and `coupling_pays` keeps it
at every length. That rule is checked once, at 40 epochs: VGG-7 at full width, float weights, 45,000 images, seed 0,
5,000 held-out images decide, the same number of runs for each way; both rates of duo are changed together. Hypothesis:
no other rate is more than 0.3 points (the margin of `coupling_choices`) above the one that the study has. Where one is,
the study's comparison at 40 epochs is of ways that are not tuned equally well, and the gains on held-out images say by
how much; the study's runs stay as they are, because the test images were looked at already.
"""

from itertools import product
from typing import Any

from matplotlib.figure import Figure

from binaryduo.paper import coupling_choices as choices
from binaryduo.paper import ways as w
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict
from binaryduo.paper.rates import BEST, FINETUNE

EPOCHS = 40
FACTORS = (1.0, 0.5, 2.0)  # of the rate; a whole set of ways before the next


def units(profile: str) -> list[Unit]:
    if profile == "smoke":
        small: dict[str, Any] = {"network": "mlp", "width": 0.05, "validation": choices.VALIDATION}
        return [choices.at_rate(way, BEST[way], epochs=2, **small) for way in w.WAYS]
    settings: dict[str, Any] = {"validation": choices.VALIDATION, **choices.QUICK}
    return [
        choices.at_rate(way, factor * BEST[way], epochs=EPOCHS, **settings, **_second(way, factor))
        for factor, way in product(FACTORS, w.WAYS)
    ]


def _second(way: str, factor: float) -> dict[str, Any]:
    """Both rates of duo are changed together."""
    return {"finetune_lr": factor * FINETUNE} if way == "duo" else {}


def by_rate(rows: list[Row], way: str) -> dict[float, float]:
    """The accuracies on held-out images of a way, by rate."""
    return dict(sorted((row["lr"], row["last"]) for row in rows if row["way"] == way))


def gain(rows: list[Row], way: str) -> float | None:
    """How many points the best rate is above the study's; None where the three rates are not all there."""
    found = by_rate(rows, way)
    if len(found) < len(FACTORS):
        return None
    return max(found.values()) - found[BEST[way]]


def verdicts(rows: list[Row]) -> list[Verdict]:
    """None: one seed chooses settings and judges no claim of the paper."""
    return []


def numbers(rows: list[Row]) -> str:
    """Every accuracy, and of each way whether its rate holds."""
    parts = []
    for way in w.WAYS:
        found = ", ".join(f"{rate:g}: {last:.2f}" for rate, last in by_rate(rows, way).items())
        parts.append(f"{way} {found} ({_ruling(rows, way)})" if found else f"{way}: not run")
    return f"Held-out images after {EPOCHS} epochs, seed 0: " + "; ".join(parts) + "."


def _ruling(rows: list[Row], way: str) -> str:
    more = gain(rows, way)
    if more is None:
        return "not all rates were run"
    if more <= choices.MARGIN:
        return f"{BEST[way]:g} stays, within {choices.MARGIN} points of the best"
    return f"the study's {BEST[way]:g} is {more:.2f} points below the best"


def draw(rows: list[Row]) -> dict[str, Figure]:
    """Accuracy over the rate of each way, once there are two of one; a ring marks the rate that the study has."""
    if all(len(by_rate(rows, way)) < 2 for way in w.WAYS):
        return {}
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axis = figure.subplots()
    for way, colour in choices.COLOURS.items():
        found = by_rate(rows, way)
        axis.plot(list(found), list(found.values()), "o-", color=colour, label=way)
        for rate, last in found.items():
            axis.annotate(
                f"{last:.2f}", (rate, last), (0, 9), textcoords="offset points", fontsize=8, ha="center"
            )
        if BEST[way] in found:
            axis.plot(BEST[way], found[BEST[way]], "o", ms=13, mfc="none", mec=colour)
    rates = sorted({row["lr"] for row in rows})
    axis.set_xscale("log")
    axis.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axis.minorticks_off()
    axis.set_xlabel("learning rate (log scale); duo: one anneal over both stages")
    axis.set_ylabel("accuracy on 5,000 held-out images (%)")
    axis.margins(x=0.12, y=0.16)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    title = (
        f"After {EPOCHS} epochs in total, seed 0; ringed: the rate tuned at ten epochs, which the study has"
    )
    figure.suptitle(title, fontsize=9.5, x=0.01, ha="left")
    return {"rates.png": figure}


EXPERIMENT = Experiment(
    "coupling_rates",
    "Do the rates that were tuned at ten epochs hold at forty?",
    units,
    w.measure,
    verdicts,
    draw,
    profiles=STUDY,
    numbers=numbers,
    estimate=w.estimate,
)
