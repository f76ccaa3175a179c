"""Fine-tuning that begins with the coupled network's moments."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import binaryduo as bd
from binaryduo.errors import ArgumentError
from binaryduo.nn import QuantAct
from binaryduo.training import checkpoint, duo, with_settings
from binaryduo.training.moments import carried
from binaryduo.training.restore import load_run
from tests.training import tiny
from tests.training.short_runs import RECIPE

COPIED = with_settings(RECIPE, ["moments=copied", "loop.batch=1000"])


@pytest.mark.parametrize("topology", ["duo", "quad"])
@pytest.mark.parametrize("levels", [3, 4])
def test_every_moment_has_the_shape_of_its_parameter_and_stands_in_each_copy(
    topology: str, levels: int
) -> None:
    net = tiny.network(levels, binary=False, dropout=0.0).eval()
    binary = bd.decouple(net, torch.rand(8, 1, 8, 8), topology)  # type: ignore[arg-type]
    # A weight as its own moment: the moments then stand where decoupling has put the weights.
    moments = {name: {"exp_avg": p.detach(), "step": torch.tensor(7.0)} for name, p in net.named_parameters()}
    found, after = carried(moments, net, binary), dict(binary.named_parameters())
    assert found.keys() == after.keys()
    for name, parameter in after.items():
        assert found[name]["exp_avg"].shape == parameter.shape
        assert found[name]["step"] == 7
        if parameter.dim() > 1:
            ratio = found[name]["exp_avg"] / parameter.detach()
            assert torch.allclose(ratio, ratio.flatten()[0].expand_as(ratio), rtol=1e-4)


@pytest.mark.parametrize("topology", ["duo", "quad"])
def test_carried_gradients_are_the_means_of_what_the_copies_would_get(topology: str) -> None:
    """With gradients in the place of moments, where the STE of each copy passes as much as the coupled one."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), QuantAct(3), nn.Flatten(), nn.Linear(6 * 36, 4)
    )
    net = net.double().eval()
    with torch.no_grad():  # values in (0.3, 0.7): no copy's STE is closed
        net[1].weight.fill_(0.02)
        net[1].bias.fill_(0.5)
    x = torch.rand(16, 1, 8, 8, dtype=torch.float64)
    binary = bd.decouple(net, x, topology)  # type: ignore[arg-type]
    for model in (net, binary):
        model(x).square().sum().backward()
    gradients = {
        name: {"exp_avg": p.grad, "exp_avg_sq": p.grad.square()}  # type: ignore[union-attr]
        for name, p in net.named_parameters()
    }
    found, after = carried(gradients, net, binary), dict(binary.named_parameters())
    for name, own in found.items():
        right, before = after[name].grad, gradients[name]["exp_avg"]
        assert right is not None
        assert before is not None
        # Each coupled entry stands at the same places in both; only their means are equal.
        entry = torch.arange(before.numel(), dtype=torch.float64).view_as(before)
        times = [n // o for n, o in zip(right.shape, before.shape, strict=True)]
        at = entry.repeat(times).long().flatten()
        sums = torch.zeros(before.numel(), dtype=torch.float64)
        count = torch.bincount(at, minlength=before.numel())
        mean = sums.index_add(0, at, right.flatten()) / count
        carried_mean = sums.index_add(0, at, own["exp_avg"].flatten()) / count
        assert torch.allclose(mean, carried_mean, rtol=1e-9, atol=1e-12), name
        assert torch.allclose(own["exp_avg"].square(), own["exp_avg_sq"], rtol=1e-12)


def test_a_run_begins_with_the_moments_and_continues_with_the_same_ones(tmp_path: Path) -> None:
    duo(COPIED, tmp_path / "whole")
    ended = checkpoint.newest(tmp_path / "whole" / "coupled" / "checkpoints")
    assert ended is not None
    steps = {key: own["step"].item() for key, own in checkpoint.moments_of(ended.tensors).items()}
    tuned = checkpoint.newest(tmp_path / "whole" / "decoupled" / "checkpoints")
    assert tuned is not None
    for own in checkpoint.moments_of(tuned.tensors).values():
        assert own["step"].item() == 2 * set(steps.values()).pop()  # two stages of equal length, counted on

    # Killed between the stages: what is decoupled and carried over again is the same.
    (tmp_path / "part").mkdir()
    for name in ("coupled", "recipe.yaml"):
        source = tmp_path / "whole" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / "part" / name)
    duo(COPIED, tmp_path / "part", resume=True)
    models = [load_run(tmp_path / run, "last")[0] for run in ("whole", "part")]
    assert tiny.same(*models)
    plain = with_settings(COPIED, ["moments=null"])
    duo(plain, tmp_path / "plain")
    assert not tiny.same(models[0], load_run(tmp_path / "plain", "last")[0])


@pytest.mark.parametrize(
    ("setting", "words"),
    [("finetune.optimizer=sgd", "one optimizer for both stages"), ("loop.decouple_from=best", "last")],
)
def test_what_leaves_no_moments_is_refused(setting: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=words):
        duo(with_settings(COPIED, [setting]), tmp_path)
