"""Appendix G: does learning the thresholds improve the coupled network, and the binary network made from it?

Claim (an expectation of the paper, without numbers): methods that learn the quantization interval did nothing for
binary activations, but may improve the multi-bit network that BinaryDuo starts from. Ours:
results/appendix_g_intervals.

Written down before running:

setting   An MLP of a quarter of the width (three hidden layers of 128) on the 10,000 + 2,000 embedded images of
          Fashion-MNIST, 10 + 10 epochs, AdamW, one cycle each (1e-2, then 3e-3), weight decay 1e-2, float weights,
          five seeds. Thresholds are fixed, or learned for each layer, or for each channel, at the rate of all other
          parameters; nothing else differs, and no rate was tuned for any of them.
H1        Learned thresholds make the coupled network more accurate (the paper's expectation).
H2        What they bring is still there in the binary network after fine-tuning.
H3        With three levels there is nothing to gain: BN has a scale and a bias for each channel, which can place two
          thresholds anywhere, so that learning them adds no function and only changes the way to it. With four levels
          the thresholds of a channel may be unequally far apart, which BN cannot do: if there is a gain, it is there.
rule      A claim holds where Student's 95 % interval of the difference of accuracies after the last epoch, paired over
          seeds, lies above zero, and does not where it lies below. On a network of this size neither decides the
          paper's question: the verdict is "too small to say", and the difference is printed beside it.
"""

import statistics

from matplotlib.figure import Figure

from binaryduo._common.weight_files import read_weights
from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import compare_all, numbers_of, select, setting
from binaryduo.paper.experiment import TRAINED, Experiment, Row, Unit, Verdict, Workspace

SEEDS = (0, 1, 2, 3, 4)
CASES: tuple[tuple[int, str | None], ...] = (
    (3, None),
    (3, "layer"),
    (3, "channel"),
    (4, None),
    (4, "channel"),
)
WORDS = {None: "fixed", "layer": "learned, layer", "channel": "learned, channel"}


def units(profile: str) -> list[Unit]:
    size = "intervals" if profile == "cpu" else profile
    seeds = SEEDS[:1] if profile == "smoke" else SEEDS
    return [
        t.unit(size, seed, stages=2, variant="coupled", levels=levels, interval=interval)
        for seed in seeds
        for levels, interval in CASES
    ]


def measure(work: Unit, place: Workspace) -> list[Row]:
    """Train both stages; the coupled network's row also says how far its thresholds have moved."""
    coupled, decoupled = t.measure(work, place)
    return [{**coupled, "moved": _moved(work, place)}, decoupled]


def _moved(work: Unit, place: Workspace) -> list[float]:
    """For each activation, how far its thresholds are from where they began: the root of the mean square."""
    newest = sorted((t.folder_of(work, place.runs) / "coupled" / "checkpoints").glob("step-*.safetensors"))[
        -1
    ]
    tensors, _ = read_weights(newest)
    offsets = [
        value for name, value in sorted(tensors.items()) if name.startswith("model/") and "offsets" in name
    ]
    return [round(float(value.double().square().mean().sqrt()), 4) for value in offsets]


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    found = {}
    for levels, interval in CASES:
        name = f"{levels} levels, {WORDS[interval]}"
        found[f"coupled, {name}"] = select(rows, stage="coupled", levels=levels, interval=interval)
        found[f"decoupled, {name}"] = select(
            rows, stage="decoupled", coupled_levels=levels, interval=interval
        )
    return found


def verdicts(rows: list[Row]) -> list[Verdict]:
    pairs = []
    for levels, interval in CASES:
        if interval is None:
            continue
        for stage, what in (
            ("coupled", "the coupled network"),
            ("decoupled", "the fine-tuned binary network"),
        ):
            names = [f"{stage}, {levels} levels, {WORDS[kind]}" for kind in (interval, None)]
            claim = f"thresholds learned for each {interval} improve {what} ({levels} levels)"
            pairs.append((names[0], names[1], claim))
    return compare_all(groups(rows), pairs)


def numbers(rows: list[Row]) -> str:
    return numbers_of(groups(rows))


def draw(rows: list[Row]) -> dict[str, Figure]:
    """Left: the gain of each seed over fixed thresholds. Right: how far thresholds moved, layer by layer."""
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    found = groups(rows)
    colours = {"coupled": "#3b82f6", "decoupled": "#e07b39"}
    labels: list[str] = []
    for levels, interval in CASES:
        if interval is None:
            continue
        for stage in ("coupled", "decoupled"):
            learned = {r["seed"]: r["last"] for r in found[f"{stage}, {levels} levels, {WORDS[interval]}"]}
            fixed = {r["seed"]: r["last"] for r in found[f"{stage}, {levels} levels, fixed"]}
            gains = [learned[seed] - fixed[seed] for seed in learned if seed in fixed]
            place = len(labels)
            left.plot(gains, [place] * len(gains), "o", color=colours[stage], alpha=0.6)
            if gains:
                left.plot([statistics.mean(gains)], [place], "|", color="black", ms=18, mew=2)
            labels.append(f"{stage}, {levels} levels,\n{WORDS[interval]}")
    left.axvline(0, color="#57606a", lw=1)
    left.set_yticks(range(len(labels)), labels, fontsize=8)
    left.set_xlabel(
        "accuracy after the last epoch, learned minus fixed (points);\na dot is a seed, a bar the mean"
    )
    for levels, interval in CASES:
        some = found[f"coupled, {levels} levels, {WORDS[interval]}"]
        if interval is None or not some:
            continue
        depth = range(1, 1 + len(some[0]["moved"]))
        means = [statistics.mean(row["moved"][i - 1] for row in some) for i in depth]
        right.plot(depth, means, "o-", label=f"{levels} levels, {WORDS[interval]}")
    right.set_xlabel("activation")
    right.set_ylabel("root mean square of the thresholds' moves")
    right.set_ylim(bottom=0)
    right.xaxis.get_major_locator().set_params(integer=True)
    right.legend(fontsize=8, frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.suptitle(f"Learned thresholds (Appendix G): {setting(rows[0])} in each stage", fontsize=11)
    return {"intervals.png": figure}


EXPERIMENT = Experiment(
    "appendix_g_intervals",
    "Appendix G: learned intervals",
    units,
    measure,
    verdicts,
    draw,
    profiles=TRAINED,
    numbers=numbers,
    estimate=t.estimate,
)
