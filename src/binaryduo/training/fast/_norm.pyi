"""The native part of fastnorm.py (csrc/norm_bindings.cpp); pointers are addresses."""

def kernels() -> str: ...
def use(fastest: bool) -> None: ...
def forward(
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
    x: int,
    grad: int,
    weight: int,
    bias: int,
    mean: int,
    var: int,
    eps: float,
    rows: int,
    channels: int,
    copies: int,
    dx: int,
    dweight: int,
    dbias: int,
    threads: int,
) -> None: ...
