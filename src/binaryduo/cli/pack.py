"""`binaryduo pack`: a trained network becomes one small file that runs without PyTorch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import nn


def pack(
    source: Annotated[
        Path, typer.Argument(help="A run's folder, or weights (.safetensors) that `decouple` has written.")
    ],
    target: Annotated[Path, typer.Argument(help="The packed file to write, e.g. net.duo.")],
    which: Annotated[str, typer.Option(help="Of a run: its **last** or its **best** checkpoint.")] = "last",
    half: Annotated[
        bool, typer.Option("--half", help="Store the layers with float weights in 16 bits.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the target.")] = False,
) -> None:
    """Pack a network with binary activations: one bit a weight, one threshold a channel.

    The file is checked against the network, operation by operation, before it is written.

    Example: `binaryduo pack runs/cifar10 net.duo && binaryduo run net.duo cat.png`
    """
    from binaryduo.errors import ArgumentError
    from binaryduo.packing.pack import pack as write

    if target.exists() and not force:
        raise ArgumentError(f"{target} exists already: choose another name or add --force")
    if not target.parent.is_dir():
        raise ArgumentError(f"the folder {target.parent} does not exist")
    model, example, meta = _from_run(source, which) if source.is_dir() else _from_weights(source)
    write(model, example, target, "float16" if half else "float32", meta=meta)


def _from_run(folder: Path, which: str) -> "tuple[nn.Module, Any, dict[str, str]]":
    import torch

    from binaryduo.training.restore import load_run

    model, recipe, data, _ = load_run(folder, which)
    meta = {"recipe": recipe.name, "classes": "\n".join(data.classes)}
    for name in ("mean", "std"):
        values = getattr(data.test, name, None)
        if values:
            meta[name] = " ".join(str(float(v)) for v in values)
    return model, torch.zeros(1, *data.shape), {k: v for k, v in meta.items() if v}


def _from_weights(path: Path) -> "tuple[nn.Module, Any, dict[str, str]]":
    from binaryduo import models
    from binaryduo._common.weight_files import load_weights, read_weights
    from binaryduo.errors import CheckpointError

    tensors, options = read_weights(path)
    if "name" not in options:
        raise CheckpointError(f"{path} does not say which network it is of: use bd.pack in Python")
    model = models.build(**options)
    load_weights(model, tensors, path)
    example = models.example_input(options["name"], options.get("in_channels"), options.get("image_size"))
    return model.eval(), example, {"network": str(options["name"])}
