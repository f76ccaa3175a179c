"""A network's weights in one safetensors file, with the options it was built with in the file's metadata.

No pickle is ever read: a file from a stranger can be wrong, but it cannot run.
"""

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor, nn

from binaryduo._common.files import write_synced
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
        options = json.loads(metadata.get(KEY, "{}"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise CheckpointError(f"{path} is a folder, not a safetensors file") from None
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file: {error}") from error
    if not isinstance(options, dict):
        raise CheckpointError(f"{path} has build options that are not a mapping")
    return tensors, options


def load_weights(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Put the tensors into a model, in place; a file of another network is refused and named.

    >>> net = nn.Linear(2, 1)
    >>> load_weights(net, nn.Linear(2, 1).state_dict(), Path("net.safetensors"))
    """
    wanted = model.state_dict()
    missing = [name for name in wanted if name not in tensors]
    extra = [name for name in tensors if name not in wanted]
    wrong = [n for n, value in tensors.items() if n in wanted and value.shape != wanted[n].shape]
    if missing or extra:
        name = (missing or extra)[0]
        what = f"lacks {name!r}" if missing else f"has {name!r}, which the network has not"
        raise CheckpointError(
            f"{path} is of another network: it {what} ({len(missing)} names missing, {len(extra)} too many)"
        )
    if wrong:
        name = wrong[0]
        have, want = tuple(tensors[name].shape), tuple(wanted[name].shape)
        raise CheckpointError(
            f"{path} is of another shape: {name!r} is {have} there and {want} in the network "
            f"({len(wrong)} tensors differ): check the width, levels and classes it was built with"
        )
    model.load_state_dict(tensors)
