"""What the layers of a run's network cost: from its recipe, or from what the run of a user's own model recorded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from binaryduo.errors import BinaryDuoError
from binaryduo.report import figures
from binaryduo.report.checked import mapping, mappings, number
from binaryduo.report.page import Page
from binaryduo.report.runs import RunView

if TYPE_CHECKING:
    from binaryduo.transform.costing import LayerCost

SHAPES = {  # data set: channels, size, classes
    "cifar10": (3, 32, 10),
    "fashion-mnist": (1, 28, 10),
    "fashion-mnist-small": (1, 28, 10),
    "imagenet": (3, 224, 1000),
}


def from_recipe(page: Page, run: RunView, key: str, level: int) -> None:
    """Parameters and operations of the network that the recipe describes, layer by layer."""
    try:
        variant, cost = cost_of(run)
    except (BinaryDuoError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        page.text(f"The cost could not be computed from the recipe: {error}", "problem")
        return
    _section(page, variant, f"{key}-cost", cost.layers, level)


def recorded(page: Page, run: RunView, key: str, level: int) -> None:
    """What the folder says of a user's own model."""
    for stage in run.stages:
        kind, reason = str(stage.model.get("class", "")), stage.model.get("cost_unknown")
        if reason is not None:
            page.text(f"The cost of {kind} ({stage.title}) is not known: {reason}", "problem")
        layers = checked_layers(mapping(stage.model.get("cost")).get("layers"))
        if layers:
            title = kind if kind == stage.title else f"{kind}, {stage.title}"
            _section(page, title, f"{key}-{stage.name}-cost", layers, level)


def _section(page: Page, title: str, key: str, layers: "Sequence[LayerCost]", level: int) -> None:
    """Bars and a table of what each layer costs."""
    from binaryduo.transform.costing import Cost

    cost = Cost(tuple(layers))
    page.section(f"Cost ({title})", key, level)
    operations = [c.macs / 64 if c.binary else float(c.macs) for c in layers]
    page.figure(
        figures.cost_bars([c.name for c in layers], [float(c.param_bits) for c in layers], operations),
        f"The share of each layer in {amount(cost.param_bits, 'bit')} of parameters and "
        f"{amount(cost.ops, ' operations')} per image.",
        log=True,
    )
    rows = [
        [c.name, c.kind, c.params, c.param_bits, c.macs, c.binary, round(o)]
        for c, o in zip(layers, operations, strict=True)
    ]
    page.raw("<details><summary>Every layer</summary>")
    page.table(
        ("layer", "kind", "parameters", "bits", "MACs", "binary", "operations"), rows, "Cost of every layer"
    )
    page.raw("</details>")


def checked_layers(found: object) -> "list[LayerCost]":
    """The layers of a model.json that are whole.

    >>> row = {"name": "a", "kind": "Linear", "params": 2, "param_bits": 64, "macs": 2, "binary": False}
    >>> [layer.name for layer in checked_layers([row, {**row, "macs": None}, 3])]
    ['a']
    """
    from binaryduo.transform.costing import LayerCost

    return [
        LayerCost(
            str(row.get("name")),
            str(row.get("kind")),
            int(row["params"]),
            int(row["param_bits"]),
            int(row["macs"]),
            row.get("binary") is True,
        )
        for row in mappings(found)
        if all(number(row.get(key)) is not None for key in ("params", "param_bits", "macs"))
    ]


def amount(value: float, unit: str) -> str:
    """A count as a person reads it.

    >>> amount(2_310_000, "bit"), amount(4_200, " operations")
    ('2.31 Mbit', '4.2 k operations')
    """
    factor, prefix = (1e6, "M") if value >= 1e5 else (1e3, "k")
    digits = 2 if prefix == "M" else 1
    return f"{value / factor:.{digits}f} {prefix}{unit}"


def cost_of(run: RunView) -> tuple[str, Any]:
    """The variant that the run ends with, and its cost."""
    import torch

    import binaryduo as bd
    from binaryduo.training.recipe import Recipe, from_dict

    recipe = from_dict(Recipe, run.recipe)
    channels, size, classes = SHAPES[recipe.data.name]
    size = size if recipe.data.image_size is None else recipe.data.image_size
    model = recipe.model
    duo = any(stage.name in ("coupled", "decoupled") for stage in run.stages)
    variant: Any = "decoupled" if duo else model.variant
    if duo and model.topology == "quad":
        variant = "baseline"  # BinaryDuo-Q ends in the baseline's architecture
    levels = 2 if variant == "baseline" and duo else model.levels
    with torch.random.fork_rng(devices=[]):
        network = bd.models.build(
            model.network,
            variant,
            classes,
            levels,
            model.ste,
            model.weight_bits,  # type: ignore[arg-type]
            model.width,
            channels,
            size,
        )
    return variant, bd.cost(network, torch.zeros(1, channels, size, size))
