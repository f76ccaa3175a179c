"""Appendix F: BinaryDuo-Q, whose decoupled network has exactly the baseline's architecture.

Claim: the coupled network, a quarter of the weights, is worse than BinaryDuo's; fine-tuning brings +1.67 points to
89.72 %, below BinaryDuo (90.44 %) and above the baseline (89.07 %). Ours: results/appendix_f_quad.

Chosen before running: see _training.py; the baseline gets as many epochs as both stages together in `cpu`.
"""

import _training as t
from _experiment import Experiment, Row, Unit, Verdict
from _pictures import bars


def units(profile: str) -> list[Unit]:
    longer = t.longer(profile)
    out = []
    for seed in t.SEEDS:
        out += [
            t.unit(profile, seed, longer=longer),
            t.unit(profile, seed, stages=2, variant="coupled", levels=3),
            t.unit(profile, seed, stages=2, variant="coupled", levels=3, topology="quad"),
        ]
    return out


def groups(rows: list[Row]) -> dict[str, list[Row]]:
    return {
        "baseline": t.select(rows, stage="single"),
        "coupled": t.select(rows, stage="coupled", topology="duo"),
        "decoupled": t.select(rows, stage="decoupled", topology="duo"),
        "coupled Q": t.select(rows, stage="coupled", topology="quad"),
        "decoupled Q": t.select(rows, stage="decoupled", topology="quad"),
    }


def verdicts(rows: list[Row]) -> list[Verdict]:
    pairs = (
        ("coupled", "coupled Q", "Q's coupled network, smaller, is below BinaryDuo's"),
        ("decoupled Q", "coupled Q", "fine-tuning improves on Q's coupled network"),
        ("decoupled", "decoupled Q", "BinaryDuo-Q stays below BinaryDuo"),
        ("decoupled Q", "baseline", "BinaryDuo-Q beats the baseline"),
    )
    return t.compare_all(groups(rows), pairs)


def numbers(rows: list[Row]) -> str:
    return t.numbers_of(groups(rows))


def draw(rows: list[Row]) -> dict[str, object]:
    paper = {
        "baseline": 89.07,
        "coupled": 89.69,
        "decoupled": 90.44,
        "coupled Q": 88.05,
        "decoupled Q": 89.72,
    }
    found = [(name, some, paper[name]) for name, some in groups(rows).items()]
    return {"quad.png": bars(found, f"BinaryDuo-Q\n{t.setting(rows[0])}")}


EXPERIMENT = Experiment("appendix_f_quad", "Appendix F: BinaryDuo-Q", units, t.measure, verdicts, draw)
estimate = t.estimate
