"""Fill a model with what a run has learnt."""

from pathlib import Path
from typing import Literal, TypeVar

from torch import nn

from binaryduo._common.progress import say
from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.graph.tracing import unwrap
from binaryduo.training import checkpoint

M = TypeVar("M", bound=nn.Module)


def stage_folder(folder: "str | Path") -> Path:
    """The folder with the network that a run has made: of two stages the binary one's, once it has begun."""
    folder = Path(folder)
    for name in ("decoupled", "coupled"):
        if any((folder / name / "checkpoints").glob("step-*.json")):
            return folder / name
    return folder


def load_weights(model: M, folder: "str | Path", which: Literal["best", "last"] = "best") -> M:
    """Put the weights of a run into a model of the same architecture, in place; returns the model.

    `folder` is one that `fit`, `duo` or the command line has written, or one of the two stages below a `duo` run's
    (without it, the binary network's). best: the network that tested best; last: the newest. The file's checksum,
    and every name, shape and type, are checked before anything is copied. No pickle is read. A compiled or averaged
    model is filled under its wrapper.
    """
    if which not in ("best", "last"):
        raise ArgumentError(f"which must be best or last, not {which!r}")
    stage = stage_folder(folder)
    checkpoints = stage / "checkpoints"
    if not checkpoints.is_dir():
        raise ArgumentError(f"{folder} is not the folder of a run: it has no checkpoints")
    if which == "last":
        kept = checkpoint.newest(checkpoints, say)
        if kept is None:
            raise CheckpointError(f"{stage} holds no checkpoint yet")
    else:
        if not any(checkpoints.glob("best-*.json")):
            raise CheckpointError(f"{stage} holds no best network, because none was tested: use which='last'")
        kept = checkpoint.best(checkpoints)
    checkpoint.unpack_state(kept.tensors, unwrap(model), None, str(kept.path))
    return model
