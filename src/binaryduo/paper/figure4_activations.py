"""Figure 4: where a weighted sum of 0.7 goes in a baseline, a coupled and a decoupled network.

Claim: the ternary activation gives 0.5, times the weight 2.2 is 1.1; the two binary ones give 1 and 0, times 1.1 each
is 1.1 too. Ours: the same numbers out of bd.couple's and bd.decouple's own layers. Nothing is trained.
"""

import torch
from matplotlib.figure import Figure
from torch import nn

import binaryduo as bd
from binaryduo.paper.activations import activation_figure
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace


def units(profile: str) -> list[Unit]:
    return [{"x": 0.7, "weight": 2.2}]


def measure(work: Unit, place: Workspace) -> list[Row]:
    coupled = nn.Sequential(
        nn.BatchNorm1d(1, eps=0.0), bd.nn.QuantAct(levels=3), nn.Linear(1, 1, bias=False)
    ).double()
    nn.init.constant_(coupled.get_parameter("2.weight"), work["weight"])
    x = torch.tensor([[work["x"]]], dtype=torch.float64)
    decoupled = bd.decouple(coupled.eval(), x)
    weights = next(m for m in decoupled.modules() if isinstance(m, nn.Linear)).weight.flatten().tolist()
    assert isinstance(decoupled, nn.Sequential)
    bits = decoupled[:2](x).flatten().tolist()
    return [
        {
            "ternary": coupled[:2](x).item(),
            "bits": bits,
            "weights": weights,
            "coupled": coupled(x).item(),
            "decoupled": decoupled(x).item(),
        }
    ]


def verdicts(rows: list[Row]) -> list[Verdict]:
    (row,) = rows
    good = (
        row["ternary"] == 0.5
        and sorted(row["bits"]) == [0.0, 1.0]
        and all(abs(w - 1.1) < 1e-12 for w in row["weights"])
        and all(abs(row[key] - 1.1) < 1e-12 for key in ("coupled", "decoupled"))
    )
    evidence = (
        f"ternary {row['ternary']:g}; bits {', '.join(f'{b:g}' for b in row['bits'])}; weights "
        f"{', '.join(f'{w:g}' for w in row['weights'])}; sums {row['coupled']:g} and {row['decoupled']:g}"
    )
    claim = "0.7 becomes 0.5 × 2.2 = 1.1 coupled, and (1 + 0) × 1.1 = 1.1 decoupled"
    verdict = "holds" if good else "does not hold"
    number = f"{row['coupled']:g} coupled, {row['decoupled']:g} decoupled"
    return [Verdict(claim, "the paper's example", verdict, evidence, number, "1.1 and 1.1")]


def draw(rows: list[Row]) -> dict[str, Figure]:
    return {"activations.png": activation_figure()}


EXPERIMENT = Experiment(
    "figure4_activations", "Figure 4: the three activation functions", units, measure, verdicts, draw
)
