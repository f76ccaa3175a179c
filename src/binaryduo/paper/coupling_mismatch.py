"""Does the accuracy follow the gradient mismatch? The slopes of the networks that `coupling_pays` trains.

The paper's causal claim (Sections 4 and 5): coupled activations have a smaller mismatch, and that is why the network
made this way ends higher. It shows the cosines on a toy problem only. Here they are measured on the networks of the
study with ten epochs, three seeds: each network as it starts (drawn, or just decoupled) and after its last epoch. The
end of the coupled network is the moment before decoupling, the start of the decoupled one the moment after it: one
function, with three levels and with two.

Chosen before running: `mismatch.slopes`, which moves all weights of a layer together, on 256 training images without
augmentation, 16 random directions per layer, steps of 1 % of each layer's weights, which judge, and of 3 %, which stand
beside them. A network that was just drawn sees the images first, so that its BN has statistics. Counted are the layers
in front of a quantized activation, of which the last two of VGG-7 are none, and the mean of their cosines; differences
are paired over seeds. Hypotheses: the coupled network is above the baseline as it is drawn, and above the decoupled one
where it becomes that; the ways end in the order of their accuracies. What was seen before these were written down: one
seed of the baseline (0.055 in the mean of the layers) and of the coupled network (0.103) as they are drawn.

Three seeds left the first hypothesis undecided (+0.028 ± 0.042), and a network that is only drawn is cheap. So it is
tested once more on eight further seeds, which alone judge that claim; nothing else is added after a look.

Tried before and given up: the CDG. With 64 weights per layer a cosine scatters by 0.12, and with 16 weights and 32
images during the trainings themselves it was noise: its error falls with the root of the weights only.

What a cosine here says: how well back-propagation knows the loss of these images. The gradients of other images are
others: between two batches of 256 images the CDGs of a layer correlate by −0.2 to 0.2, and the coarse gradients by
−0.5 to 0.4.
"""

from itertools import product
from statistics import mean

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from binaryduo.mismatch import slopes
from binaryduo.mismatch.settling import settle_norms
from binaryduo.paper import ways as w
from binaryduo.paper.coupling_pays import COLOURS, NETWORK
from binaryduo.paper.coupling_pays import unit as study_unit
from binaryduo.paper.experiment import STUDY, Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.judging import Interval, difference
from binaryduo.paper.profiles import first_images, numbers_of
from binaryduo.training.duo import build_model, load_data
from binaryduo.training.restore import load_run
from binaryduo.transform.decoupling import decouple

EPOCHS, SEEDS, IMAGES, DIRECTIONS = 10, range(3), 256, 16
FURTHER = range(3, 11)  # of the baseline and the coupled network as drawn
STEPS = (0.01, 0.03)  # of the length of the weights; the first judges
NETWORKS = {"baseline": "baseline", "scratch": "scratch", "coupled": "duo", "decoupled": "duo"}  # and its way
MOMENTS = ("start", "end")
NAMES = {
    "baseline": "binary\nbaseline",
    "scratch": "topology,\nfrom scratch",
    "coupled": "duo,\ncoupled",
    "decoupled": "duo,\ndecoupled",
}
# What is claimed, of which network when, against which network when, and on which seeds.
AS_DRAWN = "as drawn, the coupled network's gradient is closer to the truth than the baseline's"
DRAWN = (("coupled", "start"), ("baseline", "start"))
CLAIMS = {
    AS_DRAWN: (*DRAWN, SEEDS),
    f"once more: {AS_DRAWN}": (*DRAWN, FURTHER),
    "of one function, the coupled network's gradient is closer to the truth than the decoupled one's": (
        ("coupled", "end"),
        ("decoupled", "start"),
        SEEDS,
    ),
    "after fine-tuning, the decoupled network's gradient is closer to the truth than the baseline's": (
        ("decoupled", "end"),
        ("baseline", "end"),
        SEEDS,
    ),
    "trained from scratch, the topology's gradient is closer to the truth than the baseline's": (
        ("scratch", "end"),
        ("baseline", "end"),
        SEEDS,
    ),
}


def units(profile: str) -> list[Unit]:
    seeds, further, sizes = SEEDS, FURTHER, (EPOCHS, IMAGES, DIRECTIONS)
    if profile == "smoke":
        seeds, further, sizes = range(1), range(0), (2, 64, 4)
    every = [
        _unit(network, moment, seed, *sizes) for seed, network, moment in product(seeds, NETWORKS, MOMENTS)
    ]
    every += [_unit(*drawn, seed, *sizes) for seed, drawn in product(further, DRAWN)]
    # What is only drawn comes first, then both networks of duo, whose comparison needs no other run, then the
    # baseline, which two claims need.
    order = ("duo", "baseline", "scratch")
    return sorted(every, key=lambda work: (needs_run(work), order.index(NETWORKS[work["network"]])))


def needs_run(work: Unit) -> bool:
    """Whether a network is of a run, and not just drawn."""
    return bool(work["moment"] == "end" or work["network"] == "decoupled")


def _unit(network: str, moment: str, seed: int, epochs: int, images: int, directions: int) -> Unit:
    found = {"network": network, "moment": moment, "seed": seed, "epochs": epochs}
    return {**found, "images": images, "directions": directions}


def run_of(work: Unit) -> Unit:
    """The run of the study that a network is of."""
    small = {"network": "mlp", "width": 0.05} if work["epochs"] < EPOCHS else {}
    return study_unit(NETWORKS[work["network"]], work["epochs"], work["seed"], **small)


def measure(work: Unit, place: Workspace) -> list[Row]:
    """Profile a network as it is drawn, or of a run; a run that is not there is trained first."""
    recipe = w.recipe_of(run_of(work), place.root)
    data = load_data(recipe)
    images, labels = first_images(data.train, work["images"])
    last: Row = {}
    if needs_run(work):
        model, last = _trained(work, place)
    else:
        model = settle_norms(build_model(recipe, data), images)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = images.contiguous(memory_format=torch.channels_last)
    rows = []
    for step in STEPS:
        found = slopes(model, nn.functional.cross_entropy, images, labels, step, work["directions"])
        kept = {layer.name: round(layer.kept, 4) for layer in found.layers}
        rows.append({**work, "step": step, "cosine": numbers_of(found.layers), "kept": kept, **last})
    return rows


def _trained(work: Unit, place: Workspace) -> tuple[nn.Module, Row]:
    """A network after its last epoch and its accuracy, or the decoupled one before its first."""
    (run,) = w.measure(run_of(work), place)
    folder, kind = w.folder_of(run_of(work), place.runs), work["network"]
    if work["moment"] == "end":
        stage = folder if kind in ("baseline", "scratch") else folder / kind
        return load_run(stage, "last")[0], {"last": (run["coupled"] if kind == "coupled" else run)["last"]}
    coupled, recipe, data, _ = load_run(folder / "coupled", "last")
    return decouple(coupled, torch.zeros(1, *data.shape), recipe.model.topology), {}


def at_step(rows: list[Row], step: float = STEPS[0]) -> list[Row]:
    """The rows of one length of step."""
    return [row for row in rows if row["step"] == step]


def quantized(row: Row) -> dict[str, float]:
    """The cosines of the layers in front of a quantized activation, where there are any; the last two are exact."""
    layers = list(row["cosine"].items())[:-2]
    return {name: found[0] for name, found in layers if found[0] is not None}


def levels(rows: list[Row], network: str, moment: str) -> dict[int, float]:
    """The mean cosine of a network at a moment, by seed, of rows with one step."""
    return {
        row["seed"]: mean(found.values())
        for row in rows
        if (row["network"], row["moment"]) == (network, moment) and (found := quantized(row))
    }


def verdicts(rows: list[Row]) -> list[Verdict]:
    """Each claim once both of its sides have all their seeds."""
    out = []
    for claim, parts in CLAIMS.items():
        found = {step: _compared(at_step(rows, step), *parts) for step in STEPS}
        judging, beside = (found[step] for step in STEPS)
        if judging is not None:
            evidence = f"difference of the mean cosines: {judging.shown(3)}"
            evidence += (
                f"; with steps of {100 * STEPS[1]:g} %: {beside.shown(3)}" if beside is not None else ""
            )
            setting = f"steps of {100 * STEPS[0]:g} % of the weights; {EPOCHS} epochs in total; {NETWORK}; "
            setting += f"{len(parts[-1])} seeds"
            out.append(Verdict(claim, setting, judging.verdict, evidence, judging.shown(3)))
    return out


def _compared(rows: list[Row], high: tuple[str, str], low: tuple[str, str], seeds: range) -> Interval | None:
    """How far one mean cosine is above another; None where not all seeds are there."""
    rows = [row for row in rows if row["seed"] in seeds]
    sides = [levels(rows, *side) for side in (high, low)]
    return difference(*sides) if min(map(len, sides)) == len(seeds) else None


def numbers(rows: list[Row]) -> str:
    """The mean cosine of each network at both moments, for each length of step."""
    parts = []
    for step, network in product(STEPS, NETWORKS):
        found = {moment: list(levels(at_step(rows, step), network, moment).values()) for moment in MOMENTS}
        shown = [f"{moment} {mean(some):.3f} (n {len(some)})" for moment, some in found.items() if some]
        if shown:
            parts.append(f"{100 * step:g} %, {network}: {', '.join(shown)}")
    if not parts:
        return "None of the study's networks was measured yet."
    return "Mean cosine over layers, by the step as a share of the weights: " + "; ".join(parts) + "."


def draw(rows: list[Row]) -> dict[str, Figure]:
    """A panel per layer and one for their mean, then accuracy over the mean at the end; a dot per seed."""
    rows = at_step(rows)
    if not rows:
        return {}
    layers = list(quantized(max(rows, key=lambda row: len(quantized(row)))))
    figure = Figure(figsize=(14, 6.6), layout="constrained")
    panels = list(figure.subplots(2, 4).flat)
    for axis, layer in zip(panels, [*layers, None], strict=False):
        for place, moment in product(enumerate(NETWORKS), MOMENTS):
            at, network = place[0] + (-0.13 if moment == "start" else 0.13), place[1]
            mine = [row for row in rows if (row["network"], row["moment"]) == (network, moment)]
            if layer is None:
                found = list(levels(rows, network, moment).values())
            else:
                found = [value for row in mine if (value := quantized(row).get(layer)) is not None]
            fill = "white" if moment == "start" else COLOURS[NETWORKS[network]]
            axis.plot([at] * len(found), found, "o", mfc=fill, mec=COLOURS[NETWORKS[network]], ms=6)
        axis.set_title("mean of these layers" if layer is None else layer, fontsize=10)
        axis.set_xticks(range(len(NETWORKS)), NAMES.values(), fontsize=7.5)
        axis.set_xlim(-0.5, len(NETWORKS) - 0.5)
        axis.axhline(0, color="#8c959f", lw=0.8)
    _accuracy_panel(panels[len(layers) + 1], rows)
    for axis in panels:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_visible(axis.has_data())
    for axis in (panels[0], panels[4]):
        axis.set_ylabel("slope along the coarse gradient (cosine)")
    figure.suptitle(
        f"Gradient mismatch of VGG-7 on CIFAR-10, {EPOCHS} epochs in total, steps of {100 * STEPS[0]:g} % of the "
        "weights, a dot per seed\nHollow: as the network starts; filled: after its last epoch",
        fontsize=9.5, x=0.01, ha="left",
    )  # fmt: skip
    return {"mismatch.png": figure}


def _accuracy_panel(axis: Axes, rows: list[Row]) -> None:
    """Nothing while there is one way only, which cannot say whether the accuracy follows."""
    ends = {network: levels(rows, network, "end") for network in NETWORKS if network != "coupled"}
    ends = {network: found for network, found in ends.items() if found}
    if len(ends) < 2:
        return
    for network, found in ends.items():
        last = {row["seed"]: row["last"] for row in rows if row["network"] == network and "last" in row}
        points = [(found[seed], last[seed]) for seed in sorted(found)]
        colour, label = COLOURS[NETWORKS[network]], NAMES[network].replace("\n", " ")
        axis.plot([x for x, _ in points], [y for _, y in points], "o", color=colour, label=label)
    axis.set_xlabel("mean cosine after the last epoch")
    axis.set_ylabel("test accuracy (%)")
    axis.set_title("does the accuracy follow?", fontsize=10)
    axis.legend(fontsize=8, frameon=False)


EXPERIMENT = Experiment(
    "coupling_mismatch",
    "Does the accuracy follow the mismatch? Slopes of the study's networks",
    units,
    measure,
    verdicts,
    draw,
    profiles=STUDY,
    numbers=numbers,
    judges_parts=True,
)
