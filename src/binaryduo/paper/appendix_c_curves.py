"""Appendix C, loss curves: the loss along one weight for few and many samples, large and small ε.

Claim: with few samples a larger ε is needed to look past the steps of the loss; with many a small ε follows
the slope. The paper prints no numbers. Ours: the CDG of each panel, compared with that of the panel with most
samples within its step (results/appendix_c_curves).

Chosen before running: binary, He initialisation, seed 0, weight (0, 0) of fc2; 1,000 and 1,000,000 samples;
ε = 0.01 and 0.001.
"""

from matplotlib.figure import Figure

from binaryduo.mismatch import loss_panels, plots
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace


def units(profile: str) -> list[Unit]:
    few, many, points = (1_000, 1_000_000, 201) if profile == "full" else (1_000, 20_000, 41)
    return [{"few": few, "many": many, "points": points, "layer": "fc2", "levels": 2, "seed": 0}]


def measure(unit: Unit, place: Workspace) -> list[Row]:
    return loss_panels(
        unit["few"], unit["many"], unit["levels"], unit["layer"], points=unit["points"], seed=unit["seed"]
    )


def slope(row: Row) -> float:
    """The CDG of a panel."""
    low, high = row["ends"]
    return float((high - low) / (2 * row["step"]))


def verdicts(rows: list[Row]) -> list[Verdict]:
    few_large, few_small, many_large, many_small = (slope(row) for row in rows)
    truth = many_large  # the panel with most samples within its step
    evidence = (
        f"CDG: {few_large:+.4f} (few, large ε), {few_small:+.4f} (few, small ε), "
        f"{many_large:+.4f} (many, large ε), {many_small:+.4f} (many, small ε)"
    )
    better = abs(few_large - truth) < abs(few_small - truth)
    steady = abs(many_small - truth) < 0.2 * abs(truth)
    return [
        Verdict(
            "with few samples the larger ε is nearer to the slope of many samples",
            "binary, he, one weight",
            "holds" if better else "does not hold",
            evidence,
            f"few samples: slope {few_large:+.3f} with a large ε, {few_small:+.3f} with a small one",
        ),
        Verdict(
            "with many samples the small ε agrees with the large one within 20 %",
            "binary, he, one weight",
            "holds" if steady else "does not hold",
            evidence,
            f"many samples: slope {many_large:+.3f} with a large ε, {many_small:+.3f} with a small one",
        ),
    ]


def draw(rows: list[Row]) -> dict[str, Figure]:
    return {"curves.png": plots.curves(rows, "Loss along one weight of fc2, binary activations")}


EXPERIMENT = Experiment("appendix_c_curves", "Appendix C: loss curves", units, measure, verdicts, draw)
