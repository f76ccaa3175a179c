"""The networks that one search compares, and the recipe of one trial of each."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from binaryduo.errors import ArgumentError
from binaryduo.training.recipe import Recipe

KINDS = ("baseline", "coupled", "scratch", "decoupled")


@dataclass(frozen=True)
class Case:
    """One network: which variant, how many levels (None: full precision), and whether it is fine-tuned."""

    name: str
    kind: str
    levels: int | Literal["default"] | None

    @property
    def finetunes(self) -> bool:
        return self.kind == "decoupled"

    @property
    def coupled_name(self) -> str:
        """The case whose network is decoupled and fine-tuned in this one."""
        return self.name.replace("decoupled", "coupled")

    @property
    def folder(self) -> str:
        return self.name.replace(":", "-")

    @property
    def title(self) -> str:
        """What a reader calls it.

        >>> parse_case("decoupled").title, parse_case("baseline:full").title
        ('decoupled, fine-tuned', 'baseline, full precision')
        """
        words = {"scratch": "decoupled, from scratch", "decoupled": "decoupled, fine-tuned"}
        text = words.get(self.kind, self.kind)
        if self.levels == "default":
            return text
        return f"{text}, {'full precision' if self.levels is None else f'{self.levels} levels'}"

    @property
    def trained_levels(self) -> int | None:
        """How many values an activation takes: a decoupled network is binary, whatever it came from."""
        if self.kind in ("scratch", "decoupled"):
            return 2
        if self.levels == "default":
            return 2 if self.kind == "baseline" else 3
        return self.levels


def parse_case(text: str) -> Case:
    """A case from its name, `coupled` or with levels `coupled:4`, `baseline:full`.

    >>> parse_case("coupled:4").levels
    4
    """
    kind, colon, levels = text.strip().partition(":")
    if kind not in KINDS:
        raise ArgumentError(
            f"unknown case {text!r}: choose one of {', '.join(KINDS)}, perhaps with levels: coupled:4"
        )
    if not colon:
        return Case(kind, kind, "default")
    if levels == "full":
        return Case(f"{kind}:full", kind, None)
    if not levels.isdigit():
        raise ArgumentError(f"the levels of {text!r} must be a whole number or 'full', as in baseline:4")
    return Case(f"{kind}:{int(levels)}", kind, int(levels))


def network_recipe(recipe: Recipe, case: Case) -> Recipe:
    """The recipe with the case's network, as `binaryduo train` would build it."""
    variant: Literal["baseline", "coupled", "decoupled"]
    variant = "decoupled" if case.kind == "scratch" else case.kind  # type: ignore[assignment]
    levels = case.levels
    if levels == "default" and recipe.model.variant == variant:
        levels = recipe.model.levels
    return dataclasses.replace(
        recipe, model=dataclasses.replace(recipe.model, variant=variant, levels=levels)
    )


def trial_recipe(recipe: Recipe, case: Case, lr: float, weight_decay: float, seed: int) -> Recipe:
    """What one trial trains: a single stage, which for fine-tuning is the recipe's second.

    >>> trial_recipe(Recipe(), parse_case("coupled"), 0.01, 0.1, 7).model.variant
    'coupled'
    """
    stage = recipe.finetune if case.finetunes else recipe.train
    assert stage is not None
    return dataclasses.replace(
        network_recipe(recipe, case),
        train=dataclasses.replace(stage, lr=lr, weight_decay=weight_decay),
        finetune=None,
        loop=dataclasses.replace(recipe.loop, seed=seed, tensorboard=False),
    )
