"""From a PyTorch model to files for deployment: a packed program, or ONNX.

pack       model -> program -> file, checked operation by operation
lowering   which part of a program each operation becomes
folding    BN and activation become one threshold
verify     the program against the model, on the way
agreement  a packed file against its model, on real images
onnx       model -> ONNX
"""
