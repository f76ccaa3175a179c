"""The two stages, from a recipe and from the command line."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from binaryduo.cli.app import app, run
from binaryduo.data import Batch, MemorySplit, Plan
from binaryduo.errors import ArgumentError
from binaryduo.training import Recipe, checkpoint, duo, to_yaml, train, with_settings
from binaryduo.training.evaluation import evaluate
from binaryduo.training.restore import load_run

duo_module = sys.modules["binaryduo.training.duo"]
duo_test_once = duo_module._test_once  # type: ignore[attr-defined]

SETTINGS = [
    "model.network=mlp",
    "model.width=0.3",
    "train.epochs=2",
    "train.lr=0.01",
    "finetune.epochs=1",
    "finetune.lr=0.001",
    "loop.batch=500",
    "loop.tensorboard=false",
    "loop.accelerator=cpu",
    "loop.engine=eager",
]
RECIPE = with_settings(Recipe(name="tiny"), SETTINGS)


@pytest.mark.parametrize(
    "variation",
    [[], ["model.topology=quad"], ["model.levels=4"], ["model.weight_bits=1", "model.ste=swishsign"]],
    ids=lambda v: v[0] if v else "plain",
)
def test_decoupling_keeps_the_accuracy(variation: list[str], tmp_path: Path) -> None:
    result = duo(with_settings(RECIPE, variation), tmp_path)
    assert result.coupled.last is not None
    assert result.coupled.last["top1"] > 50
    # The same function but for counted flips: no more predictions differ than the accuracy moves by.
    moved = abs(result.decoupled_before["top1"] - result.coupled.last["top1"]) / 100 * result.test_images
    assert moved <= result.changed_predictions <= 0.01 * result.test_images
    assert result.flips["farthest"] <= 1
    assert result.finetuned.last is not None
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["finetuned"]["last"] == result.finetuned.last
    model, _, _, path = load_run(tmp_path, "last")
    assert path.parent == tmp_path / "decoupled" / "checkpoints"
    assert not any(getattr(m, "levels", 2) not in (2, None) for m in model.modules())


def test_the_second_stage_sees_other_batches_than_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[bool, list[Plan]] = {False: [], True: []}
    ask = MemorySplit.batches

    def watched(split: MemorySplit, plan: Plan) -> Iterator[Batch]:
        if plan.train:
            seen[(tmp_path / "decoupled").exists()].append(plan)
        return ask(split, plan)

    monkeypatch.setattr(MemorySplit, "batches", watched)
    duo(RECIPE, tmp_path)
    first, second = seen[False][0], seen[True][0]
    assert (first.epoch, second.epoch) == (0, 0)
    assert not torch.equal(first.order(10_000), second.order(10_000))
    assert first.seed == RECIPE.loop.seed  # one stage sees what it always saw


def test_with_held_out_images_the_test_images_are_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = []
    monkeypatch.setattr(duo_module, "_test_once", lambda *a: tests.append(a) or duo_test_once(*a))
    result = duo(with_settings(RECIPE, ["data.validation=0.1"]), tmp_path)
    assert len(tests) == 1
    assert result.test_images == 1000  # everything before was counted on the held-out images
    assert result.test is not None
    model, _, data, _ = load_run(tmp_path, "last")
    assert result.test["top1"] == pytest.approx(evaluate(model, data.test).means()["top1"])
    assert result.finetuned.last is not None
    assert result.finetuned.last["top1"] == pytest.approx(evaluate(model, data.tested).means()["top1"])


def test_a_duo_run_resumes_in_its_second_stage(tmp_path: Path) -> None:
    duo(RECIPE, tmp_path / "whole")
    duo(RECIPE, tmp_path / "part")
    stage = tmp_path / "part" / "decoupled" / "checkpoints"
    for path in stage.glob("*-000000020.*"):  # as if it had been killed before the end of the second stage
        path.unlink()
    duo(RECIPE, tmp_path / "part", resume=True)
    ends = [checkpoint.newest(tmp_path / n / "decoupled" / "checkpoints") for n in ("whole", "part")]
    assert ends[0] is not None
    assert ends[1] is not None
    assert ends[0].path.name == ends[1].path.name == "step-000000020.json"
    assert all(torch.equal(ends[0].tensors[k], ends[1].tensors[k]) for k in ends[0].tensors)


def test_a_recipe_without_a_second_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="tiny has no second stage"):
        duo(with_settings(RECIPE, ["finetune=null"]), tmp_path)


def test_from_scratch_in_the_decoupled_topology(tmp_path: Path) -> None:
    result = train(with_settings(RECIPE, ["model.variant=decoupled"]), tmp_path)
    assert result.last is not None
    assert result.last["top1"] > 50


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, folder, runner = tmp_path / "mine.yaml", tmp_path / "run", CliRunner()
    recipe.write_text(to_yaml(RECIPE))
    arguments = ["train", "--recipe", str(recipe), "--out", str(folder), "--set", "train.epochs=1"]
    done = runner.invoke(app, [*arguments, "--seed", "3", "--show"])
    assert "seed: 3" in done.output
    assert "recipe: " not in done.output
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "best: top-1" in done.output
    tested = runner.invoke(app, ["evaluate", str(folder), "--which", "best"])
    best = json.loads((folder / "summary.json").read_text())["best"]["top1"]
    assert f"top-1 {best:.2f} %" in tested.output
    again = runner.invoke(app, ["train", "--out", str(folder), "--resume"])
    assert again.exit_code == 0
    with pytest.raises(SystemExit):
        run(arguments)
    assert "already holds a run" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(["train", "--out", str(folder), "--resume", "--seed", "9"])
    assert "loop.seed was 0 when the run began" in capsys.readouterr().err.replace("\n", " ")
    with pytest.raises(SystemExit):
        run(["train", "--out", str(tmp_path / "nothing"), "--resume"])
    assert "there is no run to resume" in capsys.readouterr().err
    pair = runner.invoke(
        app, ["duo", "--recipe", str(recipe), "--out", str(tmp_path / "duo"), "--levels", "3"]
    )
    assert pair.exit_code == 0, pair.output
    assert "before fine-tuning" in pair.output
    assert "vgg7-cifar10" in runner.invoke(app, ["duo", "--list"]).output


def test_sigterm_ends_the_command_cleanly(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(to_yaml(with_settings(RECIPE, ["train.epochs=1000"])))
    alarm = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that an early signal cannot end the tests
    alarm.start()
    try:
        done = CliRunner().invoke(app, ["train", "--recipe", str(recipe), "--out", str(tmp_path / "run")])
    finally:
        alarm.join()
        signal.signal(signal.SIGTERM, before)
    assert done.exit_code == 0
    assert "stopped by SIGTERM after step" in done.stderr
    assert list((tmp_path / "run" / "checkpoints").glob("step-*.json"))
