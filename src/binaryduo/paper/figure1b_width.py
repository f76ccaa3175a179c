"""Figure 1b: a wider network does not save binary activations.

Claim: one bit at twice the width is much worse than two bits at the original width. The paper prints no
numbers. Ours: results/figure1b_width; `cpu` has only the point that the paper names in words, `paper` all
precisions at half, once and twice the width.

Chosen before running: see trainings.py. `width` multiplies every hidden width (the authors' code leaves the
first convolution alone).

In `hours` the claim does not hold (half and full width, 12 epochs, three seeds): 82.02 % with 2 bits, 83.32 % with
1 bit at twice the width. The rate of 1 bit was tuned at that width, that of 2 bits was not (1e-2, the coupled
network's), which works against the claim; how much is not known.
"""

from matplotlib.figure import Figure

from binaryduo.paper import trainings as t
from binaryduo.paper.accuracies import compare, numbers_of, select
from binaryduo.paper.experiment import HALF_WIDTH, Experiment, Row, Unit, Verdict
from binaryduo.paper.pictures import lines


def units(profile: str) -> list[Unit]:
    points: list[tuple[int | None, float]] = [(4, 1.0), (2, 2.0)]
    if profile == "paper":
        points = [(levels, width) for width in (0.5, 1.0, 2.0) for levels in (None, 16, 8, 4, 2)]
    return [
        t.unit(profile, seed, levels=levels, widen=widen)
        for seed in t.seeds(profile)
        for levels, widen in points
    ]


def _points(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Two bits at the original width, one bit at twice that."""
    widths = sorted({row["width"] for row in select(rows, levels=4)})
    original = widths[len(widths) // 2] if widths else 0.0
    return select(rows, levels=4, width=original), select(rows, levels=2, width=2 * original)


def verdicts(rows: list[Row]) -> list[Verdict]:
    claim = "2 bits at the original width are more accurate than 1 bit at twice the width"
    return [compare(claim, *_points(rows), ("2 bits ×1", "1 bit ×2"))]


def numbers(rows: list[Row]) -> str:
    return numbers_of(dict(zip(("2 bits ×1", "1 bit ×2"), _points(rows), strict=True)))


def draw(rows: list[Row]) -> dict[str, Figure]:
    series = []
    for levels in (None, 16, 8, 4, 2):
        some = select(rows, levels=levels)
        widths = sorted({row["width"] for row in some})
        values = [[row["last"] for row in select(some, width=width)] for width in widths]
        if widths:
            series.append((t.LABELS[levels], widths, values))
    title = f"Does width make up for bits? {rows[0]['network']} on {rows[0]['data']}, {rows[0]['epochs']:g} epochs"
    return {
        "width.png": lines(series, "width, as a part of the paper's", "test accuracy, last epoch (%)", title)
    }


EXPERIMENT = Experiment(
    "figure1b_width",
    "Figure 1b: accuracy by width",
    units,
    t.measure,
    verdicts,
    draw,
    profiles=HALF_WIDTH,
    numbers=numbers,
    estimate=t.estimate,
)
