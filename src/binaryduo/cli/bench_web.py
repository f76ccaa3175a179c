"""`binaryduo bench web`: the engine in WebAssembly beside ONNX Runtime Web, in one browser."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.cli.outputs import Numbers, write_numbers


def web(
    onnxruntime_web: Annotated[
        Path, typer.Option(help="The unpacked npm package: `npm install onnxruntime-web` brings it.")
    ] = Path("node_modules/onnxruntime-web"),
    networks: Annotated[str, typer.Option(help="Networks, separated by commas.")] = "resnet18,vgg7",
    browser: Annotated[str | None, typer.Option(help="The browser's command; default: Chromium.")] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each engine is timed at least; its best counts.")
    ] = 15,
    out: Numbers = None,
) -> None:
    """Time the engine in a browser against ONNX Runtime Web, fp32 and int8: one image, one thread, in turns.

    Ours are the decoupled binary networks with one-bit weights, the others the full-precision networks they replace.

    Example: `npm install onnxruntime-web && binaryduo bench web`
    """
    from rich.console import Console

    from binaryduo.cli.tables import new_table
    from binaryduo.web.beside import measure

    found, name = measure([n.strip() for n in networks.split(",")], onnxruntime_web, browser, rounds)
    title = "milliseconds for one image: the best round (the median)"
    table = new_table("network", *found[0].best, "ratio", title=title)
    for row in found:
        cells = [f"{row.best[engine]:.3g} ({row.median[engine]:.3g})" for engine in row.best]
        table.add_row(row.network, *cells, f"{row.ratio():.1f} ×")
    Console().print(table)
    typer.echo(name)
    numbers = [
        {"network": r.network, "best_ms": r.best, "median_ms": r.median, "ratio": r.ratio()} for r in found
    ]
    write_numbers(out, {"browser": name, "results": numbers})
