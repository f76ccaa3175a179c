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
hours     The question itself, at the smallest budget of the evidence study (`coupling_pays`): VGG-7 at full width on
          CIFAR-10, duo of ten epochs in total, one anneal over both stages, 1e-2 in both of them for all cases (the
          study's rates when these runs began; it has since found that half of it is better for fine-tuning), bfloat16,
          three seeds. In this order, so that wherever it stops the result is worth most: three levels fixed and
          learned for each channel; four levels fixed and learned for each channel; three levels learned for each layer.
profile   Behind every coupled network stands its gradient mismatch after the last epoch, by `bd.mismatch.profile` with
          step="auto" on test images: what learned thresholds do to it.
rule      A claim holds where Student's 95 % interval of the difference of accuracies after the last epoch, paired over
          seeds, lies above zero, and does not where it lies below. On the MLP neither decides the paper's question:
          the verdict is "too small to say", and the difference is printed beside it.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from binaryduo._common.weight_files import read_weights
from binaryduo.paper import trainings as t
from binaryduo.paper import ways as w
from binaryduo.paper.accuracies import compare_all, numbers_of, select, setting
from binaryduo.paper.coupling_pays import LR
from binaryduo.paper.coupling_pays import unit as study_unit
from binaryduo.paper.experiment import PROFILES, Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.profiles import Cosines, cosines, first_images
from binaryduo.training.restore import load_run

SEEDS = (0, 1, 2, 3, 4)
HOURS_SEEDS, HOURS_EPOCHS = 3, 10
IMAGES, COORDINATES = 256, 64  # of the profile
CASES: tuple[tuple[int, str | None], ...] = (
    (3, None),
    (3, "layer"),
    (3, "channel"),
    (4, None),
    (4, "channel"),
)
STYLES = {
    (3, None): "ko-",
    (3, "layer"): "bs-",
    (3, "channel"): "b^-",
    (4, None): "rx--",
    (4, "channel"): "r^--",
}
WORDS = {None: "fixed", "layer": "learned, layer", "channel": "learned, channel"}


def units(profile: str) -> list[Unit]:
    if profile == "hours":
        order = (((3, None), (3, "channel")), ((4, None), (4, "channel")), ((3, "layer"),))
        return [
            _study_unit(levels, interval, seed)
            for cases in order
            for seed in range(HOURS_SEEDS)
            for levels, interval in cases
        ]
    size = "intervals" if profile == "cpu" else profile
    seeds = SEEDS[:1] if profile == "smoke" else SEEDS
    return [
        t.unit(size, seed, stages=2, variant="coupled", levels=levels, interval=interval)
        for seed in seeds
        for levels, interval in CASES
    ]


def _study_unit(levels: int, interval: str | None, seed: int) -> Unit:
    """A unit as those of the evidence study, with one rate for both stages."""
    more: dict[str, object] = {} if levels == 3 else {"levels": levels}
    more |= {} if interval is None else {"interval": interval}
    return {**study_unit("duo", HOURS_EPOCHS, seed, **more), "finetune_lr": LR["duo"]}


def measure(work: Unit, place: Workspace) -> list[Row]:
    """Train both stages; the coupled network's row also has its mismatch, and how far its thresholds have moved."""
    if "way" in work:
        (found,) = w.measure(work, place)
        folder = w.folder_of(work, place.runs)
        coupled, decoupled = _as_stages(found)
    else:
        coupled, decoupled = t.measure(work, place)
        folder = t.folder_of(work, place.runs)
    return [{**coupled, "moved": _moved(folder), "cosine": _profiled(folder)}, decoupled]


def _as_stages(found: Row) -> tuple[Row, Row]:
    """The row of a run of `ways` as two, one for each network, as those of `trainings` are."""
    levels = found.get("levels", 3)
    common = {key: found[key] for key in ("network", "width", "seed")}
    common |= {"data": "cifar10", "recipe": "budget", "interval": found.get("interval")}
    first = round(found["share"] * found["epochs"])
    coupled = {**common, "stage": "coupled", "levels": levels, "epochs": first, "total_epochs": first}
    decoupled = {**common, "stage": "decoupled", "levels": 2, "coupled_levels": levels}
    decoupled |= {"epochs": found["epochs"] - first, "total_epochs": found["epochs"]}
    measured = ("last", "best", "seconds", "curve")
    return (
        {**coupled, **{key: found["coupled"][key] for key in measured}},
        {**decoupled, **{key: found[key] for key in measured}, "before": found["before"]},
    )


def _profiled(folder: Path) -> Cosines:
    """For each layer of the coupled network the cosine of coarse gradient and CDG, and its 95 % interval."""
    model, _, data, _ = load_run(folder / "coupled", "last")
    return cosines(model, *first_images(data.test, IMAGES), COORDINATES)


def _moved(folder: Path) -> list[float]:
    """For each activation, how far its thresholds are from where they began: the root of the mean square."""
    newest = sorted((folder / "coupled" / "checkpoints").glob("step-*.safetensors"))[-1]
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


def planned_seeds(rows: list[Row]) -> int:
    """How many seeds a claim needs, by the profile that the rows are of."""
    planned = {"budget": HOURS_SEEDS, "reproduce-smoke": 1}
    return planned.get(rows[0]["recipe"], len(SEEDS))


def verdicts(rows: list[Row]) -> list[Verdict]:
    """Of the cases whose seeds are complete on both sides."""
    pairs, found = [], groups(rows)
    for levels, interval in CASES:
        if interval is None:
            continue
        for stage, what in (
            ("coupled", "the coupled network"),
            ("decoupled", "the fine-tuned binary network"),
        ):
            names = [f"{stage}, {levels} levels, {WORDS[kind]}" for kind in (interval, None)]
            if min(len(found[name]) for name in names) < planned_seeds(rows):
                continue
            claim = f"thresholds learned for each {interval} improve {what} ({levels} levels)"
            pairs.append((names[0], names[1], claim))
    judged = compare_all(found, pairs)
    return [replace(v, number=f"learned − fixed: {v.number.rpartition(': ')[2]}") for v in judged]


def numbers(rows: list[Row]) -> str:
    return f"{numbers_of(groups(rows))}. {mismatch_sentence(rows)}"


def mismatch_sentence(rows: list[Row]) -> str:
    """The mean cosine of the hidden layers of each coupled network, over layers and seeds."""
    parts = []
    for levels, interval in CASES:
        some = select(rows, stage="coupled", levels=levels, interval=interval)
        each = [statistics.mean(hidden) for row in some if (hidden := hidden_cosines(row))]
        if each:
            spread = f" ± {statistics.stdev(each):.3f}" if len(each) > 1 else ""
            parts.append(
                f"{levels} levels, {WORDS[interval]} {statistics.mean(each):.3f}{spread} (n {len(each)})"
            )
    return "Cosine of coarse gradient and CDG, mean of the hidden layers: " + "; ".join(parts)


def hidden_cosines(row: Row) -> list[float]:
    """The cosines of all layers but the last, whose gradient is exact."""
    return [found[0] for found in list(row["cosine"].values())[:-1] if found[0] is not None]


def estimate(works: Sequence[Unit], place: Workspace) -> list[float]:
    """Seconds that each unit will take here; learned thresholds on VGG-7 take a coupled step 2.4 times as long."""
    if works and "way" in works[0]:
        return [
            seconds * (1.0 if work.get("interval") is None else 1.6)
            for work, seconds in zip(works, w.estimate(works, place), strict=True)
        ]
    return t.estimate(works, place)


def draw(rows: list[Row]) -> dict[str, Figure]:
    """The gain of each seed over fixed thresholds; how far thresholds moved; the mismatch, layer by layer."""
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(3, 2, 2))
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
            if not gains:
                continue
            place = len(labels)
            left.plot(gains, [place] * len(gains), "o", color=colours[stage], alpha=0.6)
            left.plot([statistics.mean(gains)], [place], "|", color="black", ms=18, mew=2)
            labels.append(f"{stage}, {levels} levels,\n{WORDS[interval]}")
    left.axvline(0, color="#57606a", lw=1)
    left.set_yticks(range(len(labels)), labels, fontsize=8)
    left.set_xlabel(
        "accuracy after the last epoch, learned minus fixed (points);\na dot is a seed, a bar the mean"
    )
    for levels, interval in CASES:
        some = found[f"coupled, {levels} levels, {WORDS[interval]}"]
        if not some:
            continue
        style, label = STYLES[levels, interval], f"{levels} levels, {WORDS[interval]}"
        if interval is not None:
            depth = range(1, 1 + len(some[0]["moved"]))
            means = [statistics.mean(row["moved"][i - 1] for row in some) for i in depth]
            middle.plot(depth, means, style, label=label)
        layers = list(some[0]["cosine"])[:-1]
        known = [[v for row in some if (v := row["cosine"][name][0]) is not None] for name in layers]
        means = [statistics.mean(values) if values else math.nan for values in known]
        right.plot(range(1, 1 + len(layers)), means, style, label=label)
    middle.set_xlabel("activation")
    middle.set_ylabel("root mean square of the thresholds' moves")
    right.set_xlabel("layer of the coupled network (not the last)")
    right.set_ylabel("cosine of coarse gradient and CDG")
    middle.set_ylim(bottom=0)
    right.axhline(0, color="#57606a", lw=1)
    for axis in (middle, right):
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.legend(fontsize=8, frameon=False)
    for axis in (left, middle, right):
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
    profiles=PROFILES,
    numbers=numbers,
    estimate=estimate,
    judges_parts=True,
)
