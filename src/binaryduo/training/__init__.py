"""Training: recipes, the loop, the two stages, checkpoints and records."""

from binaryduo.training.duo import DuoResult, duo, train
from binaryduo.training.evaluation import Counts, evaluate
from binaryduo.training.loop import Result, fit
from binaryduo.training.recipe import Data, Loop, Model, Recipe, Stage, from_yaml, to_yaml, with_settings
from binaryduo.training.recipes import RECIPES, named

__all__ = [
    "RECIPES",
    "Counts",
    "Data",
    "DuoResult",
    "Loop",
    "Model",
    "Recipe",
    "Result",
    "Stage",
    "duo",
    "evaluate",
    "fit",
    "from_yaml",
    "named",
    "to_yaml",
    "train",
    "with_settings",
]
