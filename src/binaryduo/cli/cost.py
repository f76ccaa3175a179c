"""`binaryduo cost`: what a network costs to store and to run."""

from typing import Annotated

import typer

from binaryduo.cli import network_options as opt


def cost(
    network: opt.Network,
    variant: opt.Variant = "baseline",
    levels: opt.Levels = None,
    weight_bits: opt.WeightBits = None,
    width: opt.Width = 1.0,
    classes: opt.Classes = None,
    in_channels: opt.Channels = None,
    image_size: opt.ImageSize = None,
    layers: Annotated[bool, typer.Option(help="Show every layer, not only the totals.")] = True,
) -> None:
    """Parameters and operations of a network, counted as in the paper's Table 2.

    Parameters count 1 bit for a binary weight and 32 for everything else; operations are full-precision
    multiply-accumulates plus binary ones / 64. The other conventions in use are listed below the table.

    Examples: `binaryduo cost resnet18`, `binaryduo cost alexnet --variant decoupled --no-layers`
    """
    from rich.console import Console
    from rich.table import Table

    from binaryduo import models
    from binaryduo.transform import costing

    net = models.build(
        network,
        variant,  # type: ignore[arg-type]
        classes,
        opt.parse_levels(levels),
        weight_bits=weight_bits,  # type: ignore[arg-type]
        width=width,
        in_channels=in_channels,
        image_size=image_size,
    )
    result = costing.cost(net, models.example_input(network, in_channels, image_size))
    console = Console()
    if layers:
        table = Table(title=f"{network}, {variant}, one image")
        for name in ("module", "kind"):
            table.add_column(name)
        for name in ("parameters", "bits", "MACs"):
            table.add_column(name, justify="right")
        table.add_column("binary")
        for row in result.layers:
            table.add_row(
                row.name,
                row.kind,
                f"{row.params:,}",
                f"{row.param_bits:,}",
                f"{row.macs:,}" if row.macs else "",
                "yes" if row.binary else "",
            )
        console.print(table)
    summary = Table(title=f"{network}, {variant}: totals and how others count")
    summary.add_column("what")
    summary.add_column("", justify="right")
    summary.add_row("parameters", f"{result.params:,}")
    summary.add_row("parameter bits (Table 2: Params)", f"{result.param_bits / 1e6:,.1f} Mbit")
    for name, value in result.conventions().items():
        summary.add_row(name, f"{value / 1e6:,.1f} M")
    console.print(summary)
