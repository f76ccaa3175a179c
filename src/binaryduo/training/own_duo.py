"""Both stages for a user's own baseline: couple, train, decouple, fine-tune, in one folder."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from lightning_fabric import Fabric
from torch import nn

from binaryduo._common.progress import say
from binaryduo.data import Plan, Split
from binaryduo.data.order import seed_all
from binaryduo.errors import ArgumentError
from binaryduo.nn.intervals import Interval
from binaryduo.training import checkpoint, schedule
from binaryduo.training.batches import mapped, moved
from binaryduo.training.devices import make_fabric
from binaryduo.training.duo import EXAMPLES, DuoResult, predictions
from binaryduo.training.evaluation import a_parameter, as_split, sums_over
from binaryduo.training.identity import Identity
from binaryduo.training.loop import Trainer
from binaryduo.training.optimizing import MakeOptimizer, at_half_rate
from binaryduo.training.own import own_recipe, own_settings
from binaryduo.training.recipe import Loop, Stage, one_anneal
from binaryduo.training.runlog import RunFolder
from binaryduo.training.schedule import Scheduler
from binaryduo.training.task import Loss, Metrics, Task
from binaryduo.training.watching import OnProfile, in_stage, mark_decoupling
from binaryduo.transform.carrying import Topology
from binaryduo.transform.coupling import couple
from binaryduo.transform.decoupling import decouple


def duo_of_model(
    model: nn.Module,
    train: "Split | Iterable[Any]",
    test: "Split | Iterable[Any] | None" = None,
    stage: Stage | None = None,
    finetune: Stage | None = None,
    loop: Loop | None = None,
    folder: "str | Path" = "runs/latest",
    resume: bool = False,
    levels: int = 3,
    topology: Topology = "duo",
    interval: Interval | None = None,
    loss: Loss | None = None,
    metrics: Metrics | None = None,
    optimizer: MakeOptimizer | None = None,
    fabric: Fabric | None = None,
    scheduler: Scheduler | None = None,
    widths: "Mapping[str, int] | Literal['fill'] | None" = None,
    on_profile: OnProfile | None = None,
) -> tuple[nn.Module, DuoResult]:
    """Couple a binary baseline, train it, decouple it and fine-tune the binary network; the baseline is unchanged.

    Returns the binary network and the results along the way. `stage` and `finetune` are the two trainings. Without
    `finetune` both are as long as `stage` says, the rate falls once over both (`training.one_anneal`), and the second
    has half of it, because decoupling halves the weights: that worked best on CIFAR-10 (`binaryduo reproduce
    coupling-choices`). Of an `optimizer` of your own the rates are halved. `interval` lets the coupled network learn
    its thresholds and `widths` chooses how wide it is, as for `couple`; everything else is as for `fit`. `on_profile`
    is called with the lines of both stages, which also say the `stage` ("coupled" or "decoupled") and `total_epoch`,
    counted from the beginning of the first; between them it is called once with a line of kind "decoupling", which has
    what the test measured then.
    """
    stage, loop = Stage() if stage is None else stage, Loop() if loop is None else loop
    finetuning = optimizer
    if finetune is None:
        stage, finetune = one_anneal(stage, replace(stage, lr=stage.lr / 2))
        finetuning = None if optimizer is None else at_half_rate(optimizer)
    schedule.check(stage, "stage")
    schedule.check(finetune, "finetune")  # now: it begins when the first has ended
    task = Task(loss, metrics, loop.monitor, loop.direction)
    images, tests = as_split(train), None if test is None else as_split(test)
    if loop.decouple_from == "best" and tests is None:
        raise ArgumentError("loop.decouple_from is best, and without a test split no network is the best")
    stages = {"train": stage, "finetune": finetune}
    recipe = own_recipe("duo", model, task, optimizer, stages, loop, images, tests, scheduler)
    if finetuning is not optimizer:
        recipe["task"]["finetune_rate"] = 0.5
    recipe["model"] |= {"levels": levels, "topology": topology}
    if interval is not None:
        recipe["model"]["interval"] = interval
    if widths is not None:
        recipe["model"]["widths"] = dict(widths) if isinstance(widths, Mapping) else widths
    fabric = make_fabric(loop) if fabric is None else fabric
    with RunFolder(folder, resume, writes=fabric.is_global_zero, verb="duo") as run:
        run.describe_own(recipe, loop.seed)
        settings = own_settings(recipe)
        example = _example(model, images, loop)
        seed_all(loop.seed, 6)
        coupled = couple(model, example, levels, topology, widths=widths, interval=interval)
        first = Trainer(
            coupled, images, tests, stage, loop, run.path / "coupled", fabric, "coupled",
            Identity("duo", 0, settings), task, optimizer, scheduler,
        )  # fmt: skip
        first.on_profile = in_stage(on_profile, "coupled")
        result = first.run()
        if loop.decouple_from == "best":
            kept = checkpoint.best(run.path / "coupled" / "checkpoints")
            checkpoint.unpack_state(kept.tensors, coupled, None, str(kept.path))
        binary = decouple(
            coupled.eval(), _example(coupled, images if tests is None else tests, loop), topology
        )
        binary = binary.to(fabric.device)
        before, changed, count = _compared(coupled, binary, tests, task, loop, fabric)
        mark_decoupling(on_profile, result.epochs, {**before, "changed_predictions": changed})
        second = Trainer(
            binary, images, tests, finetune, loop, run.path / "decoupled", fabric, "fine-tuning",
            Identity("duo", 1, settings), task, finetuning, scheduler,
        )  # fmt: skip
        second.on_profile = in_stage(on_profile, "decoupled", result.epochs)
        flips = asdict(binary.decoupling.comparison)  # type: ignore[union-attr, arg-type]
        found = DuoResult(result, before, changed, count, flips, second.run())
        run.write_json("summary.json", asdict(found))
    return binary, found


def _example(model: nn.Module, split: Split, loop: Loop) -> Any:
    """The inputs of the first batch, at most 256 of them, where the model is."""
    batch = next(split.batches(Plan(min(EXAMPLES, loop.batch), False, loop.seed)), None)
    if batch is None:
        raise ArgumentError("the loader has no batch to take an example from")
    inputs = moved(batch.images, a_parameter(model))
    if isinstance(inputs, dict):
        raise ArgumentError(
            "inputs by name (a dictionary) can be trained with fit, not coupled: give them as a tuple in the order of "
            "forward()'s arguments"
        )
    return mapped(inputs, lambda tensor: tensor[:EXAMPLES])


def _compared(
    coupled: nn.Module, binary: nn.Module, tests: Split | None, task: Task, loop: Loop, fabric: Fabric
) -> tuple[dict[str, float], int | None, int | None]:
    """What the binary network measures before fine-tuning, and how many class predictions rounding has changed."""
    if tests is None:
        return {}, None, None
    sums = sums_over(binary, tests, task, loop.test_batch, fabric.global_rank, fabric.world_size)
    before, changed = sums.means(), None
    if task.accuracy:
        changed = int((predictions(coupled, tests) != predictions(binary, tests)).sum())
    if fabric.is_global_zero:
        measured = ", ".join(f"{name} {value:.4g}" for name, value in before.items())
        more = "" if changed is None else f"; {changed:,} of {sums.images:,} predictions changed"
        comparison = binary.decoupling.comparison  # type: ignore[union-attr]
        say(f"decoupled, before fine-tuning: {measured}{more}; {comparison}")
    return before, changed, sums.images
