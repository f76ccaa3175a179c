"""Checkpoints that survive: written aside, synced, renamed; checked when read; two and the best are kept.

A checkpoint is a pair of files: NAME.safetensors with every tensor, and NAME.json with the rest, with the size and
SHA-256 of the first, and with a checksum of all this. The JSON is renamed into place last, so it exists only for a
complete pair. Checkpoints of versions before that checksum (no "run", no "checksum") are read, and say so.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from binaryduo._common.files import write_synced
from binaryduo._common.hostile import read_bytes, read_json
from binaryduo._common.weight_files import load_weights
from binaryduo.errors import CheckpointError
from binaryduo.training.identity import digest_of

KEEP = 2
OPTIMIZER = "optimizer/"  # begins the name of a moment: optimizer/<parameter>/<moment>
PLAIN = "#"  # ends the name of an optimizer's plain number, which is kept as a tensor
Moments = dict[str, dict[str, Tensor]]  # by the parameter's name, then by the moment's
HINT = "; make room and continue with --resume"


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, the state as JSON holds it, and which run it is of (None: an earlier version's)."""

    path: Path
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    run: dict[str, Any] | None = None
    covered: bool = True


def write(
    folder: Path,
    name: str,
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    run: dict[str, Any] | None = None,
) -> Path:
    """Write one checkpoint; returns the JSON's path."""
    folder.mkdir(parents=True, exist_ok=True)
    content = save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})
    digest = hashlib.sha256(content).hexdigest()
    header = {"size": len(content), "sha256": digest, "run": run, "state": state}
    # As JSON will hold it: a tuple becomes a list before the checksum is taken.
    header = {**header, "checksum": digest_of(header)}
    write_synced(folder / f"{name}.safetensors", content, HINT)
    write_synced(folder / f"{name}.json", json.dumps(header, indent=1).encode(), HINT)
    return folder / f"{name}.json"


def read(path: Path) -> Checkpoint:
    """Read and check one checkpoint by the path of its JSON."""
    header = read_json(path, "the checkpoint", CheckpointError, finite=False)
    if not isinstance(header, dict):
        raise CheckpointError(f"the checkpoint {path} does not hold keys and values")
    covered = set(header) != {"size", "sha256", "state"}
    if covered and header.pop("checksum", None) != digest_of(header):
        raise CheckpointError(
            f"the checkpoint {path} was altered: its checksum is not the one it was saved with"
        )
    size, digest, state, run = (header.get(key) for key in ("size", "sha256", "state", "run"))
    if type(size) is not int or not isinstance(state, dict) or not isinstance(run, dict | None):
        raise CheckpointError(f"the checkpoint {path} lacks a part, or has one of the wrong type")
    tensors = path.with_suffix(".safetensors")
    content = read_bytes(tensors, "the tensors", CheckpointError, limit=max(size, 0))
    if len(content) != size:
        raise CheckpointError(f"{tensors} is truncated: {len(content)} of {size} bytes")
    if hashlib.sha256(content).hexdigest() != digest:
        raise CheckpointError(f"{tensors} was altered: its checksum is not the one it was saved with")
    try:
        return Checkpoint(path, load(content), state, run, covered)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{tensors} is not a safetensors file that can be used: {error}") from error


def _steps(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.json"))


def save_step(
    folder: Path,
    step: int,
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    run: dict[str, Any] | None = None,
) -> Path:
    """Write the checkpoint of a step, and remove all but it and the one before.

    Those of later steps go too: the run has come back to before them, since they were damaged.
    """
    path = write(folder, f"step-{step:09d}", tensors, state, run)
    for later in _steps(folder):
        if later.name > path.name:
            later.unlink(missing_ok=True)
    tidy(folder, step)
    return path


def tidy(folder: Path, step: int, best: int | None = None) -> None:
    """Remove what a run at that step needs no more: all but the last two of its checkpoints, networks that were the
    best before the one of the step `best`, and what a kill has left of files."""
    upto = [path for path in _steps(folder) if path.stem <= f"step-{step:09d}"]
    worse = [] if best is None else [p for p in folder.glob("best-*.json") if p.stem != f"best-{best:09d}"]
    for path in [*upto[:-KEEP], *worse]:
        path.unlink(missing_ok=True)  # the JSON first: without it the tensors are not a checkpoint any more
    _remove_orphans(folder)


def remove_beginning(folder: Path) -> None:
    """Remove the checkpoint from before the first step: nothing was trained."""
    (folder / "step-000000000.json").unlink(missing_ok=True)
    _remove_orphans(folder)


def _remove_orphans(folder: Path) -> None:
    """Tensors without their JSON, which is removed first, and half-written files: a kill may have left them.

    And the JSON of a step whose tensors somebody has deleted: another step's are whole, or nobody would be here.
    """
    for path in _steps(folder):
        if not path.with_suffix(".safetensors").exists():
            path.unlink(missing_ok=True)
    for kind in ("step", "best"):
        for path in folder.glob(f"{kind}-*.safetensors"):
            if not path.with_suffix(".json").exists():
                path.unlink(missing_ok=True)
        for path in folder.glob(f"{kind}-*.part"):
            path.unlink(missing_ok=True)


def best(folder: Path) -> Checkpoint:
    """The network that did best on the test split so far."""
    for path in sorted(folder.glob("best-*.json"), reverse=True):
        return read(path)
    raise CheckpointError(f"{folder} holds no best network, because none has been tested yet")


def newest(
    folder: Path,
    say: Callable[[str], None] = print,
    check: Callable[[Checkpoint], object] = lambda found: None,
) -> Checkpoint | None:
    """The last checkpoint that is whole and passes the check; each that does not is named. None: there is none."""
    found, error = _steps(folder), None
    for path in reversed(found):
        try:
            kept = read(path)
            check(kept)
            return kept
        except CheckpointError as problem:
            error = problem
            say(f"{error}; the previous one is tried")
    if found:
        raise CheckpointError(f"no checkpoint in {folder} is intact: start again in another folder ({error})")
    return None


def pack_state(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, Tensor]:
    """Parameters, buffers and the optimizer's moments, by the parameters' own names."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    if optimizer is not None:
        for name, parameter in model.named_parameters():
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, int | float):  # some optimizers count their steps without a tensor
                    tensors[f"{OPTIMIZER}{name}/{key}{PLAIN}"] = torch.tensor(value, dtype=_plain_type(value))
                elif isinstance(value, Tensor):
                    tensors[f"{OPTIMIZER}{name}/{key}"] = value
                elif value is not None:
                    kind = f"a {type(value).__name__}"
                    raise CheckpointError(f"the optimizer keeps {key!r} as {kind}, which cannot be saved")
    return tensors


def unpack_state(
    tensors: dict[str, Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    origin: str = "the checkpoint",
    began: bool = True,
) -> None:
    """Copy saved tensors back, in place; another network is refused by the first tensor that differs.

    With an optimizer its moments come too. Where the run `began` with one of ours, each has all of them, in the shape
    of its parameter; a user's own may keep what it likes.
    """
    saved = {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")}
    load_weights(model, saved, origin, cast=optimizer is None)
    if optimizer is not None:
        unpack_moments(moments_of(tensors), model, optimizer, origin, began)


def moments_of(tensors: dict[str, Tensor]) -> Moments:
    """The optimizer's part of a checkpoint's tensors.

    >>> moments_of({"model/a.b": torch.ones(1), "optimizer/a.b/exp_avg": torch.ones(1)})
    {'a.b': {'exp_avg': tensor([1.])}}
    """
    moments: Moments = {}
    for full, tensor in tensors.items():
        if full.startswith(OPTIMIZER):
            name, _, key = full.removeprefix(OPTIMIZER).rpartition("/")
            moments.setdefault(name, {})[key] = tensor
    return moments


@torch.no_grad()
def unpack_moments(
    moments: Moments, model: nn.Module, optimizer: torch.optim.Optimizer, origin: str, began: bool
) -> None:
    """Give an optimizer its moments; `began` as for `unpack_state`."""
    parameters = dict(model.named_parameters())
    kinds = {frozenset(own) for own in moments.values()}
    if (began and (not moments or len(kinds) > 1)) or not moments.keys() <= parameters.keys():
        raise CheckpointError(
            f"{origin} lacks some of the optimizer's moments, or has those of another network"
        )
    for name, own in moments.items():
        parameter = parameters[name]
        for key, t in own.items():
            if began and t.dim() and (t.shape != parameter.shape or t.dtype != parameter.dtype):
                raise CheckpointError(
                    f"{origin} is of another network: the moment {key} of {name} is {tuple(t.shape)} {t.dtype} "
                    f"there, and the parameter {tuple(parameter.shape)} {parameter.dtype} here"
                )
        optimizer.state[parameter] = {
            # A moment has its parameter's memory format; the step counter is a scalar.
            key.removesuffix(PLAIN): t.item()
            if key.endswith(PLAIN)
            else torch.empty_like(parameter).copy_(t)
            if t.shape == parameter.shape and t.dim()
            else t.to(_home(parameter, t))
            for key, t in own.items()
        }


def _plain_type(value: float) -> torch.dtype:
    return torch.int64 if isinstance(value, int) else torch.float64


def _home(parameter: Tensor, value: Tensor) -> torch.device:
    """Where a value of the optimizer's lives: fused optimizers keep scalars beside the parameter."""
    return parameter.device if value.dim() or parameter.device.type != "cpu" else torch.device("cpu")
