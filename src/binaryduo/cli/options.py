"""The options that `train` and `duo` share, and how they become a recipe."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from binaryduo._common.stopping import RunInterrupted, StopAtOnce, Stopped
from binaryduo.cli.network_options import parse_levels
from binaryduo.errors import ArgumentError, unknown_name

if TYPE_CHECKING:
    from binaryduo.training import Recipe

P = ParamSpec("P")
T = TypeVar("T")

RecipeName = Annotated[
    str,
    typer.Option(
        "--recipe",
        help="A named recipe, or a file that ends in .yaml. `binaryduo train --list` shows the names.",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option("--out", help="The run's folder, one run per folder; by default a new one below runs."),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the run in the folder, bit for bit, with the recipe it has. Settings that --set changes "
        "hold from there on; the change is reported and recorded.",
    ),
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
Network = Annotated[
    str | None, typer.Option(help="vgg7, alexnet, resnet18, resnet18-sc, resnet18-sc-small or mlp.")
]
Ste = Annotated[
    str | None, typer.Option(help="The differentiable stand-in of the backward pass, e.g. relu1.")
]
WeightBits = Annotated[int | None, typer.Option(help="1: binary weights; 32: float weights.")]
Width = Annotated[float | None, typer.Option(help="Multiplies every hidden width.")]
Interval = Annotated[
    str | None,
    typer.Option(help="Learn the thresholds of the activations, one set for each layer or each channel."),
]
ProfileEvery = Annotated[
    int | None, typer.Option(help="Measure the gradient mismatch of each layer every so many steps.")
]
ProfileBudget = Annotated[
    str | None, typer.Option(help="How much of the training's time that may take.", show_default="2%")
]
Seed = Annotated[int | None, typer.Option(help="Decides initialisation, order and augmentation.")]
Listing = Annotated[bool, typer.Option("--list", help="Show the named recipes and stop.")]
Show = Annotated[bool, typer.Option("--show", help="Print the resolved recipe as YAML and stop.")]


def resolve(
    name: str,
    shortcuts: dict[str, Any],
    settings: list[str] | None,
    resumed: Path | None = None,
) -> "Recipe":
    """The named recipe with the options given (dotted key -> value, None: not given) and then --set.

    Of a run that is resumed, its own recipe instead of the named one.
    """
    from binaryduo.training import from_yaml, named

    if resumed is None:
        found = named(name)
    elif (resumed / "recipe.yaml").exists():
        found = from_yaml(resumed / "recipe.yaml")
    else:
        raise ArgumentError(f"there is no run to resume in {resumed}")
    return changed(found, shortcuts, settings)


def changed(found: "Recipe", shortcuts: dict[str, Any], settings: list[str] | None) -> "Recipe":
    """The recipe with the options given and then --set, its values checked."""
    from binaryduo.training import with_settings
    from binaryduo.training.recipe import with_value

    for key, value in shortcuts.items():
        if value is not None:
            plain = str(value) if isinstance(value, Path) else value
            found = with_value(found, key, parse_levels(value) if key == "model.levels" else plain)
    return checked(with_settings(found, settings or []))


def checked(recipe: "Recipe") -> "Recipe":
    """The recipe, or an error about the first value that could not be trained with."""
    from binaryduo import data, models, ste
    from binaryduo.training import schedule

    schedule.check_both(recipe.train, recipe.finetune)
    for kind, name, known in (
        ("network", recipe.model.network, models.names()),
        ("STE", recipe.model.ste, ste.names()),
        ("data set", recipe.data.name, data.names()),
    ):
        if name not in known:
            raise unknown_name(kind, name, known)
    return recipe


def share(text: str | None) -> float | None:
    """A share of the time, written as 2% or 0.02.

    >>> share("2%"), share("0.5")
    (0.02, 0.5)
    """
    if text is None:
        return None
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ArgumentError(f"--profile-budget takes a share such as 2% or 0.02, not {text!r}") from None


def list_recipes() -> None:
    """The named recipes as a table."""
    from rich.console import Console

    from binaryduo.cli.tables import new_table
    from binaryduo.training import RECIPES

    table = new_table("recipe", "network", "data", "first stage", "fine-tuning", names=3)
    for recipe in RECIPES.values():
        stages = [
            "" if s is None else f"{s.epochs} epochs" if s.minutes is None else f"{s.minutes:g} minutes"
            for s in (recipe.train, recipe.finetune)
        ]
        table.add_row(recipe.name, recipe.model.network, recipe.data.name, *stages)
    Console().print(table)


def say_why(recipe: "Recipe") -> None:
    """One line on where the settings of a named recipe come from, where there is one."""
    from binaryduo.training.recipes import WHY

    if recipe.name in WHY:
        print(WHY[recipe.name])


def run_guarded(work: Callable[[], T]) -> T:
    """Do the work; where SIGTERM or Ctrl-C asks it to stop, wherever it is, the command ends with exit code 0."""
    try:
        with StopAtOnce():
            return work()
    except RunInterrupted as stopped:
        text = str(stopped)
    except Stopped as stopped:
        text = f"stopped by {stopped}; nothing that was saved is lost, continue with --resume"
    print(f"binaryduo: {text}", file=sys.stderr)
    raise typer.Exit(0)


def stoppable(verb: Callable[P, None]) -> Callable[P, None]:
    """The verb, guarded from its first import on."""

    @functools.wraps(verb)
    def guarded(*arguments: P.args, **options: P.kwargs) -> None:
        run_guarded(lambda: verb(*arguments, **options))

    return guarded
