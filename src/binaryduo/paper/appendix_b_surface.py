"""Appendix B: what CDG measures, on the loss surface over two weights of a real toy network.

The paper's picture explains the idea and claims no number. The surface of a binary network is a landscape of
terraces: its true gradient is zero, its secants are not. The same for full precision, where both agree.

Chosen before running: He initialisation, seed 0, weights (0, 0) and (2, 5) of fc2, 2,000 samples, ε = 0.05 so
that the terraces can be seen.
"""

from matplotlib.figure import Figure

from binaryduo.mismatch import plots, select, surface_panel
from binaryduo.paper.experiment import Experiment, Row, Unit, Verdict, Workspace


def units(profile: str) -> list[Unit]:
    points = 81 if profile == "full" else 13
    return [{"levels": levels, "samples": 2_000, "points": points, "seed": 0} for levels in (2, None)]


def measure(unit: Unit, place: Workspace) -> list[Row]:
    panel = surface_panel(unit["samples"], unit["levels"], points=unit["points"], seed=unit["seed"])
    return [{"levels": unit["levels"], **panel}]


def verdicts(rows: list[Row]) -> list[Verdict]:
    out = []
    for row in rows:
        middle = len(row["first"]) // 2
        reach = middle // 2  # ±step: the grid spans ±2 step
        losses, step = row["losses"], row["step"]
        cdg = (
            (losses[middle + reach][middle] - losses[middle - reach][middle]) / (2 * step),
            (losses[middle][middle + reach] - losses[middle][middle - reach]) / (2 * step),
        )
        smooth = row["levels"] is None
        close = all(abs(c - g) < 0.05 * max(map(abs, cdg)) for c, g in zip(cdg, row["gradient"], strict=True))
        zero = tuple(row["gradient"]) == (0.0, 0.0) and any(cdg)
        out.append(
            Verdict(
                "CDG agrees with the true gradient" if smooth else "the true gradient is zero, CDG is not",
                "full precision" if smooth else "binary",
                "holds" if (close if smooth else zero) else "does not hold",
                f"CDG ({cdg[0]:+.4f}, {cdg[1]:+.4f}), gradient ({row['gradient'][0]:+.4f}, "
                f"{row['gradient'][1]:+.4f})",
                f"{'full precision' if smooth else 'binary'}: CDG {cdg[0]:+.3f}, gradient {row['gradient'][0]:+.3f}",
            )
        )
    return out


def draw(rows: list[Row]) -> dict[str, Figure]:
    out = {}
    for name, levels in (("binary", 2), ("full_precision", None)):
        (row,) = select(rows, levels=levels)
        out[f"surface_{name}.png"] = plots.surface(**{k: v for k, v in row.items() if k != "levels"})
    return out


EXPERIMENT = Experiment(
    "appendix_b_surface", "Appendix B: CDG on a loss surface", units, measure, verdicts, draw
)
