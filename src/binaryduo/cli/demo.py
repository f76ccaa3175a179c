"""`binaryduo demo`: the method at work, in about a minute."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Where runs, pictures and numbers are kept.")] = Path("demo"),
    seeds: Annotated[int, typer.Option(min=1, help="Repeat it with this many seeds.")] = 1,
) -> None:
    """See the method at work on 10,000 images of clothes: couple, train, decouple, fine-tune, pack, run the file.

    It takes about a minute on two cores and needs no network: the images come with the package
    binaryduo-images.
    """
    from binaryduo.cli.demonstration import main
    from binaryduo.training import named

    main(list(range(seeds)), out, named("demo"))
