"""`binaryduo bench`: speed as ratios against named peers, measured in one run. One file for each verb."""

import typer

from binaryduo.cli import bench_infer, bench_layers, bench_mismatch, bench_train, bench_web

bench_app = typer.Typer(
    help="Measure speed on this machine, as ratios against named peers.", no_args_is_help=True
)
bench_app.command("layers")(bench_layers.layers)
bench_app.command("mismatch")(bench_mismatch.mismatch)
bench_app.command("train")(bench_train.train)
bench_app.command("infer")(bench_infer.infer)
bench_app.command("web")(bench_web.web)
