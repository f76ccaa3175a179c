"""What is killed and damaged: each verb can be carried on in its folder, and its outcome must come out the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from binaryduo.training import duo, from_yaml, train
from tests.soak import small_reproduce, small_search
from tests.soak.small_run import RECIPE, run_found


def _run(verb: Callable[..., object]) -> Callable[[Path], None]:
    def carry_on(folder: Path) -> None:
        there = (folder / "recipe.yaml").exists()
        verb(from_yaml(folder / "recipe.yaml") if there else RECIPE, folder, resume=there)

    return carry_on


VERBS: dict[str, tuple[Callable[[Path], None], Callable[[Path], dict[str, Any]]]] = {
    "train": (_run(train), run_found),
    "duo": (_run(duo), run_found),
    "search": (small_search.carry_on, small_search.found),
    "reproduce": (small_reproduce.carry_on, small_reproduce.found),
}


def carry_on(verb: str, folder: Path) -> None:
    """Start the work in the folder, or continue it as the command line does."""
    VERBS[verb][0](folder)


def outcome(verb: str, folder: Path) -> dict[str, Any]:
    """All that it has found, without times."""
    return VERBS[verb][1](folder)
