"""The files that verbs write: checked before a verb begins, so that no work is lost at its end."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from binaryduo.errors import ArgumentError
from binaryduo.files import write_synced

PICTURES = (".png", ".pdf", ".svg")


def writable(path: Path | None) -> Path | None:
    """The path, if a file can be written there; folders on the way are made when it is.

    >>> writable(Path("."))
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: . is a folder: give the name of a file
    """
    if path is not None:
        if path.is_dir():
            raise ArgumentError(f"{path} is a folder: give the name of a file")
        there = next(parent for parent in path.absolute().parents if parent.exists())
        if not there.is_dir():
            raise ArgumentError(f"{path} cannot be written: {there} is a file, not a folder")
    return path


def drawable(path: Path | None) -> Path | None:
    """The path, if a picture can be written there."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ArgumentError(f"{path} is no picture: its name must end in {', '.join(PICTURES)}")
    return writable(path)


Numbers = Annotated[
    Path | None, typer.Option("--out", help="Also write the numbers to this JSON file.", callback=writable)
]
_DRAW = "Draw the picture into this file (.png, .pdf, .svg)."
Picture = Annotated[Path | None, typer.Option("--plot", help=_DRAW, callback=drawable)]
NeededPicture = Annotated[Path, typer.Option("--plot", help=_DRAW, callback=drawable)]


def write_numbers(path: Path | None, content: Any) -> None:
    """Write a JSON file, where one is wanted, and say so."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
        typer.echo(f"numbers: {path}")
