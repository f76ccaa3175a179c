"""`binaryduo train`: one network, by a recipe."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.cli import options as o
from binaryduo.cli.network_options import Levels
from binaryduo.cli.sources import next_step


@o.stoppable
def train(
    recipe: o.RecipeName = "demo",
    out: o.Folder = None,
    resume: o.Resume = False,
    variant: Annotated[
        str | None, typer.Option(help="baseline, coupled or decoupled (from scratch).")
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
    """Train one network and report its best and last accuracy.

    Under torchrun the same command trains with one process per device:
    `torchrun --nproc-per-node 8 -m binaryduo train --recipe resnet18-imagenet --root /data/imagenet`.
    """
    from binaryduo.training import to_yaml
    from binaryduo.training import train as run
    from binaryduo.training.recipe import with_minutes

    if listing:
        o.list_recipes()
        return
    shortcuts = {
        "model.variant": variant,
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
    folder = Path("runs") / f"{resolved.name}-{resolved.model.variant}" if out is None else out
    if resume:
        resolved = o.resolve(recipe, shortcuts, settings, folder)
    if minutes is not None:
        resolved = o.checked(with_minutes(resolved, minutes, two_stages=False))
    if show:
        print(to_yaml(resolved), end="")
        return
    changed = bool(settings or minutes or any(value is not None for value in shortcuts.values()))
    o.say_why(resolved)
    result = run(resolved, folder, resume, change=changed)
    for name, found in (("best", result.best), ("last", result.last)):
        if found is not None:
            print(
                f"{name}: top-1 {found['top1']:.2f} %, top-5 {found['top5']:.2f} %, loss {found['loss']:.4f} "
                f"(epoch {found['epoch']})"
            )
    if result.test is not None:
        print(
            f"test images, evaluated once at the end: top-1 {result.test['top1']:.2f} %, top-5 "
            f"{result.test['top5']:.2f} %"
        )
    print(
        f"{result.images_per_second:.0f} images/s with the engine {result.engine}; everything is in {folder}"
    )
    if resolved.model.variant == "coupled":
        next_step(f"binaryduo decouple {folder} binary.safetensors")
    else:
        next_step(f"binaryduo pack {folder} net.duo", f"binaryduo report {folder}")
