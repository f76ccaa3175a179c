"""Hyper-parameter search on Optuna: the paper's grids (Figures 1 and 6), resumable, on many machines."""

from binaryduo.search.local import run_search
from binaryduo.search.pictures import draw_comparison, draw_contours
from binaryduo.search.results import collect, read_results, recipe_of
from binaryduo.search.spec import Search, search_from_yaml

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
