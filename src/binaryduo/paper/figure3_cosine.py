"""Figure 3: cosine between coarse gradient and CDG by precision (a) and by STE (b).

Claim: full precision is near 1 in every layer; binary is far below ternary and higher, the more so the
farther a layer is from the output; no STE closes the gap. The paper prints no numbers for its bars.
Ours: results/figure3_cosine, mean ± standard deviation over seeds.

Chosen before running (the paper does not say): He initialisation is the one to be judged; PyTorch's default
and N(0, 1) are reported beside it. Seeds 0 to 4, one million samples, ε = 0.001 as in the paper. The target
network has the same precision as the evaluating one.

Added once, because five seeds left the order of ternary and binary undecided: seeds 5 to 19 for these two. The
verdicts are about all twenty.
"""

from matplotlib.figure import Figure

from binaryduo.mismatch import FIGURE_CASES, plots, select, sweep
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.mismatch_claims import all_claims

INITS = ("he", "torch", "normal")


def units(profile: str) -> list[Unit]:
    samples, seeds, more = (
        (1_000_000, range(5), range(5, 20)) if profile == "full" else (20_000, range(2), range(0))
    )
    return [  # what the claims are about comes first
        {"init": init, "seed": seed, "levels": levels, "samples": samples}
        for wanted, which in (((3, 2, None), seeds), ((4, 8, 16), seeds), ((3, 2), more))
        for init in INITS
        for levels in wanted
        for seed in which
    ]


def measure(unit: Unit, place: Workspace) -> list[Row]:
    cases = [case for case in FIGURE_CASES if case.levels == unit["levels"]]
    return sweep(cases, seeds=[unit["seed"]], inits=[unit["init"]], samples=unit["samples"])


def verdicts(rows: list[Row]) -> list[Verdict]:
    return [v for init in INITS for v in all_claims(select(rows, init=init), f"{init} initialisation")]


def draw(rows: list[Row]) -> dict[str, Figure]:
    return {
        f"figure3_{init}.png": plots.bars(
            select(rows, init=init), f"{init} initialisation, {rows[0]['samples']:,} samples, ε = 0.001"
        )
        for init in INITS
    }


EXPERIMENT = Experiment(
    "figure3_cosine", "Figure 3: cosines by precision and STE", units, measure, verdicts, draw
)
