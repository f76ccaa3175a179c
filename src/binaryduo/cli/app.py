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
    demo,
    describe,
    duo,
    evaluate,
    export,
    mismatch,
    pack,
    report,
    reproduce,
    search,
    train,
    web,
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


app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("duo")(duo.duo)
app.command("evaluate")(evaluate.evaluate)
app.command("decouple")(decouple.decouple)
app.add_typer(mismatch.app, name="mismatch")
app.command("cost")(cost.cost)
app.command("search")(search.search)
app.command("pack")(pack.pack)
app.command("export")(export.export)
app.command("describe")(describe.describe)
app.command("run")(run_verb.run)
app.command("web")(web.web)
app.command("report")(report.report)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(bench.bench_app, name="bench")
app.add_typer(data.data_app, name="data")


# Which extra brings a package that a verb may miss.
EXTRAS = {
    "cli": ("PIL",),
    "train": ("torch", "lightning_fabric", "safetensors", "yaml", "tensorboard", "matplotlib", "webdataset"),
    "search": ("optuna", "optuna_dashboard", "psycopg2"),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "peers": ("openvino",),
}


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """A sentence that says which extra brings the missing package; None for a package of nobody's.

    >>> missing_extra(ModuleNotFoundError(name="torch"))
    "this verb needs the package 'torch', which is not installed: pip install 'binaryduo[train]'"
    """
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return (
                f"this verb needs the package {package!r}, which is not installed: "
                f"pip install 'binaryduo[{extra}]'"
            )
    return None


def run(arguments: list[str] | None = None) -> None:
    """Run the command line; an error of ours is one sentence on stderr and exit code 2."""
    try:
        app(arguments)
    except (BinaryDuoError, ModuleNotFoundError) as error:
        text = str(error) if isinstance(error, BinaryDuoError) else missing_extra(error)
        if text is None:
            raise
        Console(stderr=True, soft_wrap=True).print(
            printable(f"binaryduo: {text}"), style="red", markup=False, highlight=False
        )
        sys.exit(2)
