"""`binaryduo duo`: coupled, decoupled, fine-tuned: the paper's two stages in one run."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.cli import options as o
from binaryduo.cli.network_options import Levels
from binaryduo.cli.sources import next_step


@o.stoppable
def duo(
    recipe: o.RecipeName = "demo",
    out: o.Folder = None,
    resume: o.Resume = False,
    topology: Annotated[
        str | None, typer.Option(help="duo, or quad for the paper's BinaryDuo-Q (Appendix F).")
    ] = None,
    minutes: o.Minutes = None,
    data: o.DataName = None,
    root: o.DataRoot = None,
    network: o.Network = None,
    levels: Levels = None,
    ste: o.Ste = None,
    weight_bits: o.WeightBits = None,
    width: o.Width = None,
    interval: o.Interval = None,
    seed: o.Seed = None,
    profile_every: o.ProfileEvery = None,
    profile_budget: o.ProfileBudget = None,
    settings: o.Settings = None,
    listing: o.Listing = False,
    show: o.Show = False,
) -> None:
    """Train the coupled network, decouple it, fine-tune the binary one, and compare all three.

    Everything is in one folder; with --resume the run continues in whichever stage it was.
    """
    from rich.console import Console

    from binaryduo.cli.tables import new_table
    from binaryduo.training import duo as run
    from binaryduo.training import to_yaml
    from binaryduo.training.recipe import with_minutes

    if listing:
        o.list_recipes()
        return
    shortcuts = {
        "model.topology": topology,
        "data.name": data,
        "data.root": root,
        "model.network": network,
        "model.levels": levels,
        "model.ste": ste,
        "model.weight_bits": weight_bits,
        "model.width": width,
        "model.interval": interval,
        "loop.seed": seed,
        "loop.profile_every": profile_every,
        "loop.profile_budget": o.share(profile_budget),
    }
    resolved = o.resolve(recipe, shortcuts, settings)
    folder = Path("runs") / f"{resolved.name}-duo" if out is None else out
    if resume:
        resolved = o.resolve(recipe, shortcuts, settings, folder)
    if minutes is not None:
        resolved = o.checked(with_minutes(resolved, minutes, two_stages=True))
    if show:
        print(to_yaml(resolved), end="")
        return
    changed = bool(settings or minutes or any(value is not None for value in shortcuts.values()))
    o.say_why(resolved)
    result = run(resolved, folder, resume, change=changed)
    numbers = ("top-1 last", "top-1 best", "epochs", "images/s")
    table = new_table("network", *numbers, title=f"{resolved.name}: {folder}", right=numbers)
    for name, stage in (("coupled", result.coupled), ("decoupled, fine-tuned", result.finetuned)):
        assert stage.last is not None
        assert stage.best is not None
        table.add_row(
            name,
            f"{stage.last['top1']:.2f} %",
            f"{stage.best['top1']:.2f} %",
            f"{stage.epochs:.1f}".removesuffix(".0"),
            f"{stage.images_per_second:.0f}",
        )
        if name == "coupled":
            table.add_row(
                "decoupled, before fine-tuning", f"{result.decoupled_before['top1']:.2f} %", "", "", ""
            )
    if result.test is not None:
        table.add_row("the same on the test images", f"{result.test['top1']:.2f} %", "", "", "")
    Console().print(table)
    flips = result.flips
    print(
        f"decoupling: {result.changed_predictions:,} of {result.test_images:,} predictions changed; "
        f"{flips['flips']:,} of {flips['activations']:,} activations flipped on {flips['images']} images"
    )
    next_step(f"binaryduo pack {folder} net.duo", f"binaryduo report {folder}")
