"""The deployment engine: a packed model is a small program over tensors of bits and floats.

program    what a packed model is made of
blocks     how weights and bits lie in memory
format     the .duo file, byte by byte (docs/format.md)
reference  a NumPy executor, written to be read: the oracle of the native one
runtime    `load`: the native executor
pack       PyTorch model -> program -> file
onnx       PyTorch model -> ONNX

All but the last two know NumPy only, so that a packed model runs where PyTorch is not installed.
"""
