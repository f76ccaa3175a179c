"""`binaryduo pack`: a trained network becomes one small file that runs without PyTorch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binaryduo.cli import sources
from binaryduo.errors import ArgumentError

if TYPE_CHECKING:
    from binaryduo.training import Recipe
    from binaryduo.training.sources import Source


def pack(
    source: sources.SourcePath,
    target: Annotated[Path, typer.Argument(help="The packed file to write, e.g. net.duo.")],
    which: sources.Which = "last",
    half: Annotated[
        bool, typer.Option("--half", help="Store the layers with float weights in 16 bits.")
    ] = False,
    float_weights: Annotated[
        str,
        typer.Option(help="How layers with float weights are stored: float32, float16 (as --half) or int8."),
    ] = "float32",
    input: Annotated[
        str,
        typer.Option(help="float32: images come normalised; uint8: pixels from 0 to 255, normalised inside."),
    ] = "float32",
    first_layer: Annotated[
        str | None,
        typer.Option(help="int8 with --input uint8: 8-bit weights for the layer that reads the image."),
    ] = None,
    c_array: Annotated[
        bool,
        typer.Option(
            "--c-array", help="Also write the model as a C array, net.h, for devices without files."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the target.")] = False,
) -> None:
    """Pack a network with quantized activations: one bit per weight, one threshold per channel and bit.

    The file is checked against the network, operation by operation, before it is written. What 16-bit or 8-bit weights
    do to the outputs is measured on the example and printed.

    Example: `binaryduo pack runs/demo-duo net.duo && binaryduo run net.duo cat.png`
    """
    from binaryduo._common.files import write_synced
    from binaryduo.engine.c_array import to_c_array
    from binaryduo.packing.pack import pack as write
    from binaryduo.training.sources import open_source

    if half and float_weights not in ("float32", "float16"):
        raise ArgumentError(
            f"--half stores float weights in 16 bits: leave it out, or --float-weights {float_weights}"
        )
    header = target.with_suffix(".h")
    for path in (target, header) if c_array else (target,):
        sources.new_file(path, force)
    found = open_source(source, which)
    meta = _meta(found)

    def numbers(name: str) -> list[float] | None:
        return [float(v) for v in meta[name].split()] if input == "uint8" and name in meta else None

    write(
        found.model,
        found.example(),
        target,
        "float16" if half else float_weights,
        meta=meta,
        input=input,
        first_layer=first_layer,
        mean=numbers("mean"),
        std=numbers("std"),
    )
    if c_array:
        write_synced(header, to_c_array(target.read_bytes(), target.stem).encode())
        print(f"{header}: the same bytes as a C array for duo_open_memory, see docs/c_api.md")
    sources.next_step(f"binaryduo run {target} IMAGE.png", f"binaryduo describe {target}")


def _meta(found: "Source") -> dict[str, str]:
    if found.recipe is None:
        return {"network": str(found.options["name"])}
    return meta_of(found.recipe, () if found.data is None else found.data.classes)


def meta_of(recipe: "Recipe", classes: tuple[str, ...] = ()) -> dict[str, str]:
    """What `binaryduo run` asks of a packed file: the classes' names, and how images are normalised."""
    from binaryduo.data.sets import KINDS

    meta = {"recipe": recipe.name, "classes": "\n".join(classes)}
    if (kind := KINDS.get(recipe.data.name)) is not None:
        meta["classes"] = "\n".join(classes or kind.classes)
        meta |= {name: " ".join(map(str, getattr(kind, name))) for name in ("mean", "std")}
    return {key: value for key, value in meta.items() if value}
