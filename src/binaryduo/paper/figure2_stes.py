"""Figure 2, left: the STEs, their derivatives, and the area between each and the binary activation.

Claim: the sophisticated STEs have a much smaller cumulative difference (Eq. 2) than ReLU1. The paper prints no areas.
Ours: the closed forms, and a sum over a fine grid that knows nothing of them. Nothing is trained.
"""

import torch
from matplotlib.figure import Figure

import binaryduo as bd
from binaryduo.paper.activations import ste_figure
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace

STES = ("relu1", "steep2", "steep4", "polynomial", "swishsign")


def units(profile: str) -> list[Unit]:
    return [{"ste": name, "points": 20_000_001 if profile == "full" else 200_001} for name in STES]


def measure(work: Unit, place: Workspace) -> list[Row]:
    x = torch.linspace(-9.5, 10.5, work["points"], dtype=torch.float64)
    gap = (bd.ste.function(work["ste"], x) - (x >= 0.5).double()).abs()
    summed = torch.trapezoid(gap, x).item()
    return [{"ste": work["ste"], "area": bd.ste.cumulative_difference(work["ste"]), "summed": summed}]


def verdicts(rows: list[Row]) -> list[Verdict]:
    areas = {row["ste"]: row["area"] for row in rows}
    evidence = ", ".join(f"{name} {area:.4g}" for name, area in areas.items())
    smaller = all(area < areas["relu1"] for name, area in areas.items() if name != "relu1")
    others = sorted(area for name, area in areas.items() if name != "relu1")
    number = f"{others[0]:.2f} to {others[-1]:.2f}, ReLU1 {areas['relu1']:.2f}"
    exact = max(abs(row["area"] - row["summed"]) for row in rows)
    return [
        Verdict(
            "every sophisticated STE has a smaller cumulative difference than ReLU1",
            "closed forms; swishsign with β = 5",
            "holds" if smaller else "does not hold",
            evidence,
            number,
        ),
        Verdict(
            "closed forms and sums over a grid agree",
            "ours, not a claim of the paper",
            "holds" if exact < 1e-3 else "does not hold",
            f"largest difference {exact:.1e}, numbers kept to seven digits",
        ),
    ]


def draw(rows: list[Row]) -> dict[str, Figure]:
    return {"stes.png": ste_figure([row["ste"] for row in rows])}


EXPERIMENT = Experiment("figure2_stes", "Figure 2, left: STE shapes", units, measure, verdicts, draw)
