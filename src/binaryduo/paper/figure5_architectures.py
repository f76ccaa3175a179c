"""Figure 5: a 3x3 baseline layer has 9 weights, its coupled one 2x2 = 4, the decoupled one 8.

Claim: those three numbers, from ⌊3/√2⌋ = 2. Ours: counted in what bd.couple and bd.decouple make of a network that has
BN-activation-dense(3→3)-BN-activation, as in the figure. Nothing is trained.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

import binaryduo as bd
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace

PAPER = {"baseline": 9, "coupled": 4, "decoupled": 8}


class Example(nn.Module):
    """The figure's layers between an input layer and a classifier; `fc` is the one that is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 3, bias=False)
        self.bn1, self.act1 = nn.BatchNorm1d(3), bd.nn.QuantAct(levels=2)
        self.fc = nn.Linear(3, 3, bias=False)
        self.bn2, self.act2 = nn.BatchNorm1d(3), bd.nn.QuantAct(levels=2)
        self.classifier = nn.Linear(3, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act1(self.bn1(self.first(x)))
        out: torch.Tensor = self.classifier(self.act2(self.bn2(self.fc(x))))
        return out


def units(profile: str) -> list[Unit]:
    return [{"width": 3}]


def measure(work: Unit, place: Workspace) -> list[Row]:
    torch.manual_seed(0)
    x = torch.randn(64, 5)
    baseline = Example().eval()
    coupled = bd.couple(baseline, x).eval()
    decoupled = bd.decouple(coupled, x)
    named = {"baseline": baseline, "coupled": coupled, "decoupled": decoupled}
    rows = []
    for name, network in named.items():
        outputs, inputs = network.get_parameter("fc.weight").shape
        rows.append({"network": name, "inputs": inputs, "outputs": outputs, "weights": inputs * outputs})
    return rows


def verdicts(rows: list[Row]) -> list[Verdict]:
    found = {row["network"]: row["weights"] for row in rows}
    evidence = ", ".join(
        f"{row['network']} {row['inputs']}→{row['outputs']}: {row['weights']}" for row in rows
    )
    claim = "the layer has 9, 4 and 8 weights: baseline, coupled, decoupled"
    verdict = "holds" if found == PAPER else "does not hold"
    return [Verdict(claim, "the paper's example", verdict, evidence, numbers(rows), "9, 4, 8")]


def numbers(rows: list[Row]) -> str:
    return ", ".join(str(row["weights"]) for row in rows)


def draw(rows: list[Row]) -> dict[str, Figure]:
    figure = Figure(figsize=(10, 3.5), layout="constrained")
    for axes, row in zip(figure.subplots(1, 3), rows, strict=True):
        _diagram(axes, row)
    return {"architectures.png": figure}


def _diagram(axes: Axes, row: Row) -> None:
    """Sums, activations, dense layer, sums, activations from left to right; copies of a sum side by side."""
    ternary, copies = row["network"] == "coupled", row["inputs"] // row["outputs"]
    sums = row["outputs"]
    shape, colour = ("s", "#fde68a") if ternary else ("o", "#bfdbfe")
    for column, is_act in enumerate((False, True, False, True)):
        count = sums * copies if is_act else sums
        ys = [-(i - (count - 1) / 2) * (2.4 / count) for i in range(count)]
        xs = [column] * count
        axes.plot(
            xs,
            ys,
            shape if is_act else "o",
            ms=17,
            mfc=colour if is_act else "white",
            mec="#1b1f24",
            zorder=3,
        )
        if not is_act:
            acts = sums * copies
            to = [-(i - (acts - 1) / 2) * (2.4 / acts) for i in range(acts)]
            for k, y in enumerate(to):  # copy after copy: all sums of copy 1, then all of copy 2
                axes.plot([column, column + 1], [ys[k % sums], y], color="#9ca3af", lw=1, zorder=1)
        elif column == 1:
            behind = [-(i - (sums - 1) / 2) * (2.4 / sums) for i in range(sums)]
            for i, y in enumerate(ys):
                for j, target in enumerate(behind):
                    marked = j == 0 and i % sums == 0 and row["network"] != "baseline"
                    axes.plot(
                        [1, 2],
                        [y, target],
                        color="#c2410c" if marked else "#1b1f24",
                        lw=2.4 if marked else 1,
                        zorder=2,
                    )
    kind = "ternary" if ternary else "binary"
    axes.set_title(
        f"{row['network']} ({kind}): {row['inputs']}×{row['outputs']} = {row['weights']} weights",
        fontsize=10.5,
    )
    for x, text in enumerate(("sum", "BN, act", "sum", "BN, act")):
        axes.text(x, -1.75, text, ha="center", fontsize=9)
    note = {"coupled": "w", "decoupled": "two weights of w / 2 each"}.get(row["network"])
    if note is not None:
        axes.text(1.5, 1.45, note, ha="center", fontsize=9, color="#c2410c")
    axes.set_xlim(-0.5, 3.5)
    axes.set_ylim(-1.95, 1.75)
    axes.axis("off")


EXPERIMENT = Experiment(
    "figure5_architectures",
    "Figure 5: example architectures",
    units,
    measure,
    verdicts,
    draw,
    numbers=numbers,
)
