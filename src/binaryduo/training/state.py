"""Everything about a run that is not a tensor, as each checkpoint keeps it in JSON."""

from dataclasses import dataclass, field, fields
from typing import Any

from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.training.checkpoint import Checkpoint
from binaryduo.training.counts import Counts
from binaryduo.training.measured import Measured
from binaryduo.training.recipe import from_dict

ADDED = frozenset({"metrics_sha256", "watch"})  # since the first checkpoints: may be missing


@dataclass
class RunState:
    """Where a run is, what it has counted and found, and what was chosen when it began."""

    step: int = 0
    images: int = 0
    seconds: float = 0.0
    epoch_counts: Counts = field(default_factory=Counts)
    window: Counts = field(default_factory=Counts)
    best: dict[str, Any] | None = None
    last: dict[str, Any] | None = None
    metrics_position: int = 0
    metrics_sha256: str = ""
    unreadable: int = 0
    chosen: Measured | None = None
    watch: dict[str, int] | None = None  # what is measured of the mismatch, and how often

    @classmethod
    def of(cls, found: Checkpoint) -> "RunState":
        """The state of a checkpoint; one that cannot be a run's is refused by what is wrong with it."""
        missing = {entry.name for entry in fields(cls)} - set(found.state) - ADDED
        if missing:
            raise CheckpointError(f"the checkpoint {found.path} lacks {min(missing)!r}")
        try:
            state = from_dict(cls, found.state)
        except (ArgumentError, TypeError) as error:
            raise CheckpointError(f"the checkpoint {found.path} cannot be used: {error}") from None
        if found.path.stem != f"step-{state.step:09d}":
            raise CheckpointError(f"the checkpoint {found.path} says that it is of step {state.step}")
        chosen = state.chosen
        if chosen is None or not 0 <= state.step <= chosen.total_steps or chosen.test_every < 1:
            raise CheckpointError(
                f"the checkpoint {found.path} has a step, a length or an engine that no run can have"
            )
        for tested in (state.best, state.last):
            numbers = {} if tested is None else tested
            wrong = [key for key, value in numbers.items() if type(value) not in (int, float)]
            if wrong or (tested is not None and not {"epoch", "step", "loss"} <= set(tested)):
                raise CheckpointError(f"the checkpoint {found.path} has a test that lacks a number")
        return state
