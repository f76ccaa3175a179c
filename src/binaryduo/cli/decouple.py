"""`binaryduo decouple`: a coupled checkpoint in, a binary one out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from binaryduo.cli import network_options as opt


def decouple(
    source: Annotated[Path, typer.Argument(help="The coupled network's weights (.safetensors).")],
    target: Annotated[Path, typer.Argument(help="Where to write the decoupled network's weights.")],
    network: Annotated[
        str | None, typer.Option(help="The network, if the file does not say so itself.", show_default=False)
    ] = None,
    levels: opt.Levels = None,
    topology: Annotated[str, typer.Option(help="**duo**, or **quad** for BinaryDuo-Q.")] = "duo",
    weight_bits: opt.WeightBits = None,
    width: Annotated[float | None, typer.Option(help="Width multiplier.", show_default=False)] = None,
    classes: opt.Classes = None,
    in_channels: opt.Channels = None,
    image_size: opt.ImageSize = None,
    images: Annotated[int, typer.Option(min=1, help="Random images on which the two are compared.")] = 8,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the target.")] = False,
) -> None:
    """Turn a coupled network into one with binary activations that computes the same function.

    Nothing is trained. The largest difference of the outputs is measured, in float64 and in the network's own
    precision, and printed with the number of activations that flipped.

    Example: `binaryduo decouple coupled.safetensors binary.safetensors --network vgg7`
    """
    from rich.console import Console

    from binaryduo import models
    from binaryduo._common.weight_files import load_weights, read_weights, save_weights
    from binaryduo.errors import ArgumentError
    from binaryduo.transform.decoupling import decouple as transform

    if target.exists() and not force:
        raise ArgumentError(f"{target} exists already: choose another name or add --force")
    if not target.parent.is_dir():
        raise ArgumentError(f"the folder {target.parent} does not exist")
    tensors, stored = read_weights(source)
    given: dict[str, Any] = {
        "name": network,
        "weight_bits": weight_bits,
        "width": width,
        "num_classes": classes,
        "in_channels": in_channels,
        "image_size": image_size,
    }
    known = {"name", "levels", "ste", "topology", *given}
    options = {k: v for k, v in stored.items() if k in known}
    options |= {k: v for k, v in given.items() if v is not None}
    if "name" not in options:
        raise ArgumentError(f"{source} does not say which network it is: add --network")
    if levels is not None:
        options["levels"] = opt.parse_levels(levels)
    if topology == "duo":
        topology = options.pop("topology", "duo")
    options.pop("topology", None)
    example = models.example_input(
        options["name"], options.get("in_channels"), options.get("image_size"), batch=images
    )
    coupled = models.build(**{**options, "variant": "coupled", "topology": topology})
    load_weights(coupled, tensors, source)
    coupled.eval()
    binary = transform(coupled, example, topology)  # type: ignore[arg-type]
    save_weights(binary, target, {**options, "variant": "decoupled", "topology": topology})
    console = Console()
    report: Any = binary.decoupling
    console.print(f"[bold]{target}[/bold]: {sum(p.numel() for p in binary.parameters()):,} parameters")
    console.print(str(report), highlight=False)
    console.print(
        f"largest difference of the outputs: {report.comparison.largest_difference:.3g} relative, "
        f"{report.comparison.largest_difference_float64:.3g} in float64"
    )
