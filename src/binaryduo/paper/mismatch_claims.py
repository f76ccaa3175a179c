"""The paper's claims about gradient mismatch, as functions from rows to verdicts.

A verdict is about paired differences over seeds, judged as everywhere (`judging`).
"""

from collections.abc import Mapping, Sequence

from binaryduo.mismatch import BINARY_STES, select
from binaryduo.paper.experiment import Row, Verdict
from binaryduo.paper.judging import Interval, all_of, by_seed, gap, paired

LAYERS = ("fc1", "fc2", "fc3", "total")


def _shown(difference: Interval) -> str:
    return f"{difference.shown(3)} ({difference.verdict})"


def _least(differences: Mapping[str, Interval]) -> str:
    """The difference that is nearest to being none, which decides a claim about all of them."""
    name = min(differences, key=lambda key: differences[key].middle - differences[key].half)
    return f"{name} {differences[name].shown(3)}"


def full_precision_is_one(rows: Sequence[Row], setting: str, floor: float = 0.99) -> Verdict:
    """Full precision: every layer of every seed at least `floor`."""
    lowest = {layer: min(by_seed(select(rows, levels=None), layer).values()) for layer in LAYERS}
    verdict = "holds" if min(lowest.values()) >= floor else "does not hold"
    evidence = "lowest over seeds: " + ", ".join(f"{k} {v:.5f}" for k, v in lowest.items())
    claim, number = "full precision has a cosine near 1 in every layer", f"lowest {min(lowest.values()):.5f}"
    return Verdict(claim, setting, verdict, evidence, number)


def binary_below_ternary(rows: Sequence[Row], setting: str) -> Verdict:
    """Ternary minus binary, both with ReLU1, in every layer."""
    ternary, binary = (select(rows, levels=levels, ste="relu1") for levels in (3, 2))
    gaps = {layer: gap(ternary, binary, layer) for layer in LAYERS}
    evidence = "ternary − binary: " + ", ".join(f"{k} {_shown(v)}" for k, v in gaps.items())
    verdict = all_of([v.verdict for v in gaps.values()])
    number = f"ternary − binary: {_least(gaps)}"
    return Verdict("binary is below ternary in every layer", setting, verdict, evidence, number)


def worse_away_from_the_output(rows: Sequence[Row], setting: str) -> Verdict:
    """Binary: fc3 above fc2 above fc1."""
    binary = select(rows, levels=2, ste="relu1")
    steps = {}
    for near, far in (("fc3", "fc2"), ("fc2", "fc1")):
        a, b = by_seed(binary, near), by_seed(binary, far)
        steps[f"{near} − {far}"] = paired([a[s] - b[s] for s in sorted(a) if s in b])
    evidence = ", ".join(f"{k} {_shown(v)}" for k, v in steps.items())
    verdict = all_of([v.verdict for v in steps.values()])
    return Verdict("binary is worse the farther from the output", setting, verdict, evidence, _least(steps))


def no_ste_closes_the_gap(rows: Sequence[Row], setting: str) -> Verdict:
    """Ternary minus binary with each STE, in every layer."""
    ternary = select(rows, levels=3, ste="relu1")
    parts, narrowest, closest = [], {}, {}
    for layer in LAYERS:
        gaps = {c.ste: gap(ternary, select(rows, levels=2, ste=c.ste), layer) for c in BINARY_STES}
        parts += [v.verdict for v in gaps.values()]
        best = min(gaps, key=lambda name: gaps[name].middle)
        narrowest[layer] = f"{layer} {_shown(gaps[best])} with {best}"
        closest[f"{layer}, {best},"] = gaps[best]
    evidence = "ternary − binary with its best STE: " + ", ".join(narrowest.values())
    number = f"ternary − binary: {_least(closest)}"
    return Verdict("no STE closes the gap to ternary", setting, all_of(parts), evidence, number)


def all_claims(rows: Sequence[Row], setting: str) -> list[Verdict]:
    """The four claims of Figure 3 on one set of rows."""
    return [
        full_precision_is_one(rows, setting),
        binary_below_ternary(rows, setting),
        worse_away_from_the_output(rows, setting),
        no_ste_closes_the_gap(rows, setting),
    ]


def gap_at_every_step(rows: Sequence[Row], symbol: str, setting: str) -> Verdict:
    """Ternary minus binary in every layer at every step size."""
    parts, weakest, seen = [], [], {}
    for step in sorted({row["step"] for row in rows}):
        some = select(rows, step=step)
        ternary, binary = (select(some, levels=levels, ste="relu1") for levels in (3, 2))
        gaps = {layer: gap(ternary, binary, layer) for layer in LAYERS}
        parts += [v.verdict for v in gaps.values()]
        least = min(gaps, key=lambda layer: gaps[layer].middle - gaps[layer].half)
        weakest.append(f"{symbol} = {step:g}: {least} {_shown(gaps[least])}")
        seen[f"{least}, {symbol} = {step:g},"] = gaps[least]
    evidence = "least certain layer at each step, ternary − binary: " + "; ".join(weakest)
    claim = f"the gap between ternary and binary holds in every layer at every {symbol}"
    return Verdict(claim, setting, all_of(parts), evidence, f"ternary − binary: {_least(seen)}")
