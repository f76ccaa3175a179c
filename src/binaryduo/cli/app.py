"""All verbs in one place. Each is a function in a file of its own that imports what it needs when called,
so that `binaryduo --help` answers at once and `binaryduo run` works without PyTorch."""

import sys

import typer
from rich.console import Console

from binaryduo import __version__
from binaryduo._common.text import printable
from binaryduo.cli import (
    bench,
    cost,
    data,
    decouple,
    describe,
    duo,
    evaluate,
    mismatch,
    pack,
    report,
    reproduce,
    search,
    train,
)
from binaryduo.cli import run as run_verb
from binaryduo.errors import BinaryDuoError

app = typer.Typer(
    name="binaryduo",
    help="Train, diagnose and deploy networks whose activations are one bit.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        print(f"binaryduo {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


app.command("train")(train.train)
app.command("duo")(duo.duo)
app.command("evaluate")(evaluate.evaluate)
app.command("decouple")(decouple.decouple)
app.add_typer(mismatch.app, name="mismatch")
app.command("cost")(cost.cost)
app.command("search")(search.search)
app.command("pack")(pack.pack)
app.command("describe")(describe.describe)
app.command("run")(run_verb.run)
app.command("report")(report.report)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(bench.bench_app, name="bench")
app.add_typer(data.data_app, name="data")


def run(arguments: list[str] | None = None) -> None:
    """Run the command line; an error of ours is one sentence on stderr and exit code 2."""
    try:
        app(arguments)
    except BinaryDuoError as error:
        Console(stderr=True, soft_wrap=True).print(
            printable(f"binaryduo: {error}"), style="red", markup=False, highlight=False
        )
        sys.exit(2)
