"""The loop: it learns, it resumes bit for bit, and it says what went wrong."""

import dataclasses
import json
import os
import signal
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from binaryduo._common.stopping import RunInterrupted
from binaryduo.data import Batch, MemorySplit, Plan
from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.training import Loop, Stage, fit
from binaryduo.training.nonfinite import NonFiniteLoss
from binaryduo.training.runlog import RunFolder, read_metrics
from tests.training import tiny


class StopAt(MemorySplit):
    """Sends this process a signal when a certain batch of a certain epoch is asked for."""

    where: tuple[int, int] = (-1, -1)
    signal: int = signal.SIGTERM

    def to(self, device: torch.device) -> MemorySplit:
        return self

    def batches(self, plan: Plan):  # type: ignore[no-untyped-def]
        for number, batch in enumerate(super().batches(plan), plan.start):
            if (plan.epoch, number) == self.where:
                os.kill(os.getpid(), self.signal)
            yield batch


def stopping_split(epoch: int, step: int) -> StopAt:
    data = StopAt(**{f.name: getattr(tiny.split(), f.name) for f in dataclasses.fields(MemorySplit)})
    data.where = (epoch, step)
    return data


def test_it_learns_and_records(tmp_path: Path) -> None:
    model = tiny.network(dropout=0.0)
    stage = dataclasses.replace(tiny.STAGE, epochs=12, lr=0.03)
    result = fit(model, tiny.split(), tiny.split(40, seed=1), stage, tiny.LOOP, tmp_path)
    assert result.best is not None
    assert result.last is not None
    assert result.best["top1"] > 90
    assert (result.steps, result.epochs) == (60, 12)
    lines = read_metrics(tmp_path)
    steps = [line for line in lines if line["kind"] == "step"]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    assert [line["step"] for line in steps] == list(range(1, 61))
    assert epochs[-1]["test_top1"] == result.last["top1"]
    assert max(line["test_top1"] for line in epochs) == result.best["top1"]
    environment = json.loads((tmp_path / "environment.json").read_text())[0]
    assert environment["torch"] == torch.__version__
    assert (tmp_path / "recipe.yaml").exists()


@pytest.mark.parametrize("where", [(0, 0), (0, 3), (1, 4), (2, 1)])
def test_sigterm_saves_and_resume_is_bit_for_bit(where: tuple[int, int], tmp_path: Path) -> None:
    whole = tiny.network()
    fit(whole, tiny.split(), tiny.split(20, 1), tiny.STAGE, tiny.LOOP, tmp_path / "whole")
    model = tiny.network()
    with pytest.raises(RunInterrupted, match=r"stopped by SIGTERM after step .* continue with --resume"):
        fit(model, stopping_split(*where), tiny.split(20, 1), tiny.STAGE, tiny.LOOP, tmp_path / "part")
    other = tiny.network(seed=5)  # what it is before resuming does not matter
    fit(other, tiny.split(), tiny.split(20, 1), tiny.STAGE, tiny.LOOP, tmp_path / "part", resume=True)
    assert tiny.same(whole, other)
    curves = [
        [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(tmp_path / folder)]
        for folder in ("whole", "part")
    ]
    assert curves[0] == curves[1]
    assert len(json.loads((tmp_path / "part" / "environment.json").read_text())) == 2


def test_a_cut_checkpoint_falls_back_and_ends_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, model = tiny.network(), tiny.network()
    fit(whole, tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path / "whole")
    with pytest.raises(RunInterrupted):
        fit(model, stopping_split(1, 2), None, tiny.STAGE, tiny.LOOP, tmp_path / "part")
    newest = max((tmp_path / "part" / "checkpoints").glob("step-*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1])
    fit(model, tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path / "part", resume=True)
    assert "is truncated" in capsys.readouterr().err
    assert tiny.same(whole, model)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    model = tiny.network()
    first = fit(model, tiny.split(), tiny.split(20, 1), tiny.STAGE, tiny.LOOP, tmp_path)
    again = fit(
        tiny.network(seed=9), tiny.split(), tiny.split(20, 1), tiny.STAGE, tiny.LOOP, tmp_path, resume=True
    )
    assert (again.best, again.last, again.steps) == (first.best, first.last, first.steps)


def test_folders_are_not_shared(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path),
        pytest.raises(ArgumentError, match=f"another run is already using .* .process {os.getpid()}"),
    ):
        fit(tiny.network(), tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path)
    fit(tiny.network(), tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path)
    with pytest.raises(ArgumentError, match="already holds a run"):
        fit(tiny.network(), tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path)
    with pytest.raises(ArgumentError, match="another recipe"):
        fit(tiny.network(), tiny.split(), None, Stage(lr=9.0), tiny.LOOP, tmp_path, resume=True)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    with pytest.raises(ArgumentError, match=r"another recipe \(model\.quantized is"):
        fit(plain, tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path, resume=True)
    fit(plain, tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path / "plain")
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Linear(6, 4))
    with pytest.raises(CheckpointError, match="another network"):
        fit(other, tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path / "plain", resume=True)


def test_a_loss_that_is_no_number_is_traced_to_its_layer(tmp_path: Path) -> None:
    model = tiny.network()
    with torch.no_grad():
        model[9].weight.fill_(1e38)
    with pytest.raises(
        NonFiniteLoss, match=r"at step 0 \(epoch 1, learning rate .* output of layer '9' \(Linear\)"
    ):
        fit(model, tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path / "a")
    model = tiny.network()
    with torch.no_grad():
        model[3].weight[0, 0, 0, 0] = torch.nan
    with pytest.raises(NonFiniteLoss, match=r"'3\.weight' is not finite at step 0"):
        fit(model, tiny.split(), None, tiny.STAGE, tiny.LOOP, tmp_path / "b")


def test_a_users_own_loader_resumes_too(tmp_path: Path) -> None:
    images, labels = next(tiny.split().batches(Plan(44, False)))[:2]

    class Shuffled:
        """A loader that shuffles, and that may fail at a certain batch."""

        def __init__(self, fails_at: int | None = None) -> None:
            self.count, self.fails_at = 0, fails_at
            self.inner = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True)

        def __len__(self) -> int:
            return len(self.inner)

        def __iter__(self):  # type: ignore[no-untyped-def]
            for item in self.inner:
                self.count += 1
                if self.count == self.fails_at:
                    raise KeyError("the disk is gone")
                yield item

    whole, model = tiny.network(), tiny.network()
    stage, loop = tiny.STAGE, dataclasses.replace(tiny.LOOP, checkpoint_steps=4)
    fit(whole, Shuffled(), Shuffled(), stage, loop, tmp_path / "whole")
    with pytest.raises(KeyError):
        fit(model, Shuffled(fails_at=10), Shuffled(), stage, loop, tmp_path / "part")
    model = tiny.network(seed=3)
    fit(model, Shuffled(), Shuffled(), stage, loop, tmp_path / "part", resume=True)
    assert tiny.same(whole, model)


def test_unreadable_images_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Damaged(MemorySplit):
        def to(self, device: torch.device) -> MemorySplit:
            return self

        def batches(self, plan: Plan):  # type: ignore[no-untyped-def]
            for batch in super().batches(plan):
                labels = batch.labels.clone()
                labels[0] = -100
                yield Batch(batch.images, labels, ("lost.jpg",))

    data = Damaged(**{f.name: getattr(tiny.split(), f.name) for f in dataclasses.fields(MemorySplit)})
    result = fit(tiny.network(), data, None, Stage(epochs=1), tiny.LOOP, tmp_path)
    assert result.unreadable == 5
    assert "lost.jpg could not be read and is left out (5 so far)" in capsys.readouterr().err


def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    """A budget is fitted once; a resumed run has the same length whatever the machine does then."""
    stage = dataclasses.replace(tiny.STAGE, minutes=0.01)
    first = fit(tiny.network(), tiny.split(), tiny.split(20, 1), stage, tiny.LOOP, tmp_path)
    state = json.loads(max((tmp_path / "checkpoints").glob("step-*.json")).read_text())["state"]
    assert state["chosen"]["total_steps"] == first.steps
    assert state["chosen"]["measured"]["eager"] > 0
    again = fit(tiny.network(), tiny.split(), tiny.split(20, 1), stage, tiny.LOOP, tmp_path, resume=True)
    assert again.steps == first.steps


def test_too_large_a_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="batch of 64 is larger than the training split of 44 images"):
        fit(tiny.network(), tiny.split(), None, tiny.STAGE, Loop(batch=64), tmp_path)
