"""`binaryduo bench train`: the training loop against plain PyTorch loops."""

from typing import Annotated

import typer

from binaryduo.cli.outputs import Numbers, write_numbers


def train(
    variants: Annotated[
        str, typer.Option(help="Which VGG-7s: baseline, coupled, decoupled, separated by commas.")
    ] = "baseline,coupled,decoupled",
    batch: Annotated[int, typer.Option(help="Images per step.")] = 256,
    steps: Annotated[int, typer.Option(help="Steps per round; the fastest one counts.")] = 4,
    rounds: Annotated[int, typer.Option(help="Rounds through all contenders.")] = 2,
    threads: Annotated[int, typer.Option(min=1, help="Cores to use.")] = 2,
    out: Numbers = None,
) -> None:
    """Measure a training step end to end, data included, beside plain eager PyTorch loops on the same batches.

    The share of the peak counts operations as the layers define them; a method that needs fewer can
    exceed what a direct one could reach.
    """
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from binaryduo.bench.training import compare

    rows, peak = compare([name.strip() for name in variants.split(",")], batch, steps, rounds, threads)
    title = f"VGG-7, batch {batch}, {threads} threads; matrix-multiply peak {peak / 1e9:.0f} GFLOP/s"
    table = Table(
        "network", "loop", "s per step", "images/s", "of peak", "against nchw", "channels_last", title=title
    )
    by_name = {(row.variant, row.contender): row for row in rows}
    for row in rows:
        ratios = [
            f"{by_name[row.variant, peer].seconds / row.seconds:.2f}×" for peer in ("nchw", "channels_last")
        ]
        table.add_row(
            row.variant,
            row.contender,
            f"{row.seconds:.3f}",
            f"{batch / row.seconds:.0f}",
            f"{100 * row.share:.0f} %",
            *ratios,
        )
    Console().print(table)
    settings = {"batch": batch, "steps": steps, "rounds": rounds, "threads": threads, "peak": peak}
    write_numbers(out, {**settings, "rows": [asdict(row) for row in rows]})
