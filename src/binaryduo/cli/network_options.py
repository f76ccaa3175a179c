"""The options that describe a network, shared by all verbs that build one."""

from typing import Annotated, Any

import typer

from binaryduo.errors import ArgumentError

Variant = Annotated[
    str | None,
    typer.Option(
        "--variant",
        help="**baseline** (binary), **coupled** (more levels, narrower) or **decoupled**.",
        show_default="baseline",
    ),
]
Levels = Annotated[
    str | None,
    typer.Option(help="Activation levels: 2 binary, 3 ternary, 4 two-bit …, `none` for full precision."),
]
WeightBits = Annotated[
    int | None, typer.Option(help="1 or 32. Default: 32 for vgg7 and mlp, 1 for the ImageNet networks.")
]
Width = Annotated[
    float | None, typer.Option("--width", help="Multiplies every hidden width.", show_default="1.0")
]
Classes = Annotated[
    int | None, typer.Option("--classes", help="Number of classes.", show_default="the network's")
]
Channels = Annotated[int | None, typer.Option(help="Channels of an image.", show_default="the network's")]
ImageSize = Annotated[int | None, typer.Option(help="Side of an image.", show_default="the network's")]


def parse_levels(text: str | None) -> Any:
    """The `levels` argument of build: a number, None for "none", "default" where not given.

    >>> parse_levels("3"), parse_levels("none"), parse_levels(None)
    (3, None, 'default')
    """
    if text is None:
        return "default"
    if text.lower() in ("none", "null"):
        return None
    try:
        return int(text)
    except ValueError:
        raise ArgumentError(f"--levels takes a whole number or 'none', not {text!r}") from None
