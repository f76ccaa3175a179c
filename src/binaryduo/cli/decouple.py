"""`binaryduo decouple`: a coupled network in, a binary one out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from binaryduo.cli import network_options as opt
from binaryduo.cli import sources


def decouple(
    source: sources.SourcePath,
    target: Annotated[Path, typer.Argument(help="Where to write the decoupled network's weights.")],
    which: sources.Which = "last",
    network: sources.NetworkName = None,
    levels: opt.Levels = None,
    topology: Annotated[
        str | None,
        typer.Option(help="**duo**, or **quad** for BinaryDuo-Q.", show_default="as it was trained"),
    ] = None,
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
    precision, and printed with the number of activations that flipped. The options that describe a network are only
    needed for a file of weights that does not say which network it is of.

    Example: `binaryduo decouple runs/demo-coupled binary.safetensors`
    """
    from binaryduo._common.weight_files import save_weights
    from binaryduo.errors import ArgumentError
    from binaryduo.training.sources import open_source
    from binaryduo.transform.decoupling import decouple as transform

    sources.new_file(target, force)
    given: dict[str, Any] = {
        "name": network,
        "levels": None if levels is None else opt.parse_levels(levels),
        "topology": topology,
        "weight_bits": weight_bits,
        "width": width,
        "num_classes": classes,
        "in_channels": in_channels,
        "image_size": image_size,
    }
    place = _coupled_stage(source)
    found = open_source(place, which, given, usual="coupled")
    if found.options["variant"] != "coupled":
        raise ArgumentError(
            f"{found.path} holds a {found.options['variant']} network: only a coupled one can be decoupled; train one "
            "with `binaryduo train --variant coupled`, or with `binaryduo duo`, which decouples it as well"
        )
    form = found.options.get("topology", "duo")
    binary = transform(found.model, found.example(images), form)
    options = {**found.options, "variant": "decoupled", "topology": form}
    if found.recipe is not None:
        options |= {"recipe": found.recipe.name, "data": found.recipe.data.name}
    save_weights(binary, target, options)
    print(f"{target}: {sum(p.numel() for p in binary.parameters()):,} parameters")
    print(binary.decoupling)
    sources.next_step(f"binaryduo pack {target} {target.with_suffix('.duo')}")


def _coupled_stage(source: Path) -> Path:
    """Of a `duo` run its first stage: that is the network which can be decoupled."""
    stage = source / "coupled"
    return stage if (source / "recipe.yaml").exists() and stage.is_dir() else source
