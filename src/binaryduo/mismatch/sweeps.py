"""Cosines between coarse gradient and CDG (or ESG) over precisions, STEs, step sizes, seeds.

Paper: Figure 3, Appendices C and H.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from binaryduo.errors import unknown_name
from binaryduo.mismatch.parallel import OnProgress
from binaryduo.mismatch.similarity import cosine
from binaryduo.mismatch.toy import ToyProblem

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One bar of Figure 3, one line of Appendix C: an activation and its STE."""

    levels: int | None
    ste: str = "relu1"

    @property
    def label(self) -> str:
        """What to call its activation.

        >>> [Case(levels).label for levels in (None, 16, 3, 2, 6)]
        ['full precision', '4 bits', 'ternary', 'binary', '6 levels']
        """
        known = {None: "full precision", 2: "binary", 3: "ternary", 4: "2 bits", 8: "3 bits", 16: "4 bits"}
        return known.get(self.levels, f"{self.levels} levels")


PRECISIONS = tuple(Case(levels) for levels in (None, 16, 8, 4, 3, 2))  # Figure 3a
# Figure 3b, and two more. The growing ramp ("piecewise-linear") begins as ReLU1 and is left out.
BINARY_STES = tuple(
    Case(2, ste) for ste in ("relu1", "steep2", "steep4", "polynomial", "swishsign", "sigmoid", "tanh")
)
FIGURE_CASES = tuple(dict.fromkeys(PRECISIONS + BINARY_STES))


def sweep(
    cases: Sequence[Case] = FIGURE_CASES,
    steps: Sequence[float] = (1e-3,),
    seeds: Sequence[int] = (0,),
    inits: Sequence[str] = ("he",),
    estimator: str = "cdg",
    samples: int = 1_000_000,
    width: int = 32,
    hidden_layers: int = 3,
    pairs: int = 1024,
    progress: OnProgress | None = None,
) -> list[Row]:
    """One row for each initialisation, seed, case and step, with the cosine of every layer and the total.

    `steps` are ε for the CDG and σ for the ESG, which takes `pairs` antithetic pairs. Neither depends on
    the STE, so that each is computed once for all STEs of a precision.

    >>> rows = sweep([Case(2), Case(2, "steep2")], samples=2000, width=4, steps=[0.01, 0.1])
    >>> [(row["ste"], row["step"]) for row in rows]
    [('relu1', 0.01), ('steep2', 0.01), ('relu1', 0.1), ('steep2', 0.1)]
    """
    if estimator not in ("cdg", "esg"):
        raise unknown_name("estimator", estimator, ["cdg", "esg"])
    rows: list[Row] = []
    precisions = list(dict.fromkeys(case.levels for case in cases))
    units = len(inits) * len(seeds) * len(precisions) * (1 + len(steps))
    done = 0

    def inner() -> OnProgress | None:
        if progress is None:
            return None
        base = done
        return lambda block, blocks: progress(base * blocks + block, units * blocks)

    for init in inits:
        for seed in seeds:
            for levels in precisions:
                problem = ToyProblem(width, hidden_layers, samples, levels, seed=seed, init=init)
                some = [case for case in cases if case.levels == levels]
                gradients = problem.coarse_gradients([case.ste for case in some], inner())
                coarse = dict(zip(some, gradients, strict=True))
                done += 1
                for step in steps:
                    begin = time.perf_counter()
                    if estimator == "cdg":
                        truth = problem.cdg(step, progress=inner())
                    else:
                        truth = problem.esg(step, pairs, seed=seed, progress=inner())
                    seconds = time.perf_counter() - begin
                    done += 1
                    for case, gradient in coarse.items():
                        rows.append(
                            {
                                "init": init,
                                "seed": seed,
                                "levels": levels,
                                "ste": case.ste,
                                "estimator": estimator,
                                "step": step,
                                "samples": samples,
                                "pairs": pairs if estimator == "esg" else None,
                                "seconds": round(seconds, 3),
                                "cosine": cosine(gradient, truth),
                            }
                        )
    return rows


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows that have all of the given values.

    >>> select([{"levels": 2, "seed": 0}, {"levels": 3, "seed": 0}], levels=3)
    [{'levels': 3, 'seed': 0}]
    """
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]
