"""The files that verbs write: checked before a verb begins, so that no work is lost at its end."""

import json
import math
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from binaryduo._common.files import write_synced
from binaryduo.errors import ArgumentError

PICTURES = (".png", ".pdf", ".svg")


def writable(path: Path | None) -> Path | None:
    """The path, if a file can be written there; folders on the way are made.

    >>> writable(Path("."))
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: . is a folder: give the name of a file
    """
    if path is None:
        return None
    try:
        if path.is_dir():
            raise ArgumentError(f"{path} is a folder: give the name of a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise ArgumentError(f"{path} cannot be written: permission denied")
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror}") from None
    return path


def drawable(path: Path | None) -> Path | None:
    """The path, if a picture can be written there."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ArgumentError(f"{path} is not the name of a picture: it must end in {', '.join(PICTURES)}")
    return writable(path)


Numbers = Annotated[
    Path | None, typer.Option("--out", help="Also write the numbers to this JSON file.", callback=writable)
]
_DRAW = "Draw the picture into this file (.png, .pdf, .svg)."
Picture = Annotated[Path | None, typer.Option("--plot", help=_DRAW, callback=drawable)]
NeededPicture = Annotated[Path, typer.Option("--plot", help=_DRAW, callback=drawable)]


def _finite(content: Any) -> Any:
    """The content with null for numbers that JSON does not have.

    >>> _finite({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def write_numbers(path: Path | None, content: Any) -> None:
    """Write a JSON file, where one is wanted, and say so."""
    if path is not None:
        write_synced(path, (json.dumps(_finite(content), indent=1, ensure_ascii=False) + "\n").encode())
        typer.echo(f"numbers: {path}")
