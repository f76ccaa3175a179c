"""The native part of norm.py (csrc/training/norm/bindings.cpp); pointers are addresses."""

def kernels() -> str: ...
def forward(
    bf16: bool,
    x: int,
    weight: int,
    bias: int,
    eps: float,
    levels: int,
    rows: int,
    channels: int,
    copies: int,
    mean: int,
    var: int,
    y: int,
    threads: int,
) -> None: ...
def backward(
    bf16: bool,
    x: int,
    grad: int,
    weight: int,
    bias: int,
    mean: int,
    var: int,
    eps: float,
    levels: int,
    rows: int,
    channels: int,
    copies: int,
    dx: int,
    dweight: int,
    dbias: int,
    threads: int,
) -> None: ...
