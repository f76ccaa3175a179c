"""Appendix H: is CDG the more reliable estimator at equal cost?

Claim: with the same number of evaluations CDG is more reliable than ESG; the paper infers it from full
precision alone (near 1 against around 0.7) and asks for more study.

How it is judged here: the estimate is made twice for the same two networks, on two independent data sets (and
with independent directions), by CDG and by ESG with N = d pairs, which is the same number of evaluations in
the hidden layers. The cosine of the two estimates is the estimator's reliability.

Chosen before running: He initialisation, seeds 0 to 4; full precision, ternary, binary; 16,384 samples;
σ = 1e-3; CDG both with ε = σ, and with ε = 0.0057 = σ·√32, which moves a pre-activation as far as ESG's
σ does on average (ESG moves all 32 weights of a unit at once).
"""

from matplotlib.figure import Figure

from binaryduo.mismatch import Case, ToyProblem, cosine, plots, select
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.judging import all_of, gap

LAYERS = ("fc1", "fc2", "fc3")
SIGMA = 1e-3
STEPS = (SIGMA, round(SIGMA * 32**0.5, 4))


def units(profile: str) -> list[Unit]:
    samples, seeds, width = (16_384, 5, 32) if profile == "full" else (2_000, 2, 6)
    return [
        {"seed": seed, "levels": levels, "samples": samples, "width": width}
        for seed in range(seeds)
        for levels in (None, 3, 2)
    ]


def measure(unit: Unit, place: Workspace) -> list[Row]:
    seed, pairs = unit["seed"], unit["width"] ** 2
    one = ToyProblem(unit["width"], samples=unit["samples"], levels=unit["levels"], seed=seed)
    two = ToyProblem(unit["width"], samples=unit["samples"], levels=unit["levels"], seed=1_000 + seed)
    two.weights, two.target_weights = one.weights, one.target_weights
    esg = [p.esg(SIGMA, pairs, seed=2 * seed + i) for i, p in enumerate((one, two))]
    rows = [{**unit, "estimator": "esg", "step": SIGMA, "cosine": cosine(*esg)}]
    for step in STEPS:
        rows.append(
            {**unit, "estimator": "cdg", "step": step, "cosine": cosine(one.cdg(step), two.cdg(step))}
        )
    return rows


def verdicts(rows: list[Row]) -> list[Verdict]:
    out = []
    for levels in (None, 3, 2):
        for step in STEPS:
            some = select(rows, levels=levels)
            parts, text, gaps = [], [], []
            for layer in LAYERS:
                found = gap(select(some, estimator="cdg", step=step), select(some, estimator="esg"), layer)
                parts.append(found.verdict)
                gaps.append((found.middle - found.half, f"{layer} {found.shown(3)}"))
                text.append(f"{layer} {found.shown(3)}")
            out.append(
                Verdict(
                    "CDG is more reliable than ESG at equal cost, in every hidden layer",
                    f"{Case(levels).label}, σ = {SIGMA:g}, ε = {step:g}",
                    all_of(parts),
                    "reliability of CDG − ESG: " + ", ".join(text),
                    f"CDG − ESG, least certain: {min(gaps)[1]}",
                )
            )
    return out


def draw(rows: list[Row]) -> dict[str, Figure]:
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(LAYERS), sharey=True)
    bars = [("esg", SIGMA), *(("cdg", step) for step in STEPS)]
    for axes, layer in zip(panels, LAYERS, strict=True):
        for i, (estimator, step) in enumerate(bars):
            points = [
                plots.spread_of(select(rows, levels=levels, step=step, estimator=estimator), layer)
                for levels in (None, 3, 2)
            ]
            label = f"ESG, σ = {step:g}" if estimator == "esg" else f"CDG, ε = {step:g}"
            x = [k + (i - 1) * 0.27 for k in range(3)]
            axes.bar(x, [p[0] for p in points], 0.27, yerr=[p[1] for p in points], capsize=2, label=label)
        axes.set_xticks(range(3), [Case(levels).label for levels in (None, 3, 2)])
        axes.set_title(layer, loc="left")
        axes.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("cosine of two independent estimates")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return {"equal_cost.png": figure}


EXPERIMENT = Experiment(
    "appendix_h_equal_cost", "Appendix H: CDG and ESG at equal cost", units, measure, verdicts, draw
)
