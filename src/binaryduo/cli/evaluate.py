"""`binaryduo evaluate`: test a trained network."""

from typing import TYPE_CHECKING

from binaryduo.cli import options as o
from binaryduo.cli import sources
from binaryduo.errors import ArgumentError

if TYPE_CHECKING:
    from binaryduo.data import DataSet
    from binaryduo.training.sources import Source


def evaluate(
    source: sources.SourcePath,
    which: sources.Which = "last",
    data: o.DataName = None,
    root: o.DataRoot = None,
) -> None:
    """Load a trained network and measure loss, top-1 and top-5 on the test images.

    A run is tested on its own data set unless --data names another one of the same shape. A file of weights that does
    not say which one it is for needs --data; what `binaryduo decouple` writes says it.

    Example: `binaryduo evaluate runs/demo-duo --which best`, or `binaryduo evaluate vgg7-cifar10-duo-w1`
    """
    from dataclasses import replace

    from binaryduo.training.duo import load_data
    from binaryduo.training.evaluation import evaluate as measure
    from binaryduo.training.recipe import Data, Recipe
    from binaryduo.training.sources import open_source

    found = open_source(source, which)
    recipe = Recipe() if found.recipe is None else found.recipe
    tested = found.data
    if tested is None and found.recipe is not None and data is None and root is None:
        tested = load_data(recipe)
    elif data is not None or root is not None:
        base = Data() if found.recipe is None else recipe.data
        name = base.name if data is None else data
        place = base.root if root is None else str(root)
        tested = load_data(replace(recipe, data=replace(base, name=name, root=place)))
    if tested is None:
        raise ArgumentError(f"{source} does not say which data it is for: add --data, e.g. --data cifar10")
    _check(found, tested)
    counts = measure(found.model, tested.test, recipe.loop.test_batch)
    means = counts.means()
    print(
        f"{found.title}: top-1 {means['top1']:.2f} %, top-5 {means['top5']:.2f} %, loss {means['loss']:.4f} on "
        f"the {counts.images:,} test images of {tested.name} ({found.path})"
    )
    if found.options["variant"] == "coupled":
        sources.next_step(f"binaryduo decouple {source} binary.safetensors")
    else:
        sources.next_step(f"binaryduo pack {source} net.duo")


def _check(found: "Source", data: "DataSet") -> None:
    """Refuse images of another shape, and another number of classes, before the network sees them."""
    classes = found.options.get("num_classes")
    if found.shape != data.shape:
        wanted, got = (" × ".join(str(n) for n in shape) for shape in (found.shape, data.shape))
        raise ArgumentError(
            f"the images of {data.name} are {got}, and {found.path} is of a network that takes {wanted}: choose a "
            "data set of that shape with --data"
        )
    if classes is not None and classes != data.num_classes:
        raise ArgumentError(
            f"{data.name} has {data.num_classes} classes, and {found.path} is of a network that tells {classes} "
            "apart: choose a data set with as many classes with --data"
        )
