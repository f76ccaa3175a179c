"""Table 2: what each network costs, computed by bd.cost, beside the paper's numbers; its accuracies are cited.

Claim: BinaryDuo needs no more than the baseline: AlexNet 189 against 191 Mbit and 119 against
126 M operations, ResNet-18 31.9 against 33.3 Mbit and 164 M for both. Ours: results/table2_cost. Nothing is trained.

The rule, checked against the authors' code: 1 bit a binary weight, 32 bits for all else with BN and the classifier's
bias; full-precision multiply-accumulates + binary ones / 64.
"""

from matplotlib.figure import Figure

import binaryduo as bd
from binaryduo.models.registry import example_input
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper_values import TABLE2

DIGITS = {"alexnet": 0, "resnet18": 1, "resnet18-sc": 1}  # as the paper prints its Mbit


def units(profile: str) -> list[Unit]:
    return [{"network": network, "variant": variant} for network, variant in TABLE2]


def measure(work: Unit, place: Workspace) -> list[Row]:
    network = bd.models.build(work["network"], work["variant"])
    cost = bd.cost(network, example_input(work["network"]))
    mbit, ops, top1, top5 = TABLE2[work["network"], work["variant"]]
    return [
        {
            **work,
            "params": cost.params,
            "mbit": cost.param_bits / 1e6,
            "mops": cost.ops / 1e6,
            "paper_mbit": mbit,
            "paper_mops": ops,
            "cited_top1": top1,
            "cited_top5": top5,
        }
    ]


def verdicts(rows: list[Row]) -> list[Verdict]:
    out = []
    for row in rows:
        same = (
            round(row["mbit"], DIGITS[row["network"]]) == row["paper_mbit"]
            and round(row["mops"]) == row["paper_mops"]
        )
        out.append(
            Verdict(
                f"{row['network']} {row['variant']}: {row['paper_mbit']:g} Mbit, {row['paper_mops']:g} M operations",
                "computed, 1,000 classes, 224×224",
                "holds" if same else "does not hold",
                f"{row['mbit']:.2f} Mbit, {row['mops']:.1f} M",
                f"{row['network']} {row['variant']}: {row['mbit']:.1f} Mbit",
                f"{row['paper_mbit']:g} Mbit",
            )
        )
    by = {(row["network"], row["variant"]): row for row in rows}
    for network in DIGITS:
        a, b = by.get((network, "baseline")), by.get((network, "decoupled"))
        if a is not None and b is not None:
            less = b["mbit"] <= a["mbit"] and round(b["mops"]) <= round(a["mops"])
            evidence = (
                f"{b['mbit']:.2f} against {a['mbit']:.2f} Mbit, "
                f"{b['mops']:.1f} against {a['mops']:.1f} M operations"
            )
            claim = f"{network}: decoupled costs no more than the baseline"
            verdict = "holds" if less else "does not hold"
            number = f"{network}: {b['mbit']:.1f} Mbit, {b['mops']:.0f} M operations"
            printed = f"{b['paper_mbit']:g} Mbit, {b['paper_mops']:g} M"
            out.append(Verdict(claim, "at the table's precision", verdict, evidence, number, printed))
    return out


def numbers(rows: list[Row]) -> str:
    return "; ".join(
        f"{row['network']} {row['variant']}: {row['mbit']:.1f} Mbit, {row['mops']:.0f} M operations"
        for row in rows
    )


def draw(rows: list[Row]) -> dict[str, Figure]:
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    names = [f"{row['network']}\n{row['variant']}" for row in rows]
    for axes, key, title in zip(
        figure.subplots(1, 2), ("mbit", "mops"), ("parameters (Mbit)", "operations an image (M)"), strict=True
    ):
        x = range(len(rows))
        axes.bar(
            [i - 0.2 for i in x],
            [row[key] for row in rows],
            0.4,
            label="computed by bd.cost",
            color="#0a58ca",
        )
        axes.bar(
            [i + 0.2 for i in x],
            [row[f"paper_{key}"] for row in rows],
            0.4,
            label="the paper",
            color="#f4a261",
        )
        axes.set_xticks(list(x), names, fontsize=7.5, rotation=30)
        axes.set_title(title, loc="left", fontsize=10.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
        axes.set_axisbelow(True)
    figure.axes[0].legend(fontsize=8)
    return {"cost.png": figure}


EXPERIMENT = Experiment(
    "table2_cost", "Table 2: parameters and computation", units, measure, verdicts, draw, numbers=numbers
)
