"""Hyper-parameter search on Optuna: the paper's grids (Figures 1 and 6), resumable, on many machines.

Names are imported when they are first used: a worker needs no plotting library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from binaryduo.errors import MissingExtraError

if TYPE_CHECKING:
    from binaryduo.search.collecting import collect
    from binaryduo.search.local import run_search
    from binaryduo.search.pictures import draw_comparison, draw_contours
    from binaryduo.search.results import read_results, recipe_of
    from binaryduo.search.spec import Search, search_from_yaml

_HOME = {
    "Search": "spec",
    "collect": "collecting",
    "draw_comparison": "pictures",
    "draw_contours": "pictures",
    "read_results": "results",
    "recipe_of": "results",
    "run_search": "local",
    "search_from_yaml": "spec",
}

__all__ = [
    "Search",
    "collect",
    "draw_comparison",
    "draw_contours",
    "read_results",
    "recipe_of",
    "run_search",
    "search_from_yaml",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'binaryduo.search' has no attribute {name!r}")
    try:
        return getattr(import_module(f"binaryduo.search.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("binaryduo"):
            raise
        raise MissingExtraError(
            f"binaryduo.search.{name} needs the package {error.name!r}: pip install 'binaryduo[search]'"
        ) from error
