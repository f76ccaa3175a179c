"""`binaryduo report RUN…`: what happened in one or more runs, as one HTML file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binaryduo.errors import BinaryDuoError
from binaryduo.paper_values import CIFAR10, IMAGENET
from binaryduo.report import figures
from binaryduo.report.checked import Json, mapping, mappings, number
from binaryduo.report.mismatch_over_time import QUANTITIES, heat_map
from binaryduo.report.page import Page
from binaryduo.report.runs import RunView, StageView, read_run

if TYPE_CHECKING:
    from binaryduo.transform.costing import LayerCost

# The paper's accuracies for VGG-7 by what a run calls its stage: 200 epochs, best epoch, best of its grid.
PAPER_VGG7 = {
    "baseline": CIFAR10["baseline"],
    "coupled": CIFAR10["coupled"],
    "fine-tuning": CIFAR10["decoupled"],
    "decoupled": CIFAR10["scratch"],
}
SHAPES = {  # data set: channels, size, classes
    "cifar10": (3, 32, 10),
    "fashion-mnist": (1, 28, 10),
    "fashion-mnist-small": (1, 28, 10),
    "imagenet": (3, 224, 1000),
}


def build(paths: list[Path], costs: bool = True) -> str:
    """The report's HTML. A folder that is missing or half-finished is shown as such."""
    runs = [read_run(path) for path in paths]
    page = Page("binaryduo report", ", ".join(run.name for run in runs))
    page.section("Overview", "overview")
    rows = [row for run in runs for row in _accuracy_rows(run)]
    head = (
        "run",
        "state",
        "network",
        "last (%)",
        "best (%)",
        "best epoch",
        "epochs",
        "paper (%)",
        "images/s",
    )
    page.table(head, rows, "Test accuracy; the paper's is for its full setting")
    page.text(
        "The paper's number is the best epoch of the best of its whole grid, on the test set. Last is the accuracy "
        "after the last epoch, chosen by nobody.",
        "note",
    )
    for place, run in enumerate(runs):
        _run(page, run, f"run{place}", costs)
    return page.render()


def paper_accuracy(run: RunView, stage: StageView) -> float | None:
    """What the paper reports for this network and stage, at its full setting; None where it prints nothing."""
    model = run.section("model")
    network, data = model.get("network"), run.section("data").get("name")
    if data == "imagenet":
        return IMAGENET.get(str(network)) if stage.title == "fine-tuning" else None
    if network != "vgg7" or data != "cifar10" or model.get("topology") == "quad":
        return None
    usual = {"baseline": ("default", 2), "coupled": ("default", 3), "fine-tuning": ("default", 3)}
    if model.get("levels", "default") not in usual.get(stage.title, ("default", 3)):
        return None
    return PAPER_VGG7.get(stage.title)


def _accuracy_rows(run: RunView) -> list[list[object]]:
    """One row a stage; a run without any gets one that says so."""
    if not run.stages:
        return [[run.name, run.state, "", None, None, None, None, None, None]]
    rows: list[list[object]] = []
    for stage in run.stages:
        best, last = stage.best(), stage.last()
        done = stage.epochs[-1]["epoch"] if stage.epochs else 0
        planned = "" if stage.planned is None or done >= stage.planned else f" of {stage.planned}"
        seconds = stage.epochs[-1].get("seconds") if stage.epochs else None
        result = run.summary.get("finetuned" if stage.name == "decoupled" else stage.name, run.summary)
        rate = number(mapping(result).get("images_per_second")) if seconds else None
        rows.append(
            [
                run.name,
                run.state,
                stage.title,
                None if last is None or "test_top1" not in last else float(last["test_top1"]),
                None if best is None else float(best["test_top1"]),
                None if best is None else int(best["epoch"]),
                f"{done}{planned}" if planned else int(done),
                paper_accuracy(run, stage),
                None if rate is None else round(float(rate)),
            ]
        )
    return rows


def _run(page: Page, run: RunView, key: str, costs: bool) -> None:
    """All sections of one run."""
    page.section(run.name, key)
    states = {
        "missing": "There is no such run.",
        "empty": "This folder holds no run.",
        "unfinished": "This run is not finished: what it has measured so far is shown. It continues with --resume.",
    }
    if run.state in states:
        page.text(states[run.state], "problem")
    for problem in run.problems:
        page.text(problem, "problem")
    for quantity in ("top1", "loss"):
        figure = figures.learning_curves(run, quantity)
        if figure is not None:
            kind = "Test and training accuracy" if quantity == "top1" else "Test and training loss"
            two = ", the moment of decoupling marked" if len(run.stages) > 1 else ""
            page.figure(figure, f"{kind} of {run.name} by epoch{two}", log=quantity == "loss")
    if run.decoupled_before is not None:
        changed = run.summary.get("changed_predictions")
        images = run.summary.get("test_images")
        more = (
            f"; {changed} of {images} test predictions changed by decoupling" if changed is not None else ""
        )
        page.text(f"Decoupled, before fine-tuning: {run.decoupled_before:.2f} %{more}.")
    if run.own_class is not None:
        _own(page, run)
    elif costs and run.recipe:
        _costs(page, run)
    if run.mismatch:
        page.section("Gradient mismatch", f"{key}-mismatch", 3)
        page.figure(
            figures.mismatch_bars(run.mismatch), "Cosine between coarse gradient and CDG, layer by layer"
        )
    maps = [(heat_map(run, quantity), title) for quantity, title in QUANTITIES.items()]
    if any(figure is not None for figure, _ in maps):
        page.section("The mismatch over the training", f"{key}-mismatch-over-time", 3)
        for figure, title in maps:
            if figure is not None:
                page.figure(figure, f"{title}, layer by layer over the epochs")
    if run.search is not None:
        _search(page, run.search, key)
    _deployment(page, run, key)
    _record(page, run, key)


def _search(page: Page, search: Json, key: str) -> None:
    page.section("Search", f"{key}-search", 3)
    for name, case in search["cases"].items():
        figure = figures.contour(case)
        if figure is None:
            page.text(f"{name}: no setting is finished yet.", "problem")
            continue
        page.figure(figure, f"{case['title']}: accuracy over weight decay and learning rate")
    rows = [
        [name, s["weight_decay"], s["lr"], s.get("mean"), s.get("std"), s.get("n"), s.get("failed", 0)]
        for name, case in search["cases"].items()
        for s in case["settings"]
    ]
    head = ("case", "weight decay", "learning rate", "mean (%)", "std", "n", "failed")
    page.table(head, rows, "Every setting of the search")


def _costs(page: Page, run: RunView) -> None:
    """Parameters and operations of the network that the recipe describes, layer by layer."""
    try:
        variant, cost = _cost_of(run)
    except (BinaryDuoError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        page.text(f"The cost could not be computed from the recipe: {error}", "problem")
        return
    _cost_table(page, variant, f"{run.name}-cost", cost.layers)


def _own(page: Page, run: RunView) -> None:
    """What the folder says of a user's own model: what was measured, and its own cost."""
    page.text(
        f"This is a model of your own ({run.own_class}), which this report cannot build: it shows what the run has "
        "recorded. In Python, bd.training.load_weights(model, folder) brings its weights back, to evaluate or to pack."
    )
    rows: list[list[object]] = [
        [stage.title, key.removeprefix("test_"), int(line["epoch"]), value]
        for stage in run.stages
        for line in stage.tested()[-1:]
        for key, value in ((key, number(line[key])) for key in line if key.startswith("test_"))
        if value is not None
    ]
    if rows:
        page.table(("network", "measured", "epoch", "value"), rows, "The last test of each stage")
    for stage in run.stages:
        kind, reason = str(stage.model.get("class", "")), stage.model.get("cost_unknown")
        if reason is not None:
            page.text(f"The cost of {kind} ({stage.title}) is not known: {reason}", "problem")
        layers = checked_layers(mapping(stage.model.get("cost")).get("layers"))
        if layers:
            title = kind if kind == stage.title else f"{kind}, {stage.title}"
            _cost_table(page, title, f"{run.name}-{stage.name}-cost", layers)


def _cost_table(page: Page, title: str, key: str, layers: "Sequence[LayerCost]") -> None:
    """Bars and a table of what each layer costs."""
    from binaryduo.transform.costing import Cost

    cost = Cost(tuple(layers))
    page.section(f"Cost per layer ({title})", key, 3)
    operations = [c.macs / 64 if c.binary else float(c.macs) for c in layers]
    page.figure(
        figures.cost_bars([c.name for c in layers], [float(c.param_bits) for c in layers], operations),
        f"Share of each layer: {amount(cost.param_bits, 'bit')}, {amount(cost.ops, ' operations')} per image",
        log=True,
    )
    rows = [
        [c.name, c.kind, c.params, c.param_bits, c.macs, c.binary, round(o)]
        for c, o in zip(layers, operations, strict=True)
    ]
    page.table(
        ("layer", "kind", "parameters", "bits", "MACs", "binary", "operations"), rows, "Cost of every layer"
    )


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


def _cost_of(run: RunView) -> tuple[str, Any]:
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


def _deployment(page: Page, run: RunView, key: str) -> None:
    """Packed files, and tables of measured speed."""
    if run.packed:
        page.section("Packed", f"{key}-packed", 3)
        rows = [[p["file"], p["bytes"], p.get("operations"), p.get("array bytes")] for p in run.packed]
        page.table(("file", "bytes", "operations", "array bytes"), rows, "Packed files of this run")
    for name, rows_ in run.speeds:
        page.section(f"Measured speed: {name}", f"{key}-{name}", 3)
        head = list(
            dict.fromkeys(k for row in rows_ for k, v in row.items() if not isinstance(v, dict | list))
        )
        page.table(head, [[row.get(column) for column in head] for row in rows_], f"As measured: {name}")


def _record(page: Page, run: RunView, key: str) -> None:
    """The recipe and every start's environment."""
    import yaml

    from binaryduo.report.page import escape

    if run.recipe:
        page.section("Recipe", f"{key}-recipe", 3)
        text = yaml.safe_dump(run.recipe, sort_keys=False)
        page.raw(f'<details><summary>Every setting</summary><pre tabindex="0">{escape(text)}</pre></details>')
    if run.starts:
        page.section("Environment", f"{key}-environment", 3)
        names = list(dict.fromkeys(name for start in run.starts for name in start if name != "command"))
        head = ["what", *[f"start {place + 1}" for place in range(len(run.starts))]]
        rows = [[name, *[_plain(start.get(name)) for start in run.starts]] for name in names]
        page.table(head, rows, "Where and with what it ran, one column for each start")


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return value
