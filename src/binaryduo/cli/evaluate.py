"""`binaryduo evaluate`: test a network that a run has left behind."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.cli import options as o


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A run's folder, or one of the two stages of a `duo` run.")],
    which: Annotated[
        str, typer.Option(help="last: the newest checkpoint; best: the one that tested best.")
    ] = "last",
    data: o.DataName = None,
    root: o.DataRoot = None,
) -> None:
    """Load a run's network and measure loss, top-1 and top-5 on the test images."""
    from binaryduo.training.restore import restore

    found = restore(folder, which, data, root)
    print(
        f"{found.title}: top-1 {found.means['top1']:.2f} %, top-5 {found.means['top5']:.2f} %, "
        f"loss {found.means['loss']:.4f} on {found.images} images ({found.path})"
    )
