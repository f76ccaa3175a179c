"""The training loop: readable in a sitting, resumable at any step, the same on one process or many.

`Trainer` runs one stage: `fit` (own_fit.py) makes one for a user's own model, `train` (duo.py) for a recipe, `duo` two.
"""

import json
import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from binaryduo._common.files import write_synced
from binaryduo._common.progress import say
from binaryduo._common.stopping import RunInterrupted, StopRequest
from binaryduo.data import Batch, LoaderSplit, Plan, Split
from binaryduo.data.order import derived_seed, seed_all
from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.nn import clip_latent_weights, is_binary_weight
from binaryduo.training import checkpoint, nonfinite, schedule, synced_norm
from binaryduo.training.batches import call, moved
from binaryduo.training.counts import Counts
from binaryduo.training.devices import agreed, process_lost
from binaryduo.training.display import Display
from binaryduo.training.engines import prepare
from binaryduo.training.evaluation import a_parameter, as_split, sums_over
from binaryduo.training.identity import Identity, decisive
from binaryduo.training.measured import Measured, measure_open_settings, settled
from binaryduo.training.metrics import Metrics
from binaryduo.training.optimizing import MakeOptimizer, Optimizing
from binaryduo.training.own import describe_model
from binaryduo.training.recipe import Loop, Recipe, Stage
from binaryduo.training.state import RunState
from binaryduo.training.task import Task, examples
from binaryduo.training.watching import OnProfile, Watch

AGREE_EVERY = 8  # steps between questions to the other processes


@dataclass(frozen=True)
class Result:
    """What a finished stage gives: loss, accuracies and metrics of its tests (best and last), and how fast it went.

    `test` are the finished network's on the test images, where the stage was tested on held-out ones.
    """

    best: dict[str, float] | None
    last: dict[str, float] | None
    steps: int
    epochs: float
    seconds: float
    images_per_second: float
    engine: str
    unreadable: int
    test: dict[str, float] | None = None


class Trainer:
    """One stage of a run. A checkpoint in the folder is continued; an empty folder is started.

    `identity` says which run and which stage it is: without one, a `fit` with these settings. With a `task` the
    model is a user's own, and the folder gets a description of it.
    """

    def __init__(
        self,
        model: nn.Module,
        train: Split,
        test: "Split | Iterable[Any] | None",
        stage: Stage,
        loop: Loop,
        folder: Path,
        fabric: Fabric,
        title: str = "training",
        identity: Identity | None = None,
        task: Task | None = None,
        optimizer: MakeOptimizer | None = None,
        scheduler: schedule.Scheduler | None = None,
    ) -> None:
        schedule.check(stage)
        self.describes = task is not None
        self.task = Task(None, None, loop.monitor, loop.direction) if task is None else task
        self.task.check_tested(test is not None)
        a_parameter(model)  # there is something to train
        if identity is None:
            identity = Identity("fit", 0, decisive(Recipe(train=stage, loop=loop), "fit"))
        # Batches and crops are functions of the seed, the epoch and the step: another stage needs another seed,
        # or it would see those of the first again.
        self.seed = loop.seed if identity.stage == 0 else derived_seed(loop.seed, 7, identity.stage)
        self.stage, self.loop, self.folder, self.fabric, self.title = stage, loop, folder, fabric, title
        self.identity = identity
        self.model = model.to(fabric.device)
        if loop.precision == "64":
            self.model = self.model.double()
        if fabric.device.type != "mps" and all(p.dim() < 5 for p in model.parameters()):
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.train = train.to(fabric.device)
        self.test = None if test is None else as_split(test).to(fabric.device)
        self.per_epoch = self.train.steps(self._plan(0, 0))
        if self.per_epoch < 1:
            raise ArgumentError(
                "the training loader has no batch: is it empty, or does drop_last leave nothing of it?"
                if isinstance(train, LoaderSplit)
                else f"a batch of {loop.batch} is larger than the training split of {len(train)} images: lower "
                "loop.batch"
            )
        self.has_binary = any(is_binary_weight(module) for module in self.model.modules())
        self.checkpoints = folder / "checkpoints"
        # What a run moves: set in `run`, and declared here.
        self.state = RunState(epoch_counts=self.task.counts(), window=self.task.counts())
        self.chosen = Measured("eager", 0, 1, {})
        self.forward: Any = self.model  # as the engine computes it, wrapped by Fabric
        self.context: AbstractContextManager[Any] = nullcontext()
        self.optimizing = Optimizing(self.model, stage, optimizer, scheduler)
        self.metrics: Metrics | None = None
        self.watch = Watch(self.model, self.task, loop.profile_every, loop.profile_budget, loop.seed)
        self.on_profile: OnProfile | None = None
        self.on_setup: Callable[[], None] | None = None  # called once it is sure that the run can go on
        self.moments: checkpoint.Moments = {}  # what the optimizer begins with
        self.stop = StopRequest()
        self.display = Display(title, fabric.is_global_zero, self.task.accuracy)
        self.clock = self.saved_at = 0.0

    # -- one run

    def run(self) -> Result:
        """Train to the end, or to the signal that asks to stop."""
        try:
            if self.fabric.world_size > 1 and self.loop.sync_bn:
                synced_norm.synchronise(self.model)
            self._run()
        except RuntimeError as error:
            lost = process_lost(error) if self.fabric.world_size > 1 else None
            if lost is None:
                raise
            raise lost from error
        finally:
            if self.metrics is not None:
                self.metrics.close()
            if self.fabric.world_size > 1:
                synced_norm.restore(self.model)
        return self._result()

    def _run(self) -> None:
        said = say if self.fabric.is_global_zero else lambda text: None
        found = checkpoint.newest(self.checkpoints, said, RunState.of)
        self._setup(found)
        state, total = self.state, self.chosen.total_steps
        if self.fabric.is_global_zero:
            position, digest = state.metrics_position, state.metrics_sha256
            self.metrics = Metrics(self.folder, position, self.loop.tensorboard, state.step, digest)
        self.clock = self.saved_at = time.monotonic()
        if found is None:
            self._save()  # whatever was measured is not measured again
        elif self.metrics is not None:
            self._tidy()  # a kill may have left files that no later save would remove
        with self.stop, self.display:
            self.display.begin(state.step, total)
            try:
                while state.step < total:
                    self._epoch(total)
            except (BinaryDuoError, TypeError, ValueError, RuntimeError):
                if state.step == 0 and found is None and self.metrics is not None:
                    checkpoint.remove_beginning(
                        self.checkpoints
                    )  # a mended call may begin in the same folder
                raise

    def _setup(self, found: checkpoint.Checkpoint | None) -> None:
        """Put model and optimizer on their devices, and into the state of the checkpoint."""
        if found is None:
            self.state.chosen = measure_open_settings(self)
        else:
            self.state = RunState.of(found)
            if self.fabric.is_global_zero:
                same = self._check_identity(found)
                self.state.chosen = settled(self, self.state, same, found.path)
            else:  # the sums are all processes': one of them carries them on
                self.state.epoch_counts, self.state.window = self.task.counts(), self.task.counts()
                self.state.chosen = settled(self, self.state, False, found.path)
        self.chosen = self.state.chosen
        prepared = prepare(self.model, self.chosen.engine)
        self.context = prepared.context
        optimizing = self.optimizing
        self.forward, optimizing.stepping = self.fabric.setup(prepared.forward, optimizing.optimizer)
        if found is None:
            checkpoint.unpack_moments(self.moments, self.model, optimizing.optimizer, self.title, began=False)
        else:
            began = self.state.step > 0 and optimizing.rates is None
            checkpoint.unpack_state(found.tensors, self.model, optimizing.optimizer, str(found.path), began)
            self.watch.restore(found.tensors, self.state.watch)
            self.state.watch = self.watch.settled
            if self.fabric.is_global_zero:
                say(f"{self.title}: continuing after step {self.state.step} of {self.chosen.total_steps}")
        if self.on_setup is not None:
            self.on_setup()

    def _check_identity(self, found: checkpoint.Checkpoint) -> bool:
        """Whether the checkpoint is of this run with these settings; False after a deliberate change of them."""
        if found.covered:
            return self.identity.check(found.run, found.path)
        say(
            f"{found.path} is of an earlier version, whose checksum covers the tensors and not the state: "
            "what it says is checked against the recipe only"
        )
        return True

    def _plan(self, epoch: int, start: int) -> Plan:
        fabric, loop = self.fabric, self.loop
        return Plan(loop.batch, True, self.seed, epoch, start, fabric.global_rank, fabric.world_size)

    def _epoch(self, total: int) -> None:
        """The rest of an epoch, from wherever the run is."""
        state = self.state
        epoch, start = divmod(state.step, self.per_epoch)
        self.model.train()
        for batch in self.train.batches(self._plan(epoch, start)):
            if self.describes:
                self._describe(batch)
            self._step(batch, epoch, total)
            if self.watch.due(state.step) and self.fabric.is_global_zero:
                self._watch(batch)
            ended = state.step % self.per_epoch == 0 or state.step == total
            if ended:
                self._end_epoch(epoch, final=state.step == total)
            self._save_if_due(ended)
            if state.step == total:
                return

    def _step(self, batch: Batch, epoch: int, total: int) -> None:
        """One optimizer step."""
        state, stage = self.state, self.stage
        seed_all(self.seed, 5, state.step, self.fabric.global_rank)
        lr = self.optimizing.set_rates(state.step, total, epoch)
        like = next(self.model.parameters())
        inputs, target = moved(batch.images, like), moved(batch.labels, like, images=False)
        images_now = examples(target, inputs) * self.fabric.world_size
        with self.context:
            output = call(self.forward, inputs)
            target = self.task.targets(output, target)
            if batch.unreadable and (self.task.loss is not None or self.task.functions):
                output, target = self.task.readable(output, target)
            loss = self.task.training_loss(output, target, stage.label_smoothing)
            self.fabric.backward(loss)
        value = loss.item()
        if not math.isfinite(value):
            raise nonfinite.report(value, state.step, epoch, lr, self.model, inputs)
        self.optimizing.step()
        if self.has_binary:
            clip_latent_weights(self.model)
        state.step += 1
        state.images += images_now
        self.task.count((state.epoch_counts, state.window), output, target, value)
        for name in batch.unreadable:
            state.unreadable += 1
            say(f"the image {name} could not be read and is left out ({state.unreadable} so far)")
        self._log_step(lr, images_now)

    # -- records

    def _describe(self, batch: Batch) -> None:
        """Write model.json from the first batch, once in the life of a folder."""
        self.describes = False
        path = self.folder / "model.json"
        if self.fabric.is_global_zero and (self.state.step == 0 or not path.exists()):
            content = describe_model(self.model, moved(batch.images, a_parameter(self.model)))
            write_synced(path, (json.dumps(content, indent=1) + "\n").encode())

    def _watch(self, batch: Batch) -> None:
        """Measure the mismatch between two steps; its time does not count as training time."""
        like, state = a_parameter(self.model), self.state
        inputs, target = moved(batch.images, like), moved(batch.labels, like, images=False)
        line = self.watch.look(state.step, inputs, target, state.seconds)
        state.watch = self.watch.settled
        if line is not None:
            line["epoch"] = state.step / self.per_epoch
            self._write(line)
            if self.on_profile is not None:
                self.on_profile(line)
        self.clock = time.monotonic()

    def _log_step(self, lr: float, images: int) -> None:
        state = self.state
        now = time.monotonic()
        self.display.step(state, images, now - self.clock)
        state.seconds += now - self.clock
        self.clock = now
        if state.step % self.loop.log_steps == 0:
            window, state.window = state.window.reduced(), self.task.counts()
            line = {"kind": "step", "step": state.step, "loss": window.means()["loss"], "lr": lr}
            self._write({**line, "seconds": state.seconds})

    def _end_epoch(self, epoch: int, final: bool) -> None:
        """Test if it is time, note the epoch's means, and keep the best network."""
        state = self.state
        train, state.epoch_counts = state.epoch_counts.reduced(), self.task.counts()
        line: dict[str, Any] = {"kind": "epoch", "step": state.step, "epoch": epoch + 1}
        line |= {f"train_{name}": value for name, value in train.means().items()}
        line |= {"seconds": state.seconds, "unreadable": state.unreadable}
        if self.test is not None and (final or (epoch + 1) % self.chosen.test_every == 0):
            found = self.evaluate().means()
            self.clock = time.monotonic()  # testing does not count as training time
            line |= {f"test_{name}": value for name, value in found.items()}
            state.last = {"epoch": epoch + 1, "step": state.step, **found}
            if self.task.better(found, state.best):
                state.best = state.last
                if self.fabric.is_global_zero:
                    name = f"best-{state.step:09d}"
                    checkpoint.write(
                        self.checkpoints,
                        name,
                        checkpoint.pack_state(self.model),
                        state.best,
                        self.identity.record(),
                    )
        self._write(line)
        self.display.epoch(line)
        self.after_epoch(epoch + 1, final)

    def after_epoch(self, epoch: int, final: bool) -> None:
        """Called after each epoch and its test. For subclasses: look at `state`, set `stop.asked` to stop."""

    def evaluate(self) -> Counts:
        """Loss, accuracies and metrics on the test split."""
        assert self.test is not None
        rank, world = self.fabric.global_rank, self.fabric.world_size
        return sums_over(self.model, self.test, self.task, self.loop.test_batch, rank, world)

    def _write(self, line: dict[str, Any]) -> None:
        if self.metrics is not None:
            self.metrics.write(line)

    # -- checkpoints

    def _save_if_due(self, ended: bool) -> None:
        """Save at the end of an epoch, after some minutes or steps, and when asked to stop."""
        state, loop = self.state, self.loop
        often = loop.checkpoint_steps is not None and state.step % loop.checkpoint_steps == 0
        if self.fabric.world_size > 1 and not (ended or often) and state.step % AGREE_EVERY:
            return
        late = time.monotonic() - self.saved_at > 60 * loop.checkpoint_minutes
        stopping = agreed(self.fabric, self.stop.asked is not None)
        if stopping or agreed(self.fabric, ended or late or often):
            self._save()
        if stopping and state.step < self.chosen.total_steps:
            raise RunInterrupted(
                f"stopped by {self.stop.asked or 'another process'} after step {state.step} of "
                f"{self.chosen.total_steps}; everything is saved, continue with --resume"
            )

    def _save(self) -> None:
        state = self.state
        nonfinite.check(self.model, state.step, self.optimizing.stepping.param_groups[0]["lr"])
        self.saved_at = time.monotonic()
        content = asdict(state)
        for name in ("epoch_counts", "window"):
            content[name] = asdict(getattr(state, name).reduced())
        if self.metrics is not None:
            content["metrics_position"], content["metrics_sha256"] = self.metrics.synced()
            tensors = checkpoint.pack_state(self.model, self.optimizing.optimizer) | self.watch.tensors()
            checkpoint.save_step(self.checkpoints, state.step, tensors, content, self.identity.record())
            self._tidy()
        self.clock = time.monotonic()

    def _tidy(self) -> None:
        best = self.state.best
        checkpoint.tidy(self.checkpoints, self.state.step, None if best is None else int(best["step"]))

    def _result(self) -> Result:
        state = self.state
        return Result(
            state.best,
            state.last,
            state.step,
            state.step / self.per_epoch,
            state.seconds,
            state.images / max(state.seconds, 1e-9),
            self.chosen.engine,
            state.unreadable,
        )
