"""`duo`: the paper's two stages, of a recipe or of a model of your own."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, overload

from lightning_fabric import Fabric
from torch import nn

from binaryduo.data import Split
from binaryduo.errors import ArgumentError
from binaryduo.nn.intervals import Interval
from binaryduo.training.duo import DuoResult, duo_of_recipe
from binaryduo.training.optimizing import MakeOptimizer
from binaryduo.training.own_duo import duo_of_model
from binaryduo.training.recipe import Loop, Recipe, Stage
from binaryduo.training.schedule import Scheduler
from binaryduo.training.task import Loss, Metrics
from binaryduo.training.watching import OnProfile
from binaryduo.transform.carrying import Topology


@overload
def duo(
    recipe: Recipe,
    folder: "str | Path",
    resume: bool = False,
    change: bool = False,
    on_profile: OnProfile | None = None,
) -> DuoResult: ...


@overload
def duo(
    model: nn.Module,
    train: "Split | Iterable[Any]",
    test: "Split | Iterable[Any] | None" = None,
    stage: Stage | None = None,
    finetune: Stage | None = None,
    loop: Loop | None = None,
    folder: "str | Path" = "runs/latest",
    resume: bool = False,
    levels: int = 3,
    topology: Topology = "duo",
    interval: Interval | None = None,
    loss: Loss | None = None,
    metrics: Metrics | None = None,
    optimizer: MakeOptimizer | None = None,
    fabric: Fabric | None = None,
    scheduler: Scheduler | None = None,
    widths: "Mapping[str, int] | Literal['fill'] | None" = None,
    on_profile: OnProfile | None = None,
) -> tuple[nn.Module, DuoResult]: ...


def duo(*arguments: Any, **options: Any) -> Any:
    """Train a coupled network, decouple it, fine-tune the binary one; with `resume`, in whichever stage it was.

    `duo(model, train, test, stage, finetune, loop, folder, …)` does it for a binary baseline of your own and returns
    the binary network and the results; loss, metrics, optimizer and scheduler are as for `fit`, levels, topology,
    interval and widths as for `couple`. `duo(recipe, folder, …)` does it for a recipe and returns the results.
    `on_profile` is called with each line on the gradient mismatch of either stage (`loop.profile_every`), and once at
    the moment of decoupling.
    """
    first = arguments[0] if arguments else options.get("recipe", options.get("model"))
    if isinstance(first, Recipe):
        return duo_of_recipe(*arguments, **options)
    if isinstance(first, nn.Module):
        return duo_of_model(*arguments, **options)
    raise ArgumentError(
        f"duo needs a model (nn.Module) or a recipe first, not one of type {type(first).__name__}"
    )
