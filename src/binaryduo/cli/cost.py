"""`binaryduo cost`: what a network costs to store and to run."""

from typing import Annotated

import typer

from binaryduo.cli import network_options as opt
from binaryduo.cli import sources


def cost(
    network: sources.NetworkOrSource,
    variant: opt.Variant = None,
    levels: opt.Levels = None,
    weight_bits: opt.WeightBits = None,
    width: opt.Width = None,
    classes: opt.Classes = None,
    in_channels: opt.Channels = None,
    image_size: opt.ImageSize = None,
    layers: Annotated[bool, typer.Option(help="Show every layer, not only the totals.")] = True,
) -> None:
    """Parameters and operations of a network, counted as in the paper's Table 2.

    Parameters count 1 bit for a binary weight and 32 for everything else; operations are full-precision
    multiply-accumulates plus binary ones / 64. The other conventions in use are listed below the table.

    Examples: `binaryduo cost resnet18`, `binaryduo cost alexnet --variant decoupled --no-layers`,
    `binaryduo cost runs/demo-duo`
    """
    from rich.console import Console
    from rich.text import Text

    from binaryduo.cli.tables import new_table
    from binaryduo.transform import costing

    options = {
        "variant": variant,
        "num_classes": classes,
        "levels": opt.parse_levels(levels),
        "weight_bits": weight_bits,
        "width": width,
        "in_channels": in_channels,
        "image_size": image_size,
    }
    found = sources.network_or_source(network, options)
    result = costing.cost(found.model, found.example())
    console = Console()
    if layers:
        counts = ("parameters", "bits", "MACs")
        title = f"{found.title}, one image"
        table = new_table("module", "kind", *counts, "binary", title=title, right=counts)
        for row in result.layers:
            table.add_row(
                Text(row.name),
                row.kind,
                f"{row.params:,}",
                f"{row.param_bits:,}",
                f"{row.macs:,}" if row.macs else "",
                "yes" if row.binary else "",
            )
        console.print(table)
    title = f"{found.title}: totals and how others count"
    summary = new_table("what", "", names=0, title=title, right=("",))
    summary.add_row("parameters", f"{result.params:,}")
    summary.add_row("parameter bits (Table 2: Params)", f"{result.param_bits / 1e6:,.1f} Mbit")
    for name, value in result.conventions().items():
        summary.add_row(name, f"{value / 1e6:,.1f} M")
    console.print(summary)
    if found.recipe is not None:
        sources.next_step(f"binaryduo pack {network} net.duo")
    elif found.options["variant"] == "baseline":
        sources.next_step(f"binaryduo cost {network} --variant decoupled --no-layers")
