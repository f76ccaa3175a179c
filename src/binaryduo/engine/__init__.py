"""The deployment engine: a packed model is a small program over tensors of bits and floats.

program        what a packed model is made of
weight_layout  how weights and bits are arranged in memory
format         the .duo file, byte by byte (docs/format.md)
reference      a NumPy executor, written to be read: the oracle of the native one
runtime        `load`: the native executor

It knows NumPy only, so that a packed model runs where PyTorch is not installed.
"""
