"""Appendix C, step sizes: the cosines of Figure 3 for ε from 1e-4 to 1e-2.

Claim: the gap between ternary and binary is there in every layer at every ε, and all STEs are alike. The
paper prints no numbers. Ours: results/appendix_c_steps, mean ± standard deviation over seeds.

Chosen before running: He initialisation, seeds 0 to 4, one million samples,
ε = 1e-4, 3e-4, 1e-3, 3e-3, 1e-2.

Added once, because five seeds left the order of ternary and binary undecided: seeds 5 to 19 for these two. The
verdicts are about all twenty.
"""

from matplotlib.figure import Figure

from binaryduo.mismatch import FIGURE_CASES, plots, select, sweep
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace
from binaryduo.paper.mismatch_claims import gap_at_every_step, no_ste_closes_the_gap

STEPS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


def units(profile: str) -> list[Unit]:
    samples, seeds, more = (
        (1_000_000, range(5), range(5, 20)) if profile == "full" else (20_000, range(2), range(0))
    )
    return [  # what the claims are about comes first
        {"seed": seed, "levels": levels, "samples": samples, "steps": list(STEPS)}
        for wanted, which in (((3, 2), seeds), ((None,), seeds), ((4, 8, 16), seeds), ((3, 2), more))
        for seed in which
        for levels in wanted
    ]


def measure(unit: Unit, place: Workspace) -> list[Row]:
    cases = [case for case in FIGURE_CASES if case.levels == unit["levels"]]
    return sweep(cases, unit["steps"], seeds=[unit["seed"]], samples=unit["samples"])


def verdicts(rows: list[Row]) -> list[Verdict]:
    per_step = [no_ste_closes_the_gap(select(rows, step=step), f"he, ε = {step:g}") for step in STEPS]
    return [gap_at_every_step(rows, "ε", "he initialisation"), *per_step]


def draw(rows: list[Row]) -> dict[str, Figure]:
    return {"steps.png": plots.panels(rows, "ε", f"CDG, he initialisation, {rows[0]['samples']:,} samples")}


EXPERIMENT = Experiment("appendix_c_steps", "Appendix C: cosines against ε", units, measure, verdicts, draw)
