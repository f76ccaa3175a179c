"""`binaryduo describe`: what a packed file holds."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.cli.sources import next_step

LONGEST_NAME = 24  # a longer one is broken, so that the other columns keep room at 80


def describe(
    path: Annotated[Path, typer.Argument(help="A packed model (.duo).")],
    threads: Annotated[int | None, typer.Option(min=1, help="Default: all cores.")] = None,
) -> None:
    """A table of a packed file's layers: sizes, weights, thresholds and the kernel chosen on this CPU."""
    from rich.console import Console
    from rich.text import Text

    from binaryduo._common.text import printable
    from binaryduo.cli.tables import new_table
    from binaryduo.engine.runtime import load

    model = load(path, threads)
    layers = model.describe()
    longest = max((len(printable(layer.name)) for layer in layers), default=0)
    table = new_table(
        *("layer", "operation", "output", "weights", "bytes", "thresholds", "kernel"),
        names=int(longest <= LONGEST_NAME),
        title=printable(f"{path.name}: {path.stat().st_size:,} bytes"),
        right=("bytes", "thresholds"),
    )
    for layer in layers:
        count = str(layer.thresholds or "")
        table.add_row(
            Text(printable(layer.name)),
            layer.operation,
            layer.output,
            layer.weights,
            f"{layer.bytes:,}",
            count,
            layer.kernel,
        )
    console = Console()
    console.print(table)
    c, h, w = model.input_shape
    console.print(
        f"input N × {c} × {h} × {w}; {model.isa} on {model.threads} thread{'s' if model.threads > 1 else ''}; "
        f"{model.workspace_bytes / 2**20:.1f} MiB of working memory",
        highlight=False,
    )
    for key, value in model.program.meta.items():
        shown = printable(value.replace("\n", ", "))
        console.print(
            f"{printable(key)}: {shown if len(shown) < 100 else shown[:97] + '...'}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    next_step(f"binaryduo run {path} IMAGE.png")
