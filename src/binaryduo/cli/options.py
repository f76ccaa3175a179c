"""The options that `train` and `duo` share, and how they become a recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binaryduo.cli.network_options import parse_levels
from binaryduo.errors import ArgumentError

if TYPE_CHECKING:
    from binaryduo.training import Recipe

RecipeName = Annotated[
    str,
    typer.Option("--recipe", help="A named recipe, or a file that ends in .yaml. `--list` shows the names."),
]
Folder = Annotated[
    Path | None,
    typer.Option("--out", help="The run's folder; one run a folder; default: below runs."),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue the run in the folder, bit for bit, with the recipe it has."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change one entry of the recipe, e.g. --set train.lr=0.01. May be repeated."),
]
Minutes = Annotated[
    float | None,
    typer.Option(help="Fit the whole run to this many minutes on this machine (measured first)."),
]
DataName = Annotated[str | None, typer.Option("--data", help="A data set of `binaryduo data list`.")]
DataRoot = Annotated[Path | None, typer.Option("--root", help="The folder that holds the data set.")]
Network = Annotated[str | None, typer.Option(help="vgg7, alexnet, resnet18, resnet18-sc or mlp.")]
Ste = Annotated[
    str | None, typer.Option(help="The differentiable stand-in of the backward pass, e.g. relu1.")
]
WeightBits = Annotated[int | None, typer.Option(help="1: binary weights; 32: float weights.")]
Width = Annotated[float | None, typer.Option(help="Multiplies every hidden width.")]
Seed = Annotated[int | None, typer.Option(help="Decides initialisation, order and augmentation.")]
Listing = Annotated[bool, typer.Option("--list", help="Show the named recipes and stop.")]
Show = Annotated[bool, typer.Option("--show", help="Print the resolved recipe as YAML and stop.")]


def resolve(name: str, shortcuts: dict[str, Any], settings: list[str] | None) -> "Recipe":
    """The named recipe with the options given (dotted key -> value, None: not given) and then --set."""
    from binaryduo.training import named, with_settings
    from binaryduo.training.recipe import with_value

    found = named(name)
    for key, value in shortcuts.items():
        if value is not None:
            plain = str(value) if isinstance(value, Path) else value
            found = with_value(found, key, parse_levels(value) if key == "model.levels" else plain)
    return with_settings(found, settings or [])


def open_or_resolve(folder: Path, resume: bool, recipe: "Recipe", changed: bool) -> "Recipe":
    """The recipe of the run to resume, else the one asked for."""
    from binaryduo.training import from_yaml

    if not resume:
        return recipe
    kept = folder / "recipe.yaml"
    if not kept.exists():
        raise ArgumentError(f"there is no run to resume in {folder}")
    found = from_yaml(kept)
    if changed and found != recipe:
        raise ArgumentError(f"{kept} is another recipe: a run is resumed with the settings it began with")
    return found


def list_recipes() -> None:
    """The named recipes as a table."""
    from rich.console import Console
    from rich.table import Table

    from binaryduo.training import RECIPES

    table = Table("recipe", "network", "data", "first stage", "fine-tuning")
    for recipe in RECIPES.values():
        stages = [
            "" if s is None else f"{s.epochs} epochs" if s.minutes is None else f"{s.minutes:g} minutes"
            for s in (recipe.train, recipe.finetune)
        ]
        table.add_row(recipe.name, recipe.model.network, recipe.data.name, *stages)
    Console().print(table)


def run_guarded(work: Any) -> Any:
    """Do the work; a run that was asked to stop has saved itself and ends without an error."""
    from binaryduo._common.progress import console
    from binaryduo.training.stopping import RunInterrupted

    try:
        return work()
    except RunInterrupted as stopped:
        console.print(f"binaryduo: {stopped}", markup=False, highlight=False)
        raise typer.Exit(0) from None
