"""The paper's networks, each defined once; coupled and decoupled variants are derived."""

from binaryduo.models.registry import build, example_input, names

__all__ = ["build", "example_input", "names"]
