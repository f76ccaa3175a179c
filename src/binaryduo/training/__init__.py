"""Training: recipes, the loop, the two stages, checkpoints and records."""

from binaryduo.training.counts import Counts
from binaryduo.training.duo import DuoResult, train
from binaryduo.training.evaluation import evaluate
from binaryduo.training.loop import Result
from binaryduo.training.own_fit import fit
from binaryduo.training.recipe import (
    Data,
    Loop,
    Model,
    Recipe,
    Stage,
    from_yaml,
    one_anneal,
    to_yaml,
    with_settings,
)
from binaryduo.training.recipes import RECIPES, named
from binaryduo.training.task import top1
from binaryduo.training.two_stages import duo
from binaryduo.training.weights import load_weights

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
    "load_weights",
    "named",
    "one_anneal",
    "to_yaml",
    "top1",
    "train",
    "with_settings",
]
