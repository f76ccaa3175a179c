"""The native part of convolution.py (csrc/training/convolution/bindings.cpp); pointers are addresses."""

def kernels() -> str: ...
def tiles_are_undescribed() -> bool: ...
def forward(
    bf16: bool,
    x: int,
    w: int,
    y: int,
    images: int,
    height: int,
    width: int,
    channels_in: int,
    channels_out: int,
    turned: bool,
    threads: int,
    /,
) -> None: ...
def weight_gradient(
    bf16: bool,
    x: int,
    dy: int,
    dw: int,
    images: int,
    height: int,
    width: int,
    channels_in: int,
    channels_out: int,
    threads: int,
    /,
) -> None: ...
