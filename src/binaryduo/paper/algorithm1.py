"""Algorithm 1: the cosine between coarse gradient and CDG, written out as the paper prints it, against bd.mismatch.

The algorithm claims no number. What is checked: the printed loops (two evaluations of the network for each weight,
here in plain NumPy) give the same CDG and the same cosines as ToyProblem, whose fast method shares what it can.

Chosen before running: He initialisation, seed 0, width 16, three hidden layers, 2,000 samples, ε = 0.001; binary,
ternary and full precision. The fast method at the paper's size is held against brute force by the tests of bd.mismatch.
"""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from binaryduo.mismatch import ToyProblem, cosine
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace

SETTING = "width 16, 2,000 samples"
LABELS = {2: "binary", 3: "ternary", None: "full precision"}


def units(profile: str) -> list[Unit]:
    width, samples = (16, 2_000) if profile == "full" else (8, 300)
    return [{"levels": levels, "width": width, "samples": samples, "step": 1e-3} for levels in LABELS]


def activation(levels: int | None) -> Callable[[np.ndarray], np.ndarray]:
    """f of the algorithm: Q(x) with a tie going up, or ReLU."""
    if levels is None:
        return lambda x: np.maximum(x, 0)
    return lambda x: np.floor(np.clip(x, 0, 1) * (levels - 1) + 0.5) / (levels - 1)


def loss(
    weights: list[np.ndarray], x: np.ndarray, targets: np.ndarray, f: Callable[[np.ndarray], np.ndarray]
) -> float:
    """1/(2n) Σ (F(x) − F*(x))²."""
    for weight in weights[:-1]:
        x = f(weight @ x)
    return float(((weights[-1] @ x - targets) ** 2).mean() / 2)


def measure(work: Unit, place: Workspace) -> list[Row]:
    toy = ToyProblem(work["width"], samples=work["samples"], levels=work["levels"], seed=0)
    names = list(toy.weights)
    weights = [toy.weights[name].double().numpy().copy() for name in names]
    x, targets = toy.inputs.double().numpy(), toy.targets.double().numpy()
    f, step = activation(work["levels"]), work["step"]
    coarse, ours = toy.coarse_gradient(), toy.cdg(step)
    printed, largest = {}, 0.0
    for name, weight in zip(names, weights, strict=True):
        found = np.zeros_like(weight)
        for index in np.ndindex(weight.shape):
            kept = weight[index]
            weight[index] = kept + step
            plus = loss(weights, x, targets, f)
            weight[index] = kept - step
            minus = loss(weights, x, targets, f)
            weight[index] = kept
            found[index] = (plus - minus) / (2 * step)
        printed[name] = found
        largest = max(largest, float(np.abs(found - ours[name].numpy()).max()))
    product = {n: float((printed[n] * coarse[n].numpy()).sum()) for n in names}
    norms = {n: float(np.linalg.norm(printed[n]) * np.linalg.norm(coarse[n].numpy())) for n in names}
    literal = {n: product[n] / norms[n] if norms[n] else None for n in names}
    return [
        {
            "levels": work["levels"],
            "cosine": cosine(coarse, ours),
            "printed": literal,
            "largest": largest,
        }
    ]


def verdicts(rows: list[Row]) -> list[Verdict]:
    out = []
    for row in rows:
        gap = max(abs(row["cosine"][n] - v) for n, v in row["printed"].items() if v is not None)
        out.append(
            Verdict(
                "the printed loops and bd.mismatch give the same CDG and cosines",
                LABELS[row["levels"]],
                "holds" if row["largest"] < 1e-9 and gap < 1e-6 else "does not hold",
                f"largest difference {row['largest']:.1e} in a CDG, {gap:.1e} in a cosine",
                f"largest difference {row['largest']:.1e}",
            )
        )
    return out


def draw(rows: list[Row]) -> dict[str, Figure]:
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    for number, row in enumerate(rows):
        names = list(row["printed"])
        at = [k + (number - 1) * 0.27 for k in range(len(names))]
        axes.bar(
            at, [row["cosine"][n] or 0.0 for n in names], 0.25, label=f"{LABELS[row['levels']]}, bd.mismatch"
        )
        axes.plot(
            at,
            [row["printed"][n] or 0.0 for n in names],
            "k_",
            ms=14,
            label="as printed" if number == 0 else None,
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("cosine (coarse gradient, CDG)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, loc="outside upper center", ncols=4)
    return {"algorithm1.png": figure}


EXPERIMENT = Experiment(
    "algorithm1", "Algorithm 1 as printed", units, measure, verdicts, draw, setting=SETTING
)
