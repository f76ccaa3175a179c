"""Beyond the paper: how much of the low cosines is noise of the CDG itself?

The CDG of a quantized network counts samples that cross a threshold, so that it has the noise of counting.
With more samples at the same ε that noise goes away; what is left is the mismatch of the coarse gradient.

Chosen before running: He initialisation, seeds 0 to 2, ternary and binary with ReLU1, ε = 0.001, from ten
thousand to ten million samples.
"""

from matplotlib.figure import Figure

from binaryduo.mismatch import Case, plots, select, sweep
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.judging import gap

LAYERS = ("fc1", "fc2", "fc3", "total")


def units(profile: str) -> list[Unit]:
    sizes = (10_000, 100_000, 1_000_000, 10_000_000) if profile == "full" else (1_000, 10_000)
    seeds = 3 if profile == "full" else 2
    return [
        {"seed": seed, "levels": levels, "samples": samples}
        for samples in sizes
        for seed in range(seeds)
        for levels in (3, 2)
    ]


def measure(unit: Unit, place: Workspace) -> list[Row]:
    return sweep([Case(unit["levels"])], seeds=[unit["seed"]], samples=unit["samples"])


def verdicts(rows: list[Row]) -> list[Verdict]:
    # The most samples for which there are seeds enough to judge.
    seeds = {n: len(select(rows, samples=n, levels=2)) for n in {row["samples"] for row in rows}}
    most = max(n for n, count in seeds.items() if count >= min(2, max(seeds.values())))
    out = []
    for layer in LAYERS:
        high, low = (select(rows, samples=most, levels=levels) for levels in (3, 2))
        found = gap(high, low, layer)
        ternary, binary = (plots.spread_of(some, layer)[0] for some in (high, low))
        out.append(
            Verdict(
                f"the gap between ternary and binary in {layer} is there with {most:,} samples",
                "he initialisation",
                found.verdict,
                f"ternary {ternary:.4f}, binary {binary:.4f}, difference {found.shown(4)}",
            )
        )
    return out


def draw(rows: list[Row]) -> dict[str, Figure]:
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    sizes = sorted({row["samples"] for row in rows})
    for axes, layer in zip(figure.subplots(1, len(LAYERS), sharey=True), LAYERS, strict=True):
        for levels, colour in ((3, "#e69f00"), (2, "#d55e00")):
            points = [plots.spread_of(select(rows, samples=n, levels=levels), layer) for n in sizes]
            axes.errorbar(
                sizes,
                [p[0] for p in points],
                [p[1] for p in points],
                color=colour,
                marker="o",
                capsize=3,
                label=Case(levels).label,
            )
        axes.set_xscale("log")
        axes.set_xlabel("samples")
        axes.set_title(layer, loc="left")
        axes.grid(alpha=0.3)
        if layer == "fc1":
            axes.set_ylabel("cosine (coarse gradient, CDG)")
            axes.legend()
    return {"sample_size.png": figure}


EXPERIMENT = Experiment(
    "sample_size", "Cosines against the number of samples", units, measure, verdicts, draw
)
