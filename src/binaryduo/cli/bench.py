"""`binaryduo bench`: speed, measured against a named other way on this machine. One file for each verb."""

import typer

from binaryduo.cli import bench_mismatch

app = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)
app.command("mismatch")(bench_mismatch.mismatch)
