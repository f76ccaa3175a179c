"""`binaryduo reproduce` of two artefacts with trainings so small that hundreds of it can be carried out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from binaryduo.paper import runner, trainings
from binaryduo.paper.experiment import Workspace
from binaryduo.paper.results import read
from binaryduo.training import Stage
from tests.soak.small_run import run_found, stripped

NAMES = ("figure1b_width", "appendix_e_two_bits")  # one stage, two stages
SMALL = ("mlp", "fashion-mnist-small", 0.02, 16, Stage(2, lr=1e-2), Stage(1, lr=1e-3))


@contextmanager
def small() -> Iterator[None]:
    with (
        mock.patch.dict(trainings.STAGES, smoke=SMALL),
        mock.patch.object(trainings, "SEEDS", (0,)),
        mock.patch.object(runner, "DPI", 20),
    ):
        yield


def carry_on(folder: Path) -> None:
    """Measure what is missing, judge, and draw, as the command does."""
    with small():
        for name in NAMES:
            assert runner.run(name, "smoke", folder / "results", Workspace(folder / "runs"))
            runner.collect(name, "smoke", folder / "results")
            runner.plot(name, "smoke", folder / "results")


def found(folder: Path) -> dict[str, Any]:
    """Every row, every picture, and every run's networks and metrics."""
    content: dict[str, Any] = {}
    for name in NAMES:
        with small():  # rows of another plan would judge nothing
            rows = read(name, "smoke", folder / "results")
        assert rows is not None
        content[name] = stripped(rows.rows)
    pictures = sorted((folder / "results").rglob("*.png"))
    runs = sorted(path.parent for path in folder.glob("runs/*/summary.json"))
    return {
        **content,
        **{path.name: path.read_bytes() for path in pictures},
        **{run.name: run_found(run) for run in runs},
    }
