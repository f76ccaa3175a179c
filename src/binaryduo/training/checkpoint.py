"""Checkpoints that survive: written aside, synced, renamed; checked when read; two and the best are kept.

A checkpoint is a pair of files: NAME.safetensors with every tensor, and NAME.json with the rest and with the
size and SHA-256 of the first. The JSON is renamed into place last, so it exists only for a complete pair.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from binaryduo._common.files import write_synced
from binaryduo.errors import CheckpointError

KEEP = 2
HINT = "; make room and continue with --resume"


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and the state as JSON holds it."""

    path: Path
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write(folder: Path, name: str, tensors: dict[str, Tensor], state: dict[str, Any]) -> Path:
    """Write one checkpoint; returns the JSON's path."""
    folder.mkdir(parents=True, exist_ok=True)
    content = save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})
    header = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "state": state}
    write_synced(folder / f"{name}.safetensors", content, HINT)
    write_synced(folder / f"{name}.json", json.dumps(header, indent=1).encode(), HINT)
    return folder / f"{name}.json"


def read(path: Path) -> Checkpoint:
    """Read and check one checkpoint by the path of its JSON."""
    tensors = path.with_suffix(".safetensors")
    try:
        header = json.loads(path.read_bytes())
        content = tensors.read_bytes()
        if len(content) != header["size"]:
            raise CheckpointError(f"{tensors} is truncated: {len(content)} of {header['size']} bytes")
        if hashlib.sha256(content).hexdigest() != header["sha256"]:
            raise CheckpointError(f"{tensors} was altered: its checksum is not the one it was saved with")
        return Checkpoint(path, load(content), header["state"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"the checkpoint {path} cannot be read: {error}") from error


def _steps(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.json"))


def save_step(folder: Path, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> Path:
    """Write the checkpoint of a step and remove all but the last two."""
    path = write(folder, f"step-{step:09d}", tensors, state)
    for old in _steps(folder)[:-KEEP]:
        # The JSON first: without it the tensors are not a checkpoint any more.
        old.unlink(missing_ok=True)
        old.with_suffix(".safetensors").unlink(missing_ok=True)
    return path


def keep_best(folder: Path, step: int | None) -> None:
    """Remove the networks that were the best before the one of this step."""
    for path in folder.glob("best-*.json"):
        if step is not None and path.stem != f"best-{step:09d}":
            path.unlink(missing_ok=True)
            path.with_suffix(".safetensors").unlink(missing_ok=True)


def best(folder: Path) -> Checkpoint:
    """The network that did best on the test split so far."""
    for path in sorted(folder.glob("best-*.json"), reverse=True):
        return read(path)
    raise CheckpointError(f"{folder} holds no best network: none was tested yet")


def newest(folder: Path, say: Callable[[str], None] = print) -> Checkpoint | None:
    """The last checkpoint that is whole; each damaged one is named. None where there is none at all."""
    found = _steps(folder)
    for path in reversed(found):
        try:
            return read(path)
        except CheckpointError as error:
            say(f"{error}; trying the one before")
    if found:
        raise CheckpointError(f"no checkpoint in {folder} is whole: start again in another folder")
    return None


def pack_state(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, Tensor]:
    """Parameters, buffers and the optimizer's moments, by the parameters' own names."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    if optimizer is not None:
        for name, parameter in model.named_parameters():
            for key, value in optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer/{name}/{key}"] = value
    return tensors


@torch.no_grad()
def unpack_state(
    tensors: dict[str, Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    origin: str = "",
) -> None:
    """Copy saved tensors back, in place; another network is refused by the first tensor that differs."""
    own = model.state_dict()
    saved = {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")}
    for name in [*own, *saved]:
        if name not in own or name not in saved or own[name].shape != saved[name].shape:
            shapes = [tuple(t[name].shape) if name in t else "absent" for t in (own, saved)]
            raise CheckpointError(
                f"{origin or 'the checkpoint'} is of another network: "
                f"{name} is {shapes[1]} there and {shapes[0]} here"
            )
        own[name].copy_(saved[name])
    if optimizer is None:
        return
    for name, parameter in model.named_parameters():
        prefix = f"optimizer/{name}/"
        moments = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
        if moments:
            optimizer.state[parameter] = {
                # A moment has its parameter's memory format; the step counter is a scalar.
                key: torch.empty_like(parameter).copy_(t)
                if t.shape == parameter.shape
                else t.to(_home(parameter, t))
                for key, t in moments.items()
            }


def _home(parameter: Tensor, value: Tensor) -> torch.device:
    """Where a scalar of the optimizer's lives: fused optimizers keep it beside the parameter."""
    return parameter.device if value.dim() == 0 and parameter.device.type != "cpu" else torch.device("cpu")
