"""What an experiment is: units of work, a function that measures one, verdicts and pictures from the rows.

`binaryduo.paper.runner` runs it: rows are kept after every unit, and an interrupted run continues where it stopped.
Verdicts and pictures need nothing but the rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from binaryduo.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
Unit = dict[str, Any]
Profile = Literal["smoke", "cpu", "hours", "paper"]
PROFILES: tuple[Profile, ...] = ("smoke", "cpu", "hours", "paper")

UNTRAINED = ("smoke", "full")  # what needs no training is run in full
TRAINED = ("smoke", "cpu", "paper")
HALF_WIDTH = ("smoke", "cpu", "hours", "paper")  # trained at half of the width too
STUDY = ("smoke", "hours")


TOO_SMALL = "too small to say"
# From what matters most for a claim that has several parts to what matters least.
VERDICTS = ("does not hold", "undecided", "not run", "holds", TOO_SMALL)


@dataclass(frozen=True)
class Verdict:
    """What the results say about one claim: one of VERDICTS.

    `number` is the one that decides it, in a few words, and `printed` the paper's counterpart where it prints one;
    `evidence` has all of them.
    """

    claim: str
    setting: str
    verdict: str
    evidence: str
    number: str = ""
    printed: str = ""


@dataclass(frozen=True)
class Workspace:
    """What belongs to the machine and not to the experiment: never part of a unit nor of a result."""

    runs: Path = Path("runs/reproduce")
    root: Path | None = None  # the folder of ImageNet, or of CIFAR-10


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper, or a question of our own.

    `units(profile)` lists the work and `estimate` the seconds that each unit will take here; `numbers` is the line of
    the map (else the evidence of the verdicts). `sources` are experiments whose rows it is drawn from, if it has none
    of its own; `setting` is what it does instead of the paper's size, `profiles` what it can be run in.
    """

    name: str
    title: str
    units: Callable[[str], list[Unit]]
    measure: Callable[[Unit, Workspace], list[Row]]
    verdicts: Callable[[list[Row]], list[Verdict]]
    draw: Callable[[list[Row]], dict[str, "Figure"]]
    profiles: tuple[str, ...] = UNTRAINED
    numbers: Callable[[list[Row]], str] | None = None
    estimate: Callable[[Sequence[Unit], Workspace], list[float]] | None = None
    sources: tuple[str, ...] = ()
    setting: str = "paper"
    judges_parts: bool = False  # verdicts() judges only what is complete, so that it can be asked at any time

    def profile(self, wanted: str | None) -> str:
        """What this experiment calls a profile; None is the one that it is usually run in.

        >>> from binaryduo.paper.registry import find
        >>> find("figure5_architectures").profile("paper"), find("figure1a_precision").profile(None)
        ('full', 'cpu')
        """
        if wanted is None:
            return self.profiles[1]
        if wanted in self.profiles:
            return wanted
        if self.profiles == UNTRAINED and wanted in PROFILES:
            return "full"
        raise ArgumentError(
            f"{self.name} has no profile {wanted!r}: choose one of {', '.join(self.profiles)}"
        )


@dataclass(frozen=True)
class Records:
    """An experiment that keeps its results in a form of its own: a search, or runs under a budget of minutes.

    Each verb gets the folder of its results; None where there is nothing to do. `run` says whether it is complete,
    `collect` returns what it found in sentences, `plot` the files that it wrote.
    """

    name: str
    title: str
    run: Callable[[Path, Workspace, float | None], bool] | None
    collect: Callable[[Path], list[str]] | None
    plot: Callable[[Path], list[Path]] | None
