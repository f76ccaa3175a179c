"""The paper's central claim as a picture: accuracy against cosine similarity, and against cumulative difference.

Claim (Sections 4.2 and 7): the cosine between coarse gradient and CDG correlates better with a network's accuracy
than the cumulative difference does. The paper prints no correlation. Ours: Spearman's rank correlations over precisions
and STEs. Nothing is run here: the accuracies are those of Figures 1a and 2, the cosines those of Figure 3.

Chosen before running: the cosine is "total", He initialisation, mean over seeds; the accuracy is the mean over seeds
after the last epoch; a smaller cumulative difference should go with a higher accuracy, so its sign is turned.
Networks with full precision are left out: they have no cumulative difference. Judged is the difference between both
correlations, computed for each seed of the trainings and paired, as everywhere. How far it moves when any one network
is left out is told beside it: few networks are a second source of doubt that seeds do not show.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import mean

from matplotlib.figure import Figure

import binaryduo as bd
from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import EQUAL, is_small, ruling, setting
from binaryduo.paper.experiment import TRAINED, Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.judging import paired
from binaryduo.paper.pictures import label_points, scatter_on

Point = tuple[str, float, float, dict[int, float]]  # name, cosine, cumulative difference, accuracy by seed
SOURCES = ("figure1a_precision", "figure2_accuracy", "figure3_cosine")


def units(profile: str) -> list[Unit]:
    return []


def measure(work: Unit, place: Workspace) -> list[Row]:
    return []


def trained_alike(rows: list[Row]) -> list[Row]:
    """The trainings by the one recipe that has most networks: the figures may have been run at different widths."""
    trained = [row for row in rows if row.get("stage") == "single"]
    networks = {(row["recipe"], row["levels"], row["ste"]) for row in trained}
    counts = Counter(recipe for recipe, _, _ in networks)
    if not counts:
        return []
    best = max(counts, key=lambda recipe: (counts[recipe], not is_small({"recipe": recipe})))
    return [row for row in trained if row["recipe"] == best]


def points(rows: list[Row]) -> list[Point]:
    """One for each precision and STE that has cosines and accuracies."""
    cosines = [row for row in rows if "cosine" in row and row.get("init", "he") == "he"]
    accuracies = {
        (row["levels"], row["ste"], row["seed"]): row["last"]
        for row in trained_alike(rows)
        if row["levels"] is not None
    }
    out = []
    for levels, ste in dict.fromkeys(key[:2] for key in accuracies):
        found = [row["cosine"]["total"] for row in cosines if (row["levels"], row["ste"]) == (levels, ste)]
        if found:
            name = ste if levels == 2 else t.LABELS[levels]
            reached = {key[2]: value for key, value in accuracies.items() if key[:2] == (levels, ste)}
            out.append((name, sum(found) / len(found), bd.ste.cumulative_difference(ste, levels), reached))
    return out


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the smallest; equal values share the mean of their ranks."""
    return [sum(v < x for v in values) + (1 + sum(v == x for v in values)) / 2 for x in values]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation, ties included."""
    x, y = ranks(a), ranks(b)
    middle = (len(x) + 1) / 2
    above = sum((p - middle) * (q - middle) for p, q in zip(x, y, strict=True))
    below = (sum((p - middle) ** 2 for p in x) * sum((q - middle) ** 2 for q in y)) ** 0.5
    return above / below if below else float("nan")


def correlations(found: list[Point], seed: int | None = None) -> tuple[float, float]:
    """Accuracy (the mean, or of one seed) with the cosine, and with the (turned) cumulative difference."""
    accuracy = [mean(p[3].values()) if seed is None else p[3][seed] for p in found]
    return spearman([p[1] for p in found], accuracy), spearman([-p[2] for p in found], accuracy)


def verdicts(rows: list[Row]) -> list[Verdict]:
    claim = "accuracy goes with the cosine more than with the cumulative difference"
    found = points(rows)
    if len(found) < 4:
        return [Verdict(claim, "", "not run", f"only {len(found)} networks have both")]
    trained = trained_alike(rows)
    seeds = sorted(set.intersection(*(set(point[3]) for point in found)))
    by_cosine, by_area = correlations(found)
    more = paired([cosine - area for cosine, area in (correlations(found, seed) for seed in seeds)])
    without = [correlations(found[:i] + found[i + 1 :]) for i in range(len(found))]
    differences = [cosine - area for cosine, area in without]
    evidence = (
        f"rank correlation {by_cosine:+.2f} with the cosine, {by_area:+.2f} with the area, n {len(found)}; "
        f"over {len(seeds)} seeds they differ by {more.shown()}, and by {min(differences):+.2f} to "
        f"{max(differences):+.2f} when any one network is left out"
    )
    number = f"correlation with the cosine − with the area: {more.shown()}"
    verdict = ruling(trained, more.verdict)
    return [Verdict(claim, f"{EQUAL}; {setting(trained[0])}", verdict, evidence, number)]


def draw(rows: list[Row]) -> dict[str, Figure]:
    found = points(rows)
    by_cosine, by_area = correlations(found)
    figure = Figure(figsize=(10.5, 4.3), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    cosines = [(name, cosine, list(reached.values())) for name, cosine, _, reached in found]
    areas = [(name, area, list(reached.values())) for name, _, area, reached in found]
    title = f"cosine similarity: rank correlation {by_cosine:+.2f}"
    scatter_on(left, cosines, "cosine (coarse gradient, CDG), total", "test accuracy, last epoch (%)", title)
    title = f"cumulative difference: rank correlation {by_area:+.2f}"
    scatter_on(right, areas, "cumulative difference (smaller should be better)", "", title)
    right.invert_xaxis()
    label_points(left, cosines)
    label_points(right, areas)
    return {"central_claim.png": figure}


EXPERIMENT = Experiment(
    "central_claim",
    "The central claim: cosine or cumulative difference?",
    units,
    measure,
    verdicts,
    draw,
    profiles=TRAINED,
    sources=SOURCES,
)
