"""`binaryduo mismatch network`: the gradient mismatch of a real network, layer by layer."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from binaryduo.cli import network_options as opt
from binaryduo.cli import sources
from binaryduo.cli.outputs import Numbers, Picture, write_numbers
from binaryduo.errors import ArgumentError, DataError, unknown_name

if TYPE_CHECKING:
    from torch import Tensor, nn

    from binaryduo.data import DataSet
    from binaryduo.mismatch import Profile, Slopes


def network(
    name: sources.NetworkOrSource,
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set's name, or an .npz file with images and labels.",
            show_default="the run's or the pretrained network's own",
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Trained weights (.safetensors); without them the network is random.")
    ] = None,
    which: sources.Which = "last",
    variant: opt.Variant = None,
    levels: opt.Levels = None,
    weight_bits: opt.WeightBits = None,
    width: opt.Width = None,
    images: Annotated[int, typer.Option(min=2, help="How many images to use.")] = 2000,
    coordinates: Annotated[
        int | None, typer.Option(help="Weights to draw in each layer (cdg).", show_default="128")
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            help="cdg compares with slopes along single weights. slopes moves all weights of a layer together, along "
            "the coarse gradient and along random directions: less noise in large layers."
        ),
    ] = "cdg",
    directions: Annotated[
        int | None, typer.Option(help="Random directions in each layer (slopes).", show_default="32")
    ] = None,
    step: Annotated[
        str,
        typer.Option(
            help="CDG's step ε: a number, or auto to choose one for each layer from its weights. For slopes a share "
            "of the length of each layer's weights; auto is 0.01."
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the drawn weights (and of random weights).")] = 0,
    ste: Annotated[list[str] | None, typer.Option(help="Compare these STEs; may be repeated.")] = None,
    define: Annotated[
        Path | None, typer.Option(help="A Python file of yours that registers an STE; it is run first.")
    ] = None,
    out: Numbers = None,
    plot: Picture = None,
) -> None:
    """Compare the coarse gradient with the loss itself in each layer of a network: is this STE better?

    Examples: `binaryduo mismatch network runs/demo-duo --ste relu1 --ste swishsign`,
    `binaryduo mismatch network vgg7 --data cifar10 --estimator slopes --images 512`
    """
    import runpy

    import torch
    from torch.nn import functional as F

    from binaryduo import models
    from binaryduo._common.weight_files import load_weights, read_weights
    from binaryduo.cli.progress import progress_bar
    from binaryduo.mismatch import compare_slopes, compare_stes, plot_profiles, plot_slopes
    from binaryduo.mismatch.settling import settle_norms
    from binaryduo.mismatch.slopes import STEP
    from binaryduo.training.sources import model_tensors

    if estimator not in (known := ["cdg", "slopes"]):
        raise unknown_name("estimator", estimator, known)
    other = {"cdg": ("--directions", directions), "slopes": ("--coordinates", coordinates)}[estimator]
    if other[1] is not None:
        raise ArgumentError(f"{other[0]} is not for the estimator {estimator}: leave it out")
    if define is not None:
        if not define.is_file():
            raise ArgumentError(
                f"{define} is not a file: give a Python file that calls binaryduo.ste.register"
            )
        runpy.run_path(str(define))
    described = {
        "variant": variant,
        "levels": opt.parse_levels(levels),
        "weight_bits": weight_bits,
        "width": width,
    }
    if name in models.names():
        if data is None:
            raise ArgumentError(f"{name} is a network without data: add --data, e.g. --data cifar10")
        x, y, classes = _images(data, images)
        torch.manual_seed(seed)
        sizes = {"num_classes": classes, "in_channels": x.shape[1], "image_size": x.shape[2]}
        model = sources.network_or_source(name, described | sizes).model
        if weights is None:
            typer.echo(
                "The network is random, because no --weights are given; its batch statistics are taken from the "
                "images."
            )
            settle_norms(model, x)
        else:
            load_weights(model, model_tensors(read_weights(weights)[0]), weights, cast=True)
    else:
        if weights is not None:
            raise ArgumentError(f"{name} has weights of its own: leave out --weights")
        model, x, y = _trained(name, which, described, data, images)
    if x.dim() == 4:  # the faster layout of memory for convolutions on processors
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = x.contiguous(memory_format=torch.channels_last)
    chosen = _step(step)
    found: Sequence[Profile | Slopes]
    draw: Callable[[Path], Path]
    with progress_bar(f"{name}, {len(x)} images") as progress:
        if estimator == "cdg":
            count = 128 if coordinates is None else coordinates
            found = profiles = compare_stes(
                model, F.cross_entropy, x, y, ste or [], chosen, count, seed, progress=progress
            )
            draw = functools.partial(plot_profiles, profiles)
        else:
            count, share = 32 if directions is None else directions, STEP if chosen == "auto" else chosen
            found = several = compare_slopes(
                model, F.cross_entropy, x, y, ste or [], share, count, seed, progress=progress
            )
            draw = functools.partial(plot_slopes, several)
    for profile in found:
        typer.echo(str(profile) + "\n")
    write_numbers(out, [profile.to_dict() for profile in found])
    if plot is not None:
        draw(plot)
        typer.echo(f"picture: {plot}")
    if not ste:
        sources.next_step(f"binaryduo mismatch network {name} … --ste relu1 --ste swishsign")


def _step(text: str) -> "float | Literal['auto']":
    """The step as `profile` takes it."""
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"--step must be a number or auto, not {text!r}") from None


def _images(data: str, count: int) -> "tuple[Tensor, Tensor, int]":
    """The first images of a data set's test part, or of a file: `images` (N, C, H, W) and `labels` (N,);
    and how many classes there are."""
    import numpy as np
    import torch

    if data.endswith(".npz"):
        try:
            with np.load(data, allow_pickle=False) as arrays:
                images, labels = arrays["images"], arrays["labels"]
        except Exception as error:  # a zip file of strangers: whatever its reader trips over
            raise DataError(
                f"{data} has no arrays `images` and `labels` that can be read ({error})"
            ) from None
        square = images.ndim == 4 and images.shape[2] == images.shape[3] and images.dtype.kind in "fiub"
        if not square or labels.shape != images.shape[:1] or labels.dtype.kind not in "iu" or len(labels) < 2:
            raise DataError(
                f"{data} needs numbers (N, C, H, H) as images and N whole numbers as labels, N from 2; it has "
                f"{images.dtype} {images.shape} and {labels.dtype} {labels.shape}"
            )
        if labels.min() < 0:
            raise DataError(f"{data} has labels below 0")
        x, y = torch.from_numpy(images[:count]).float(), torch.from_numpy(labels[:count]).long()
        return x, y, int(labels.max()) + 1
    from binaryduo import data as sets

    found = sets.load(data)
    return *_first(found, count), found.num_classes


def _first(found: "DataSet", count: int) -> "tuple[Tensor, Tensor]":
    """The first test images of a data set and their labels."""
    import torch

    from binaryduo.data import Plan

    xs, ys, have = [], [], 0
    for batch in found.test.batches(Plan(batch=min(count, 500), train=False)):
        xs.append(batch.images)
        ys.append(batch.labels)
        have += len(batch.labels)
        if have >= count:
            break
    return torch.cat(xs)[:count].contiguous(), torch.cat(ys)[:count]


def _trained(
    path: str, which: str, described: dict[str, Any], data: str | None, count: int
) -> "tuple[nn.Module, Tensor, Tensor]":
    """The network at a path, and images for it: of its own data set unless others are named."""
    from binaryduo.training.duo import load_data

    found = sources.network_or_source(path, described, which)
    if data is not None:
        x, y, _ = _images(data, count)
    elif found.data is not None:
        x, y = _first(found.data, count)
    elif found.recipe is not None and found.recipe.data.name != "imagenet":  # known by name, not loaded yet
        x, y = _first(load_data(found.recipe), count)
    else:
        raise ArgumentError(f"{path} does not say where its data are: add --data, e.g. --data cifar10")
    if tuple(x.shape[1:]) != found.shape:
        wanted, got = (" × ".join(str(n) for n in shape) for shape in (found.shape, x.shape[1:]))
        raise ArgumentError(f"the images are {got}, and {found.path} is of a network that takes {wanted}")
    classes = found.options.get("num_classes")
    if classes is not None and int(y.max()) >= classes:
        raise ArgumentError(
            f"there is a label {int(y.max())}, and {found.path} is of a network that tells {classes} classes apart"
        )
    return found.model, x, y
