"""`binaryduo data`: list, get and verify the data sets."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.cli.sources import next_step

data_app = typer.Typer(help="List, get and verify data sets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A name from `binaryduo data list`.")]
Root = Annotated[Path | None, typer.Option(help="The folder that already holds the data set.")]


@data_app.command("list")
def list_sets() -> None:
    """Show the data sets, where they come from, and which are on this machine."""
    from rich.console import Console

    from binaryduo._common.downloads import cache_dir
    from binaryduo.cli.tables import new_table
    from binaryduo.data import ENTRIES
    from binaryduo.data.fashion_mnist import has_embedded

    table = new_table("name", "what", "source", "download", "here")
    for entry in ENTRIES:
        kept = (cache_dir() / entry.name / "checksums.json").exists()
        here = has_embedded() if entry.name == "fashion-mnist-small" else kept
        table.add_row(entry.name, entry.what, entry.source, entry.size, "yes" if here else "")
    table.columns[1].max_width = 18  # leaves room for the sources, whose names stay whole, in 80 columns
    table.columns[2].min_width = max(len(word) for entry in ENTRIES for word in entry.source.split())
    Console().print(table)


@data_app.command("get")
def get(name: Name, root: Root = None) -> None:
    """Fetch a data set, check it, and keep it in the user's cache; a second time this is instant."""
    from binaryduo.data import load

    found = load(name, root)
    print(
        f"{name}: {len(found.train):,} training and {len(found.test):,} test images, {found.num_classes} classes"
    )
    next_step(f"binaryduo duo --data {name}" + ("" if root is None else f" --root {root}"))


@data_app.command("verify")
def verify(name: Name, root: Root = None) -> None:
    """Compute the checksums of the files on disk again and compare them with the published ones."""
    from binaryduo.data import verify as check

    print(f"{name}: {check(name, root)}")
