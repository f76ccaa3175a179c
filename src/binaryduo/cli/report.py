"""`binaryduo report`: runs, or the whole paper, as one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo._common.files import write_synced
from binaryduo.cli.outputs import writable
from binaryduo.errors import ArgumentError


def report(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders, finished or not; a checkpoint stands for the run it belongs to."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.", callback=writable)] = Path(
        "report.html"
    ),
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Report on the paper's artefacts instead: every claim beside the picture made here.",
        ),
    ] = False,
    results: Annotated[Path | None, typer.Option(help="With --paper: where the numbers are kept.")] = None,
    costs: Annotated[bool, typer.Option(help="Compute the cost per layer from the recipe.")] = True,
) -> None:
    """Write one self-contained HTML file: learning curves, accuracies, costs, mismatch, search, packed files.

    It needs no network and no other file, so it can be sent by mail. What is missing or not finished is shown as such.
    """
    from binaryduo.report import paper_report, run_report
    from binaryduo.training.sources import run_folder

    if paper == bool(runs):
        raise ArgumentError("give the folders of one or more runs or --paper, not both")
    named = list(runs or [])
    empty = [path for path in named if path.is_dir() and not any(path.iterdir())]
    if named and not any(path.exists() and path not in empty for path in named):
        if empty:
            raise ArgumentError(f"{empty[0]} is empty: give the folder of a run")
        run_folder(named[0])  # refuses it; a missing or empty one among others is shown as such on the page
    folders = list(dict.fromkeys(run_folder(path) if path.exists() else path for path in named))
    text = paper_report.build(results) if paper else run_report.build(folders, costs)
    write_synced(out, text.encode())
    typer.echo(f"{out}: {out.stat().st_size / 1e6:.2f} MB; open it in a browser")
