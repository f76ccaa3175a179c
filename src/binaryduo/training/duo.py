"""Runs from a recipe: one network (`train`), or the paper's two stages (`duo`).

    coupled/      the coupled network's training
    decoupled/    the fine-tuning of the binary network derived from it
    summary.json  coupled accuracy, decoupled before fine-tuning, and after

Paper: Section 5.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from binaryduo import data as datasets
from binaryduo import models
from binaryduo._common.progress import say
from binaryduo.data import DataSet, Plan, Split
from binaryduo.data.order import seed_all
from binaryduo.errors import ArgumentError
from binaryduo.training import checkpoint, moments, schedule
from binaryduo.training.batches import call, moved
from binaryduo.training.devices import make_fabric
from binaryduo.training.evaluation import evaluate
from binaryduo.training.identity import Identity, decisive
from binaryduo.training.loop import Result, Trainer
from binaryduo.training.recipe import Model, Recipe, Stage, stages_of
from binaryduo.training.runlog import RunFolder
from binaryduo.training.watching import OnProfile, in_stage, mark_decoupling
from binaryduo.transform.decoupling import decouple

EXAMPLES = 256  # test images on which the flips of decoupling are counted


@dataclass(frozen=True)
class DuoResult:
    """The accuracies (percent, on the test split or on the held-out images) along the two stages.

    For a task without classes, no predictions are compared; without a test split, nothing is measured.
    `test` is the finished network's on the test images, where the run was tested on held-out ones before.
    """

    coupled: Result
    decoupled_before: dict[str, float]
    changed_predictions: int | None
    test_images: int | None
    flips: dict[str, Any]
    finetuned: Result
    test: dict[str, float] | None = None


def load_data(recipe: Recipe) -> DataSet:
    """The recipe's data set."""
    wanted = recipe.data
    return datasets.load(
        wanted.name,
        wanted.root,
        pad=wanted.pad,
        flip=wanted.flip,
        image_size=wanted.image_size,
        workers=wanted.workers,
        validation=wanted.validation,
    )


def build_model(recipe: Recipe, data: DataSet, variant: str | None = None) -> nn.Module:
    """The recipe's network for that data, initialised from the recipe's seed."""
    wanted: Model = recipe.model if variant is None else replace(recipe.model, variant=variant)  # type: ignore[arg-type]
    channels, height, _ = data.shape
    seed_all(recipe.loop.seed, 6)
    return models.build(
        wanted.network,
        wanted.variant,
        data.num_classes,
        wanted.levels,
        wanted.ste,
        wanted.weight_bits,  # type: ignore[arg-type]
        wanted.width,
        channels,
        height,
        wanted.topology,
        wanted.start,
        wanted.interval,
    )


def train(recipe: Recipe, folder: "str | Path", resume: bool = False, change: bool = False) -> Result:
    """Train one network by its recipe, in a folder of its own.

    With `resume` the run that the folder holds is continued; with `change` also by a recipe with other settings,
    where a run that is under way can take them.
    """
    schedule.check(recipe.train, "train")
    fabric = make_fabric(recipe.loop)
    with RunFolder(folder, resume, writes=fabric.is_global_zero, verb="train") as run:
        identity = Identity("train", 0, decisive(recipe, "train"), run.describe(recipe, change))
        data = load_data(recipe)
        model = build_model(recipe, data)
        title = recipe.model.variant
        result = _stage(model, data, recipe, recipe.train, run, run.path, fabric, title, identity)
        result = replace(result, test=_test_once(model, data, recipe, fabric))
        run.write_json("summary.json", {"recipe": recipe.name, **asdict(result)})
    return result


def duo_of_recipe(
    recipe: Recipe,
    folder: "str | Path",
    resume: bool = False,
    change: bool = False,
    on_profile: OnProfile | None = None,
) -> DuoResult:
    """Train the coupled network, decouple it, fine-tune the binary one; resumes in whichever stage it was.

    `resume` and `change` are as for `train`, `on_profile` as for a model of your own.
    """
    if recipe.finetune is None:
        raise ArgumentError(
            f"the recipe {recipe.name} has no second stage: set finetune.epochs, finetune.lr …"
        )
    schedule.check_both(recipe.train, recipe.finetune)
    if recipe.model.levels is None:
        raise ArgumentError("a full-precision network (model.levels null) has no activations to decouple")
    if recipe.moments is not None:
        moments.check(recipe)
    fabric = make_fabric(recipe.loop)
    with RunFolder(folder, resume, writes=fabric.is_global_zero, verb="duo") as run:
        earlier = run.describe(recipe, change)
        # Each stage's checkpoints hold the settings of both: an edited recipe.yaml is noticed in either.
        ids = [Identity("duo", stage, decisive(recipe, "duo"), earlier) for stage in (0, 1)]
        data = load_data(recipe)
        coupled = build_model(recipe, data, "coupled")
        if recipe.moments is not None:
            moments.check_network(coupled, torch.zeros(1, *data.shape), recipe.model.topology)
        train, finetune = stages_of(recipe)
        watched = in_stage(on_profile, "coupled")
        begun = run.path / "coupled"
        first = _stage(coupled, data, recipe, train, run, begun, fabric, "coupled", ids[0], watched)
        if recipe.loop.decouple_from == "best":
            kept = checkpoint.best(run.path / "coupled" / "checkpoints")
            checkpoint.unpack_state(kept.tensors, coupled, None, str(kept.path))
        binary, before, changed = _decouple(coupled, data, recipe, fabric)
        flips = asdict(binary.decoupling.comparison)  # type: ignore[union-attr, arg-type]
        mark_decoupling(on_profile, first.epochs, {**before, "changed_predictions": changed})
        watched = in_stage(on_profile, "decoupled", first.epochs)
        start = {} if recipe.moments is None else _moments(coupled, binary, run.path / "coupled")
        second = _stage(
            binary,
            data,
            recipe,
            finetune,
            run,
            run.path / "decoupled",
            fabric,
            "fine-tuning",
            ids[1],
            watched,
            start,
        )
        test = _test_once(binary, data, recipe, fabric)
        result = DuoResult(first, before, changed, len(data.tested), flips, second, test)
        run.write_json("summary.json", {"recipe": recipe.name, **asdict(result)})
    return result


def _stage(
    model: nn.Module,
    data: DataSet,
    recipe: Recipe,
    stage: Stage,
    run: RunFolder,
    folder: Path,
    fabric: Fabric,
    title: str,
    identity: Identity,
    on_profile: OnProfile | None = None,
    start: checkpoint.Moments | None = None,
) -> Result:
    trainer = Trainer(model, data.train, data.tested, stage, recipe.loop, folder, fabric, title, identity)
    trainer.on_profile, trainer.on_setup = on_profile, lambda: run.keep_changes(folder)
    trainer.moments = {} if start is None else start
    return trainer.run()


def _moments(coupled: nn.Module, binary: nn.Module, folder: Path) -> checkpoint.Moments:
    """The moments that the coupled stage ended with, for the binary network."""
    last = checkpoint.newest(folder / "checkpoints", say)
    assert last is not None
    return moments.carried(checkpoint.moments_of(last.tensors), coupled, binary)


def _test_once(model: nn.Module, data: DataSet, recipe: Recipe, fabric: Fabric) -> dict[str, float] | None:
    """The finished network on the test images, where they were not looked at before; else None."""
    if data.validation is None:
        return None
    return evaluate(
        model, data.test.to(fabric.device), recipe.loop.test_batch, fabric.global_rank, fabric.world_size
    ).means()


def _decouple(
    coupled: nn.Module, data: DataSet, recipe: Recipe, fabric: Fabric
) -> tuple[nn.Module, dict[str, float], int]:
    """The binary network, its accuracy before fine-tuning, and how many predictions rounding has changed."""
    like = next(coupled.parameters())
    tested = data.tested
    example = next(tested.batches(Plan(min(EXAMPLES, len(tested)), False))).images.to(like.device, like.dtype)
    binary = decouple(coupled.eval(), example, recipe.model.topology)
    changed = int((predictions(coupled, tested) != predictions(binary, tested)).sum())
    before = evaluate(binary.to(fabric.device), tested, recipe.loop.test_batch).means()
    if fabric.is_global_zero:
        say(
            f"decoupled: {before['top1']:.2f} % before fine-tuning; {changed:,} of {len(tested):,} predictions "
            f"changed. On {len(example):,} of these images {binary.decoupling.comparison}"  # type: ignore[union-attr]
        )
    return binary, before, changed


@torch.no_grad()
def predictions(model: nn.Module, split: Split, batch: int = 500) -> Tensor:
    """The predicted class of every image of a split, in its order. Shape (N,)."""
    like = next(model.parameters())
    model.eval()
    parts = [call(model, moved(b.images, like)).argmax(1).cpu() for b in split.batches(Plan(batch, False))]
    return torch.cat(parts)
