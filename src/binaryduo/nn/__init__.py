"""The layers of a binary network: a quantized activation, and layers with one-bit weights.

Paper: Equation 1 (activation), Appendix G (learned thresholds), Appendix D (weights). The modules that `decouple`
inserts are in `nn.copies`.
"""

from binaryduo.nn.activation import QuantAct
from binaryduo.nn.initialisation import draw_weights, initialise, redraw
from binaryduo.nn.one_bit import (
    BinaryConv1d,
    BinaryConv2d,
    BinaryLinear,
    binarize_weight,
    clip_latent_weights,
    is_binary_weight,
)
from binaryduo.nn.staircase import quantize

__all__ = [
    "BinaryConv1d",
    "BinaryConv2d",
    "BinaryLinear",
    "QuantAct",
    "binarize_weight",
    "clip_latent_weights",
    "draw_weights",
    "initialise",
    "is_binary_weight",
    "quantize",
    "redraw",
]
