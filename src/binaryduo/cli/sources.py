"""Networks as verbs take them: by name, or as whatever an earlier verb has written."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binaryduo._common.text import printable
from binaryduo.errors import ArgumentError

if TYPE_CHECKING:
    from binaryduo.training.sources import Source

SourcePath = Annotated[
    Path,
    typer.Argument(
        help="A run folder, one of its checkpoints (step-….json), a file of weights (.safetensors), or the name of a "
        "pretrained network (vgg7-cifar10-duo-w1).",
        show_default=False,
    ),
]
NetworkOrSource = Annotated[
    str,
    typer.Argument(
        help="vgg7, alexnet, resnet18, resnet18-sc, resnet18-sc-small or mlp; or a run folder, a checkpoint, a file "
        "of weights or a pretrained network.",
        show_default=False,
    ),
]
Which = Annotated[
    str, typer.Option(help="Of a run folder: its **last** checkpoint, or the one that tested **best**.")
]
NetworkName = Annotated[
    str | None,
    typer.Option("--network", help="The network, if a file of weights does not say so.", show_default=False),
]


def network_or_source(text: str, options: dict[str, Any], which: str = "last") -> "Source":
    """A network by its name, freshly initialised, or the trained one that the path holds."""
    import torch

    from binaryduo import models
    from binaryduo.training.sources import Source, open_source

    given = {key: value for key, value in options.items() if value not in (None, "default")}
    if "levels" in options and options["levels"] is None:  # full precision was asked for
        given["levels"] = None
    if text not in models.names():
        if Path(text).exists() or text in models.pretrained_names():
            return open_source(text, which, given)
        raise ArgumentError(
            f"unknown network {text!r}: choose one of {', '.join([*models.names(), *models.pretrained_names()])}, or "
            "give a run folder, a checkpoint or a file of weights"
        )
    shape = models.example_input(text, given.get("in_channels"), given.get("image_size")).shape[1:]
    given = {"name": text, "variant": "baseline", **given}
    model = models.build(**given)
    assert isinstance(shape, torch.Size)
    return Source(model.eval(), Path(text), given, (shape[0], shape[1], shape[2]))


def new_file(path: Path, force: bool) -> None:
    """Refuse a target that exists already, or whose folder does not exist."""
    if path.exists() and not force:
        raise ArgumentError(f"{path} exists already: choose another name or add --force")
    if not path.parent.is_dir():
        raise ArgumentError(f"the folder {path.parent} does not exist")


def next_step(*commands: str) -> None:
    """Say on stderr what to type next, so that stdout holds the verb's own answer only."""
    for number, command in enumerate(commands):
        typer.echo(f"{'Or  ' if number else 'Next'}: {printable(command)}", err=True)
