"""What the experiments that train networks share: a unit of work is a training, a row is one of its networks.

A unit names its recipe's settings. Its run folder is named after them below the workspace's `runs`, so that an
interrupted run continues where it was, and a training that two figures need is done once.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from binaryduo import training
from binaryduo._common.progress import say
from binaryduo.data import DataSet, Plan
from binaryduo.errors import CheckpointError
from binaryduo.paper.experiment import Row, Unit, Workspace
from binaryduo.paper.rates import BEST, FINETUNE
from binaryduo.training import Loop, Recipe, Stage, runlog
from binaryduo.training.devices import avoid_undescribed_tiles
from binaryduo.training.duo import build_model, load_data
from binaryduo.training.engines import prepare, seconds_per_step

HOURS = "half-width"  # the recipe of that profile
LABELS = {None: "full precision", 16: "4 bits", 8: "3 bits", 4: "2 bits", 3: "ternary", 2: "1 bit"}

# Declared before running. `paper` is the paper's schedule, `hours` half of the width and 12 epochs in total, both with
# the rates that `coupling_choices` found (the paper prints none; that of binary networks is tuned, that of more levels
# is not, so that no claim that more levels are better is helped by it); `cpu` is a quarter of the width and a one-cycle
# schedule; `smoke` only shows that everything works.
STAGES = {
    "smoke": ("mlp", "fashion-mnist-small", 0.05, 1000, Stage(1, lr=1e-2), Stage(1, lr=1e-3)),
    "cpu": (
        "vgg7",
        "cifar10",
        0.25,
        256,
        Stage(3, lr=1e-2, weight_decay=1e-2, schedule="onecycle", warmup=0.2),
        Stage(2, lr=1e-3, weight_decay=1e-2, schedule="onecycle", warmup=0.2),
    ),
    "hours": (
        "vgg7",
        "cifar10",
        0.5,
        256,
        Stage(6, lr=BEST["duo"], weight_decay=1e-2, schedule="onecycle", warmup=0.2),
        Stage(6, lr=FINETUNE, weight_decay=1e-2, schedule="onecycle", warmup=0.2),
    ),
    # of Appendix G: see there
    "intervals": (
        "mlp",
        "fashion-mnist-small",
        0.25,
        250,
        Stage(10, lr=1e-2, weight_decay=1e-2, schedule="onecycle", warmup=0.2),
        Stage(10, lr=3e-3, weight_decay=1e-2, schedule="onecycle", warmup=0.2),
    ),
}
TUNED = ("hours", "paper")
SEEDS = (0, 1)


def seeds(profile: str) -> tuple[int, ...]:
    """The seeds of a profile: three where a verdict is wanted of networks that are not too small."""
    return (*SEEDS, 2) if profile == "hours" else SEEDS


def base(profile: str) -> Recipe:
    """The recipe of a profile, both stages."""
    if profile == "paper":
        return training.named("vgg7-cifar10")
    network, data, width, batch, first, second = STAGES[profile]
    loops = {
        "smoke": Loop(batch=batch, engine="eager", tensorboard=False),
        "hours": Loop(batch=batch, engine="fast", precision="bf16", test_every=2, tensorboard=False),
    }
    return Recipe(
        name=HOURS if profile == "hours" else f"reproduce-{profile}",
        data=training.Data(name=data),
        model=training.Model(network=network, width=width),
        train=first,
        finetune=second,
        anneals=1 if profile == "hours" else 2,
        loop=loops.get(profile, Loop(batch=batch)),
    )


def unit(profile: str, seed: int, stages: int = 1, widen: float = 1.0, longer: int = 0, **model: Any) -> Unit:
    """One training: `stages` 1 for a single network, 2 for coupled, decoupled and fine-tuned.

    `widen` multiplies the profile's width; `longer` adds epochs, so that one stage can be as long as two, as all are in
    the profile "hours".
    """
    recipe = base(profile)
    if profile == "hours" and stages == 1:
        longer = as_long_as_two(profile)
    if profile == "paper" and stages == 2:  # named, so that results with other rates are told from these
        model = {"lr": BEST["duo"], "finetune_lr": FINETUNE, **model}
    if profile in TUNED and stages == 1:
        several = "duo" if model.get("levels", 2) != 2 else "baseline"
        model = {"lr": BEST["scratch" if model.get("variant") == "decoupled" else several], **model}
    chosen = {"levels": 2, "ste": "relu1", "variant": "baseline", "topology": "duo", **model}
    return {
        "stages": stages,
        "seed": seed,
        "network": recipe.model.network,
        "data": recipe.data.name,
        "width": recipe.model.width * widen,
        "epochs": recipe.train.epochs + longer,
        "finetune": 0 if stages == 1 or recipe.finetune is None else recipe.finetune.epochs,
        "recipe": recipe.name,
        **chosen,
    }


def recipe_named(name: str) -> Recipe:
    """The recipe that a unit or a row names: a reduced one of ours, or one of the paper's."""
    reduced = "hours" if name == HOURS else name.removeprefix("reproduce-")
    return base(reduced) if reduced in STAGES else training.named(name)


def recipe_of(work: Unit, root: Path | None = None) -> Recipe:
    """The complete recipe of a unit."""
    recipe = recipe_named(work["recipe"])
    model = replace(
        recipe.model,
        **{key: work[key] for key in ("network", "variant", "levels", "ste", "width", "topology")},
        interval=work.get("interval"),
    )
    first = replace(recipe.train, epochs=work["epochs"], lr=work.get("lr", recipe.train.lr))
    second = recipe.finetune
    if second is not None and work["finetune"]:
        second = replace(second, epochs=work["finetune"], lr=work.get("finetune_lr", second.lr))
    data = replace(recipe.data, root=None if root is None else str(root))
    data = replace(data, **{key: work[key] for key in ("image_size", "workers") if key in work})
    loop = replace(recipe.loop, seed=work["seed"])
    if "batch" in work:
        loop = replace(loop, batch=work["batch"], test_batch=work["batch"])
    return replace(recipe, model=model, train=first, finetune=second, data=data, loop=loop)


def folder_of(work: Unit, runs: Path) -> Path:
    """Where the run of a unit is kept: a name for people, and the digest of all its settings."""
    digest = hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()[:10]
    levels = "full" if work["levels"] is None else work["levels"]
    name = f"{work['network']}-{work['variant']}-{levels}-{work['ste']}-seed{work['seed']}-{digest}"
    return runs / name


def title_of(work: Unit) -> str:
    """What a unit trains, in words: the lines of its epochs stand below.

    >>> title_of(unit("smoke", 1, levels=4))
    'mlp, baseline with 2 bits, relu1, width 0.05, seed 1'
    """
    precision = LABELS.get(work["levels"], f"{work['levels']} levels")
    return (
        f"{work['network']}, {work['variant']} with {precision}, {work['ste']}, width {work['width']:g}, "
        f"seed {work['seed']}"
    )


def measure(work: Unit, place: Workspace) -> list[Row]:
    """Train what the unit names, or go on with it; a finished run is only read."""
    folder, recipe = folder_of(work, place.runs), recipe_of(work, place.root)
    if not (folder / "summary.json").exists():
        started = (folder / "recipe.yaml").exists()
        say(f"{title_of(work)}:")
        if work["stages"] == 1:
            training.train(recipe, folder, resume=started)
        else:
            training.duo(recipe, folder, resume=started)
    return rows_of(work, folder)


def rows_of(work: Unit, folder: Path) -> list[Row]:
    """One row a network: its accuracies, how long it took, and its learning curve."""
    try:
        return _rows(work, folder, runlog.read_summary(folder))
    except (KeyError, TypeError, IndexError) as problem:
        raise CheckpointError(
            f"the records of the run {folder} are not whole ({type(problem).__name__}: {problem}): move the folder "
            "away, and the same command trains it again"
        ) from problem


def _rows(work: Unit, folder: Path, summary: dict[str, Any]) -> list[Row]:
    keys = ("network", "data", "width", "levels", "ste", "variant", "topology", "seed", "recipe")
    common = {key: work[key] for key in (*keys, "interval") if key in work}
    if work["stages"] == 1:
        return [{**common, "stage": "single", **_result(summary, folder)}]
    before = summary["decoupled_before"]["top1"]
    first = {**common, "stage": "coupled", **_result(summary["coupled"], folder / "coupled")}
    second = {**common, "stage": "decoupled", **_result(summary["finetuned"], folder / "decoupled")}
    return [first, {**second, "levels": 2, "coupled_levels": work["levels"], "before": before}]


def _result(result: dict[str, Any], folder: Path) -> dict[str, Any]:
    curve = [
        [line["epoch"], round(line["train_top1"], 2), round(line["test_top1"], 2)]
        for line in runlog.read_metrics(folder)
        if line["kind"] == "epoch" and "test_top1" in line
    ]
    return {
        "best": result["best"]["top1"],
        "last": result["last"]["top1"],
        "epochs": result["epochs"],
        "seconds": result["seconds"],
        "images_per_second": result["images_per_second"],
        "curve": curve,
    }


def estimate(works: Sequence[Unit], place: Workspace) -> list[float]:
    """Seconds that each unit will take here, from three training steps of each kind of network, measured now."""
    out: list[float] = []
    per_step: dict[tuple[Any, ...], float] = {}
    for work in works:
        if (folder_of(work, place.runs) / "summary.json").exists():
            out.append(0.0)
            continue
        recipe = recipe_of(work, place.root)
        data = load_data(recipe)
        plan = Plan(recipe.loop.batch, True)
        kind = tuple(work[key] for key in ("network", "variant", "levels", "width", "data"))
        if kind not in per_step:
            per_step[kind] = seconds_a_step(recipe, data)
        testing = len(data.test) / max(1, 3 * recipe.loop.batch)  # a forward pass is about a third of a step
        steps = (work["epochs"] + work["finetune"]) * (data.train.steps(plan) + testing)
        out.append(per_step[kind] * steps)
    return out


def seconds_a_step(recipe: Recipe, data: DataSet) -> float:
    """The median of three training steps of a recipe's network as its loop would compute them, measured now."""
    model = build_model(recipe, data, "coupled" if recipe.model.variant == "coupled" else "baseline").train()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images, labels, _ = next(iter(data.train.batches(Plan(recipe.loop.batch, True))))
    half = torch.autocast("cpu", torch.bfloat16, enabled=recipe.loop.precision == "bf16")
    avoid_undescribed_tiles()

    def step(forward: Callable[[torch.Tensor], torch.Tensor]) -> None:
        with half:
            loss = torch.nn.functional.cross_entropy(forward(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]

    return seconds_per_step(prepare(model, "eager" if recipe.loop.engine == "eager" else "fast"), step)


def as_long_as_two(profile: str) -> int:
    """Epochs to add to a single stage, so that it is trained as long as two; none in the paper's setting."""
    second = base(profile).finetune
    return 0 if profile == "paper" or second is None else second.epochs
