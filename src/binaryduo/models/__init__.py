"""The paper's networks, each defined once; coupled and decoupled variants are derived. Trained ones by name."""

from binaryduo.models.registry import build, example_input, names
from binaryduo.models.trained import card, pretrained, pretrained_names

__all__ = ["build", "card", "example_input", "names", "pretrained", "pretrained_names"]
