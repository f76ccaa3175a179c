"""Table 1: accuracies of quantized networks on ImageNet, as other papers report them.

Context, cited: nothing of it is ours and nothing is run. What the table is for, checked on its numbers: the last step,
to 1 bit, costs more than any step before it.
"""

from itertools import pairwise

from matplotlib.figure import Figure

from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace

# (network, bits of a weight, {bits of an activation: top-1})
CITED: list[tuple[str, int, dict[int, float]]] = [
    ("WRPN AlexNet 2x-wide", 32, {32: 60.5, 8: 58.9, 4: 58.6, 2: 57.5, 1: 52.0}),
    ("WRPN AlexNet 2x-wide", 8, {8: 59.0, 4: 58.8, 2: 57.1, 1: 50.8}),
    ("ABC-Net ResNet-18", 5, {5: 65.0, 3: 62.5, 1: 54.1}),
    ("ABC-Net ResNet-18", 3, {5: 63.1, 3: 61.0, 1: 49.1}),
]


def units(profile: str) -> list[Unit]:
    return [{"cited": True}]


def measure(work: Unit, place: Workspace) -> list[Row]:
    return [
        {"network": network, "weight_bits": weights, "bits": bits, "top1": top1}
        for network, weights, found in CITED
        for bits, top1 in found.items()
    ]


def _lines(rows: list[Row]) -> dict[tuple[str, int], list[tuple[int, float]]]:
    out: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for row in rows:
        out.setdefault((row["network"], row["weight_bits"]), []).append((row["bits"], row["top1"]))
    return out


def verdicts(rows: list[Row]) -> list[Verdict]:
    parts, evidence, last, before = [], [], [], []
    for (network, weights), points in _lines(rows).items():
        drops = [a[1] - b[1] for a, b in pairwise(points)]
        last.append(drops[-1])
        before += drops[:-1]
        parts.append(drops[-1] == max(drops))
        evidence.append(f"{network}, {weights}-bit weights: " + ", ".join(f"−{drop:.1f}" for drop in drops))
    verdict = "holds" if all(parts) else "does not hold"
    number = f"to 1 bit: at least −{min(last):.1f} points; any step before: at most −{max(before):.1f}"
    claim = "the last step, to 1 bit, costs most"
    return [Verdict(claim, "cited values", verdict, "; ".join(evidence), number, "the same cited values")]


def numbers(rows: list[Row]) -> str:
    return "cited, not ours"


def draw(rows: list[Row]) -> dict[str, Figure]:
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for (network, weights), points in _lines(rows).items():
        axes.plot(
            [p[0] for p in points], [p[1] for p in points], "o-", label=f"{network}, {weights}-bit weights"
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    axes.set_xlabel("bits of an activation")
    axes.set_ylabel("ImageNet top-1 (%), cited")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8)
    return {"table1.png": figure}


EXPERIMENT = Experiment(
    "table1_cited", "Table 1: other papers' accuracies", units, measure, verdicts, draw, numbers=numbers
)
