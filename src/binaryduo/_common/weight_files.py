"""A network's weights in one safetensors file, with the options it was built with in the file's metadata.

No pickle is ever read: a file from a stranger can be wrong, but it cannot run.
"""

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from binaryduo._common.files import write_synced
from binaryduo._common.hostile import parse_json
from binaryduo.errors import CheckpointError

KEY = "binaryduo"  # the metadata entry that holds the build options as JSON


def save_weights(model: nn.Module, path: Path, options: dict[str, Any] | None = None) -> None:
    """Write every parameter and buffer, and the options of `bd.models.build` that made the network.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(nn.Linear(2, 1), Path(folder) / "net.safetensors", {"name": "mlp"})
    ...     sorted(read_weights(Path(folder) / "net.safetensors")[0])
    ['bias', 'weight']
    """
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    metadata = {KEY: json.dumps(options)} if options is not None else None
    write_synced(path, safetensors.torch.save(tensors, metadata))


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file by name, and its build options (empty where it has none)."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
        options = parse_json(metadata.get(KEY, "{}"), f"the build options of {path}", CheckpointError)
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise CheckpointError(f"{path} is a folder, not a safetensors file") from None
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file: {error}") from error
    if not isinstance(options, dict):
        raise CheckpointError(f"{path} has build options that are not a mapping")
    return tensors, options


@torch.no_grad()
def load_weights(model: nn.Module, tensors: dict[str, Tensor], origin: object, cast: bool = False) -> None:
    """Put the tensors into a model, in place and all or none; those of another network are refused by name.

    With `cast`, numbers of another floating type are converted.

    >>> net = nn.Linear(2, 1)
    >>> load_weights(net, nn.Linear(2, 1).state_dict(), "net.safetensors")
    >>> load_weights(net, nn.Linear(3, 1).state_dict(), "net.safetensors")
    Traceback (most recent call last):
    binaryduo.errors.CheckpointError: net.safetensors is of another network: weight is (1, 3) there and (1, 2) here \
(1 tensor differs): check the network, width, levels and classes it was built with
    """
    own = model.state_dict()
    names = list(dict.fromkeys([*own, *tensors]))
    wrong = [name for name in names if _form(own.get(name), cast) != _form(tensors.get(name), cast)]
    if wrong:
        there, here = (_form(some.get(wrong[0]), cast) for some in (tensors, own))
        differ = "1 tensor differs" if len(wrong) == 1 else f"{len(wrong)} tensors differ"
        raise CheckpointError(
            f"{origin} is of another network: {wrong[0]} is {there} there and {here} here "
            f"({differ}): check the network, width, levels and classes it was built with"
        )
    for name, tensor in own.items():
        tensor.copy_(tensors[name])


def _form(tensor: Tensor | None, cast: bool) -> str:
    """Shape and type, as far as they must be the same."""
    if tensor is None:
        return "absent"
    kind = str(tensor.dtype).removeprefix("torch.")
    plain = kind == "float32" or (cast and tensor.is_floating_point())
    return f"{tuple(tensor.shape)}" if plain else f"{tuple(tensor.shape)} {kind}"
