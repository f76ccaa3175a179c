"""The native part of convolution.py in bfloat16 (csrc/training/tiles/bindings.cpp); pointers are addresses."""

def available() -> bool: ...
def forward(
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
