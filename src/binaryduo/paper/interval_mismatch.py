"""What do learned thresholds do to the gradient mismatch? Algorithm 1's networks, trained with them and without.

Nothing in the paper: Appendix G expects learned intervals to help the coupled network, and mismatch is the paper's
account of why networks train badly. Written down before running: three and four levels, He's initialisation, five seeds
(six were planned, and cut before any was looked at, for want of time).
The evaluating network is trained towards its target for 300 steps of 2,048 fresh samples (Adam, 1e-2, half a cosine):
its weights with fixed thresholds, its weights and thresholds (of each layer, or of each unit), or its thresholds alone.
Cosines between coarse gradient and CDG are of 300,000 samples at ε = 0.003, which cross about as many thresholds as the
paper's million at 0.001, measured twice:

own       against the target it was trained towards. Near an optimum the gradient is small and its direction is
          mostly noise, so that a lower loss alone lowers the cosine; the loss stands beside it.
another   against a target drawn anew, for which the loss is as large as at the beginning: what is left is what the
          thresholds themselves do. This one is judged.

Hypothesis: with weights and thresholds trained together the cosine is higher than with fixed thresholds, because the
STE is stretched to the interval that the data fill. Judged by paired differences over seeds in every hidden layer.
"""

import copy
from statistics import mean

from matplotlib.figure import Figure

from binaryduo.mismatch import ToyProblem, cosine, select
from binaryduo.mismatch.toy_learning import learn
from binaryduo.nn.intervals import Interval
from binaryduo.paper.experiment import UNTRAINED, Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.judging import all_of, gap

LAYERS = ("fc1", "fc2", "fc3")
ANOTHER = 1000  # added to the seed of the target that nothing was trained towards
STEP = 0.003
# what is trained, and whose thresholds
CASES: tuple[tuple[str, Interval | None], ...] = (
    ("nothing", None),
    ("weights", None),
    ("both", "layer"),
    ("both", "channel"),
    ("thresholds", "layer"),
    ("thresholds", "channel"),
)
NAMES = {
    ("nothing", None): "untrained",
    ("weights", None): "weights trained, thresholds fixed",
    ("both", "layer"): "weights and each layer's thresholds trained",
    ("both", "channel"): "weights and each unit's thresholds trained",
    ("thresholds", "layer"): "each layer's thresholds alone trained",
    ("thresholds", "channel"): "each unit's thresholds alone trained",
}


def units(profile: str) -> list[Unit]:
    samples, steps, seeds = (300_000, 300, 5) if profile == "full" else (2_000, 10, 2)
    return [
        {"levels": levels, "seed": seed, "samples": samples, "steps": steps}
        for seed in range(seeds)
        for levels in (3, 4)
    ]


def measure(unit: Unit, place: Workspace) -> list[Row]:
    rows: list[Row] = []
    for trained, interval in CASES:
        problem = ToyProblem(
            samples=unit["samples"], levels=unit["levels"], seed=unit["seed"], interval=interval
        )
        if trained != "nothing":
            problem = learn(problem, unit["steps"], batch=2048, weights=trained != "thresholds")
        moved = [round(float(o.square().mean().sqrt()), 5) for o in problem.offsets.values()]
        for target in ("own", "another"):
            if target == "another":
                problem = copy.copy(problem)
                other = ToyProblem(samples=1, levels=unit["levels"], seed=unit["seed"] + ANOTHER)
                problem.target_weights = other.target_weights
            found = cosine(problem.coarse_gradient(), problem.cdg(STEP))
            row = {**unit, "trained": trained, "interval": interval, "target": target}
            rows.append({**row, "loss": problem.loss(), "moved": moved, "cosine": found})
    return rows


def verdicts(rows: list[Row]) -> list[Verdict]:
    out = []
    for levels in (3, 4):
        some = select(rows, levels=levels, target="another")
        fixed = select(some, trained="weights")
        for interval, whose in (("layer", "each layer's"), ("channel", "each unit's")):
            learned = select(some, trained="both", interval=interval)
            gaps = {layer: gap(learned, fixed, layer) for layer in LAYERS}
            evidence = ", ".join(f"{k} {v.shown(3)} ({v.verdict})" for k, v in gaps.items())
            least = min(gaps, key=lambda key: gaps[key].middle - gaps[key].half)
            out.append(
                Verdict(
                    f"learning {whose} thresholds with the weights raises the cosine in every hidden layer",
                    f"toy problem, {levels} levels, a target drawn anew",
                    all_of([v.verdict for v in gaps.values()]),
                    f"learned − fixed, {len(learned)} seeds: {evidence}",
                    f"learned − fixed: {least} {gaps[least].shown(3)}",
                )
            )
    return out


def numbers(rows: list[Row]) -> str:
    """The means over seeds: loss, and the cosine of all layers together."""
    parts = []
    for levels in (3, 4):
        for case in CASES:
            some = select(rows, levels=levels, trained=case[0], interval=case[1])
            if some:
                own, another = (select(some, target=target) for target in ("own", "another"))
                parts.append(
                    f"{levels} levels, {NAMES[case]}: loss {_mean(own, 'loss'):.3f}, cosine {_mean(own):.3f} "
                    f"({_mean(another):.3f} against another target, loss {_mean(another, 'loss'):.3f})"
                )
    return "; ".join(parts)


def _mean(rows: list[Row], key: str | None = None) -> float:
    return float(mean(row["cosine"]["total"] if key is None else row[key] for row in rows))


def draw(rows: list[Row]) -> dict[str, Figure]:
    """Cosines layer by layer: rows of the figure are levels, columns the target."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    colours = ("#57606a", "#1b1f24", "#3b82f6", "#1d4ed8", "#e9a23b", "#c2410c")
    for line, levels in zip(axes, (3, 4), strict=True):
        for axis, target in zip(line, ("own", "another"), strict=True):
            for number, (case, colour) in enumerate(zip(CASES, colours, strict=True)):
                some = select(rows, levels=levels, target=target, trained=case[0], interval=case[1])
                for place, layer in enumerate((*LAYERS, "total")):
                    values = [row["cosine"][layer] for row in some if row["cosine"][layer] is not None]
                    if values:
                        x = place + 0.12 * (number - 2.5)
                        label = NAMES[case] if place == 0 else None
                        axis.plot([x] * len(values), values, ".", color=colour, alpha=0.45)
                        axis.plot([x - 0.05, x + 0.05], [mean(values)] * 2, color=colour, lw=2.5, label=label)
            axis.axhline(0, color="#8c959f", lw=0.8)
            axis.set_xticks(range(4), (*LAYERS, "total"))
            what = "the target it was trained towards" if target == "own" else "a target drawn anew"
            axis.set_title(f"{levels} levels, {what}", fontsize=10)
            axis.grid(axis="y", alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel("cosine of coarse gradient and CDG")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return {"interval_mismatch.png": figure}


EXPERIMENT = Experiment(
    "interval_mismatch",
    "Learned thresholds and the gradient mismatch of the toy problem",
    units,
    measure,
    verdicts,
    draw,
    profiles=UNTRAINED,
    numbers=numbers,
)
