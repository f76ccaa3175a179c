"""The mismatch over a training: it changes nothing, it survives a kill, and its numbers are what they say."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import binaryduo as bd
from binaryduo.data import Batch
from binaryduo.mismatch.over_time import Size, snapshot
from binaryduo.mismatch.support import outside_support
from binaryduo.mismatch.time_plot import cells
from binaryduo.report.mismatch_over_time import QUANTITIES, heat_map
from binaryduo.report.runs import read_run
from binaryduo.training import Loop, Model, Recipe, Stage, duo, fit
from binaryduo.training.loop import Trainer
from binaryduo.training.task import Task
from binaryduo.training.watching import Watch
from tests.training import tiny

LOOP = dataclasses.replace(tiny.LOOP, profile_every=3, profile_budget=1.0, checkpoint_steps=4)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured does not depend on how fast this machine is just now."""
    fixed = {"every": 3, "coordinates": 8, "images": 8, "directions": 6}
    monkeypatch.setattr(Watch, "_settle", lambda self, inputs, target, per_step: fixed)


def lines(folder: Path) -> list[dict[str, Any]]:
    """The lines on the mismatch without the times."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in found:
        line.pop("profile_seconds", None)
    return [line for line in found if line["kind"] == "profile"]


@pytest.mark.usefixtures("settled")
def test_it_changes_nothing_and_counts_the_flips(tmp_path: Path) -> None:
    plain, watched, seen = tiny.network(), tiny.network(), []
    began = {n: p.detach().clone() >= 0 for n, p in watched.named_parameters()}
    fit(plain, tiny.split(), tiny.split(20, 1), tiny.STAGE, tiny.LOOP, tmp_path / "plain")
    fit(
        watched,
        tiny.split(),
        tiny.split(20, 1),
        tiny.STAGE,
        LOOP,
        tmp_path / "watched",
        on_profile=seen.append,
    )
    assert tiny.same(plain, watched)
    found = lines(tmp_path / "watched")
    assert len(found) == len(seen) >= 2
    assert [line["step"] for line in found] == [3, 6, 9, 12, 15]  # the last is of the final weights
    for layer in ("0", "3", "9"):
        assert -1 <= found[-1][f"cosine/{layer}"] <= 1
        assert (
            found[-1][f"slopes_low/{layer}"]
            <= found[-1][f"slopes/{layer}"]
            <= found[-1][f"slopes_high/{layer}"]
        )
        never = torch.ones_like(began[f"{layer}.weight"])
        now = watched.get_parameter(f"{layer}.weight") >= 0
        never &= now == began[f"{layer}.weight"]
        assert found[-1][f"never_flipped/{layer}"] <= float(never.double().mean())
        assert found[0][f"flipped/{layer}"] == pytest.approx(1 - found[0][f"never_flipped/{layer}"])
    assert 0 <= found[-1]["outside/2"] <= 1
    run = read_run(tmp_path / "watched")
    assert run.problems == []  # every line is plain JSON
    for quantity in QUANTITIES:
        figure = heat_map(run, quantity)
        assert figure is not None
        assert len(figure["data"][0]["x"]) == len(found)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("own", [True, False], ids=["model", "recipe"])
def test_both_stages_call_and_the_moment_of_decoupling_is_marked(tmp_path: Path, own: bool) -> None:
    seen: list[dict[str, Any]] = []
    if own:
        _, result = duo(
            tiny.network(levels=2),
            tiny.split(),
            tiny.split(20, 1),
            tiny.STAGE,
            tiny.STAGE,
            LOOP,
            tmp_path,
            on_profile=seen.append,
        )
    else:
        stage = Stage(epochs=1)
        model = Model(network="mlp", width=0.05)
        loop = dataclasses.replace(LOOP, batch=1000, test_batch=1000)
        result = duo(
            Recipe(model=model, train=stage, finetune=stage, loop=loop), tmp_path, on_profile=seen.append
        )
    (border,) = (number for number, line in enumerate(seen) if line["kind"] == "decoupling")
    coupled, mark, decoupled = seen[:border], seen[border], seen[border + 1 :]
    assert coupled
    assert decoupled
    assert {line["stage"] for line in coupled} == {"coupled"}
    assert {line["stage"] for line in [mark, *decoupled]} == {"decoupled"}
    assert mark["total_epoch"] == result.coupled.epochs
    assert mark["top1"] == result.decoupled_before["top1"]
    times = [line["total_epoch"] for line in seen]
    assert times == sorted(times)
    assert times[-1] <= result.coupled.epochs + result.finetuned.epochs
    for stage, given in (("coupled", coupled), ("decoupled", decoupled)):  # the same lines as in the folders
        kept = lines(tmp_path / stage)
        assert [line["step"] for line in kept] == [line["step"] for line in given]
        assert all(line.items() <= other.items() for line, other in zip(kept, given, strict=True))
    picture = bd.mismatch.plot_over_time(seen, tmp_path / "over_time.png", ["cosine", "never_flipped"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    names, values = cells(seen, "cosine")
    assert [len(row) for row in values] == [len(seen) - 1] * len(names)
    with pytest.raises(bd.BinaryDuoError, match="choose one of cosine"):
        bd.mismatch.plot_over_time(seen, picture, ["height"])
    assert heat_map(read_run(tmp_path), "cosine")["layout"]["shapes"][0]["x0"] == mark["total_epoch"]  # type: ignore[index]


class Killed(Exception):
    pass


@pytest.mark.usefixtures("settled")
def test_it_goes_on_after_a_kill_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, part = tiny.network(), tiny.network()
    fit(whole, tiny.split(), None, tiny.STAGE, LOOP, tmp_path / "whole")
    step = Trainer._step

    def dying(self: Trainer, batch: Batch, epoch: int, total: int) -> None:
        if self.state.step == 10:
            raise Killed
        step(self, batch, epoch, total)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", dying)
        with pytest.raises(Killed):
            fit(part, tiny.split(), None, tiny.STAGE, LOOP, tmp_path / "part")
    again = tiny.network(seed=5)
    fit(again, tiny.split(), None, tiny.STAGE, LOOP, tmp_path / "part", resume=True)
    assert tiny.same(whole, again)
    assert json.dumps(lines(tmp_path / "whole")) == json.dumps(lines(tmp_path / "part"))


def test_too_small_a_budget_means_seldom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = dataclasses.replace(LOOP, profile_budget=1e-6)
    fit(tiny.network(), tiny.split(), None, tiny.STAGE, loop, tmp_path)
    assert len(lines(tmp_path)) == 1
    assert "keeps it within 0.0001 % of the time" in capsys.readouterr().err
    with pytest.raises(bd.BinaryDuoError, match=r"loop\.profile_budget must be a share"):
        Loop(profile_budget=0.0)


def test_another_wish_on_resuming_is_settled_anew() -> None:
    def watch(every: int | None, budget: float) -> Watch:
        return Watch(tiny.network(), Task(None, None), every, budget, 0)

    kept, tensors = {"every": 6, "coordinates": 8, "images": 16, "directions": 6}, watch(3, 0.5).tensors()
    for every, budget, expected in ((3, 0.5, kept), (5, 0.5, None), (3, 0.1, None), (None, 0.5, None)):
        again = watch(every, budget)
        again.restore(tensors, kept)
        assert again.settled == expected
    of_an_earlier_version = {name: tensor for name, tensor in tensors.items() if name != "watch/asked"}
    again = watch(3, 0.5)
    again.restore(of_an_earlier_version, kept)
    assert again.settled == kept


def test_a_network_without_levels_is_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    fit(model, tiny.split(), None, tiny.STAGE, LOOP, tmp_path)
    assert lines(tmp_path) == []
    assert (
        "the mismatch cannot be followed in this training: the model has no quantized"
        in capsys.readouterr().err
    )


# --- the second estimator -------------------------------------------------------------------------------------


def test_behind_the_last_activation_there_is_no_mismatch() -> None:
    model = tiny.network(dropout=0.0).eval()
    images, labels = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(1)), torch.arange(24) % 4
    found = snapshot(model, nn.functional.cross_entropy, images, labels, Size(20, 24, 12))
    assert found["kept/9"] == pytest.approx(1, abs=0.01)
    assert found["slopes_low/9"] <= 1 <= found["slopes_high/9"]  # of 12 directions
    assert found["cosine/9"] > 0.99


def test_the_share_outside_counts_what_gets_no_gradient() -> None:
    x = torch.rand(50, 3, generator=torch.Generator().manual_seed(2)) * 3 - 1
    act = bd.nn.QuantAct(3, interval="channel", channels=3)
    act.offsets.data.copy_(torch.tensor([0.2, 0.0, -0.1, 0.3, 0.1, 0.0]))
    given = x.clone().requires_grad_()
    act(given).sum().backward()
    assert outside_support(nn.Sequential(act), x) == {
        "0": pytest.approx(float((given.grad == 0).double().mean()))
    }
