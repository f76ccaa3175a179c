"""The native part of fastconv.py (csrc/winograd_bindings.cpp); pointers are addresses."""

def kernels() -> str: ...
def use(fastest: bool) -> None: ...
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
