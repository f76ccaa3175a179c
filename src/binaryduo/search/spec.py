"""A search as a file: the recipe that every trial shares, what is searched, and how often."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from binaryduo._common.yaml_files import read_keys
from binaryduo.errors import ArgumentError
from binaryduo.search import space
from binaryduo.search.cases import Case, parse_case
from binaryduo.search.space import Axis, parse_axis
from binaryduo.training.identity import decisive, differences
from binaryduo.training.recipe import Recipe, from_dict, to_dict
from binaryduo.training.recipes import named

Values = str | tuple[float, ...]


@dataclass(frozen=True)
class Search:
    """Everything that decides a search; written to search.yaml in its folder.

    Each case is a network to search for: baseline, coupled, scratch (the decoupled network from its first
    weights) or decoupled (fine-tuning, from one fixed coupled network); `baseline:4` sets its levels.
    Repeat r is trained with the seed `seed + r`. The value of a trial is the top-1 accuracy, at its last epoch or
    the best over its epochs, on the images held out of the training set: `validation` is their share where the
    recipe names none. With 0 trials are ranked on the test images, as in the paper.
    """

    name: str = "search"
    cases: tuple[str, ...] = ("baseline",)
    sampler: Literal["grid", "tpe"] = "grid"
    pruner: Literal["median", "hyperband", "none"] = "median"
    trials: int = 40
    weight_decay: Values = space.WEIGHT_DECAYS
    lr: Values = space.LEARNING_RATES
    finetune_weight_decay: Values | None = None
    finetune_lr: Values = space.FINETUNING_RATES
    repeats: int = 2
    seed: int = 0
    metric: Literal["last", "best"] = "last"
    validation: float = 0.1
    coupled: str | None = None
    heartbeat: int = 20
    grace: int = 60
    retries: int = 3
    keep_checkpoints: bool = True
    recipe: Recipe = field(default_factory=Recipe)

    @property
    def trained_recipe(self) -> Recipe:
        """The recipe that trials are trained by: with images held out to rank them on."""
        data = self.recipe.data
        if data.validation > 0:
            return self.recipe
        return dataclasses.replace(self.recipe, data=dataclasses.replace(data, validation=self.validation))

    def parsed_cases(self) -> list[Case]:
        """The cases in order; a coupled search stands before the fine-tuning that needs its result."""
        found = [parse_case(name) for name in self.cases]
        return sorted(found, key=lambda case: case.finetunes)

    def axes(self, case: Case) -> tuple[Axis, Axis]:
        """(weight decay, learning rate) of a case."""
        decay = self.weight_decay
        if not case.finetunes:
            return parse_axis(decay, "weight_decay"), parse_axis(self.lr, "lr")
        if self.finetune_weight_decay is not None:
            decay = self.finetune_weight_decay
        return parse_axis(decay, "finetune_weight_decay"), parse_axis(self.finetune_lr, "finetune_lr")


def with_grid(search: Search, decays: int, rates: int) -> Search:
    """The search with that many values on every axis, between the same ends.

    >>> len(with_grid(Search(), 5, 4).axes(parse_case("baseline"))[0].values)
    5
    """

    def resized(values: Values, name: str, count: int) -> tuple[float, ...]:
        return parse_axis(values, name, count).values

    second = search.finetune_weight_decay

    return dataclasses.replace(
        search,
        weight_decay=resized(search.weight_decay, "weight_decay", decays),
        lr=resized(search.lr, "lr", rates),
        finetune_weight_decay=None if second is None else resized(second, "finetune_weight_decay", decays),
        finetune_lr=resized(search.finetune_lr, "finetune_lr", rates),
    )


def check(search: Search) -> Search:
    """The search itself, or an error that names what cannot be run."""
    cases = search.parsed_cases()
    if not cases or len({case.name for case in cases}) != len(cases):
        raise ArgumentError(f"the cases must be at least one, each named once, got {', '.join(search.cases)}")
    for key in ("repeats", "trials", "heartbeat"):
        if getattr(search, key) < 1:
            raise ArgumentError(f"{key} must be 1 or more, got {getattr(search, key)}")
    for key in ("seed", "retries"):
        if getattr(search, key) < 0:
            raise ArgumentError(f"{key} must be 0 or more, got {getattr(search, key)}")
    if search.grace <= search.heartbeat:
        raise ArgumentError(
            f"grace = {search.grace} must be longer than heartbeat = {search.heartbeat} seconds: a worker is "
            "taken for dead when it is silent for that long"
        )
    if not 0 <= search.validation < 1:
        raise ArgumentError(f"validation must be a share from 0 to below 1, not {search.validation!r}")
    for case in cases:
        search.axes(case)
        if not case.finetunes:
            continue
        if search.recipe.finetune is None:
            raise ArgumentError(
                f"the recipe {search.recipe.name} has no fine-tuning stage: set finetune.epochs"
            )
        if search.coupled is None and case.coupled_name not in {c.name for c in cases}:
            raise ArgumentError(
                f"{case.name} is fine-tuned from one coupled network: add the case {case.coupled_name!r} or "
                "name a trained run with --coupled"
            )
        if search.coupled is None and not search.keep_checkpoints:
            raise ArgumentError(
                f"{case.name} needs the checkpoints of {case.coupled_name}: set keep_checkpoints to true"
            )
    return search


def search_to_yaml(search: Search) -> str:
    """Every key, resolved."""
    return yaml.safe_dump(to_dict(search), sort_keys=False)


def search_from_yaml(path: "str | Path") -> Search:
    """Read a search file; `recipe` is a recipe's name or its keys, and keys left out have their defaults."""
    values = read_keys(path, "the search")
    if isinstance(values.get("recipe"), str):
        values["recipe"] = to_dict(named(values["recipe"]))
    return check(from_dict(Search, values))


def identity(search: Search) -> dict[str, Any]:
    """What must be the same on every machine that works on a search; where its data lies may differ."""
    values = to_dict(search)
    values["recipe"]["data"] |= {"root": None, "workers": 0}
    return values | {"coupled": search.coupled is not None}


def same_trial(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes are of one trial: a worker may have chosen the engine, and the data may have moved."""
    return differences(decisive(one, "trial"), decisive(other, "trial")).keys() <= {"loop.engine"}
