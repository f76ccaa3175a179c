"""The toy problem itself: shapes, data, initialisation, the coarse gradient."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from binaryduo import ste as stes
from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.mismatch import ToyProblem
from binaryduo.nn import QuantAct


def network(problem, weights, ste):
    layers = []
    for name in problem.layers:
        layers.append(nn.Linear(problem.width, len(weights[name]), bias=False, dtype=torch.float64))
        layers[-1].weight.data.copy_(weights[name])
        layers.append(QuantAct(problem.levels, ste))
    return nn.Sequential(*layers[:-1])


def test_shapes_and_types():
    problem = ToyProblem(width=5, hidden_layers=2, samples=100, levels=3)
    assert problem.inputs.shape == (5, 100)
    assert problem.targets.shape == (100,)
    for gradients in (problem.weights, problem.target_weights, problem.coarse_gradient(), problem.cdg()):
        assert [(name, tuple(g.shape)) for name, g in gradients.items()] == [
            ("fc1", (5, 5)),
            ("fc2", (5, 5)),
            ("out", (1, 5)),
        ]
        assert all(g.dtype == torch.float64 for g in gradients.values())
    assert problem.inputs.dtype == problem.targets.dtype == torch.float64


def test_the_paper_s_defaults():
    problem = ToyProblem()
    assert (problem.width, problem.hidden_layers, problem.samples) == (32, 3, 1_000_000)
    assert (problem.levels, problem.ste, problem.init) == (2, "relu1", "he")


@pytest.mark.parametrize("levels", [2, 3, 4, None])
@pytest.mark.parametrize("ste", stes.names())
def test_coarse_gradient_is_autograd_s(levels, ste):
    problem = ToyProblem(width=6, samples=700, levels=levels, ste=ste, seed=2)
    model = network(problem, problem.weights, ste)
    output = model(problem.inputs.T).squeeze(1)
    targets = network(problem, problem.target_weights, ste)(problem.inputs.T).squeeze(1)
    torch.testing.assert_close(problem.targets, targets.detach(), rtol=0, atol=1e-12)
    loss = (output - targets.detach()).square().sum() / (2 * 700)
    assert problem.loss() == pytest.approx(loss.item(), rel=1e-12)
    loss.backward()
    grads = [m.weight.grad for m in model if isinstance(m, nn.Linear)]
    for mine, theirs in zip(problem.coarse_gradient().values(), grads, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-14)


def test_another_ste_on_the_same_problem():
    problem = ToyProblem(width=4, samples=500, ste="relu1")
    other = ToyProblem(width=4, samples=500, ste="steep4").coarse_gradient()
    for name, gradient in problem.coarse_gradient(ste="steep4").items():
        assert torch.equal(gradient, other[name])


def test_the_data_are_standard_normal_and_differ_by_seed():
    x = ToyProblem(width=8, samples=50_000, seed=1).inputs
    assert abs(x.mean().item()) < 5 / math.sqrt(400_000)
    assert abs(x.std().item() - 1) < 5 / math.sqrt(800_000)
    covariance = np.cov(x.numpy())
    assert np.abs(covariance - np.eye(8)).max() < 0.03
    assert not torch.equal(x, ToyProblem(width=8, samples=50_000, seed=2).inputs)


def test_fewer_samples_are_a_prefix_and_blocks_differ():
    many = ToyProblem(width=3, samples=ToyProblem.BLOCK + 500)
    few = ToyProblem(width=3, samples=300)
    assert torch.equal(many.inputs[:, :300], few.inputs)
    assert not torch.equal(many.inputs[:, :500], many.inputs[:, ToyProblem.BLOCK :])


def test_data_that_are_not_kept_are_the_same(monkeypatch):
    kept = ToyProblem(width=3, samples=2000, levels=3)
    expected = kept.cdg()
    monkeypatch.setattr(ToyProblem, "KEEP_BYTES", 0)
    streamed = ToyProblem(width=3, samples=2000, levels=3)
    for name, gradient in streamed.cdg().items():
        assert torch.equal(gradient, expected[name])
    assert streamed._kept == {}
    assert kept._kept != {}


def test_changed_networks_are_noticed():
    problem = ToyProblem(width=4, samples=300, levels=3)
    before = problem.targets
    problem.target_weights["out"][0, 0] += 1
    assert not torch.equal(problem.targets, before)
    problem.target_weights = problem.weights
    assert problem.loss() == 0


def test_initialisations_have_their_spread():
    for init, std in (("he", math.sqrt(2 / 64)), ("torch", 1 / math.sqrt(3 * 64)), ("normal", 1.0)):
        w = ToyProblem(width=64, samples=1, init=init).weights["fc1"]
        assert w.std().item() == pytest.approx(std, rel=0.05)
    assert ToyProblem(width=64, samples=1, init="torch").weights["fc1"].abs().max() <= 1 / 8


def test_target_and_evaluating_network_differ():
    problem = ToyProblem(width=4, samples=10)
    assert not torch.equal(problem.weights["fc1"], problem.target_weights["fc1"])


@pytest.mark.parametrize(
    "arguments",
    [{"width": 0}, {"samples": 1.5}, {"hidden_layers": -1}, {"levels": 1}, {"levels": 300}, {"width": True}],
)
def test_bad_sizes_are_refused(arguments):
    with pytest.raises(ArgumentError):
        ToyProblem(**{"width": 2, "samples": 10, **arguments})


def test_unknown_names_are_refused():
    with pytest.raises(BinaryDuoError, match="choose one of he, torch, normal"):
        ToyProblem(width=2, samples=10, init="xavier")
    with pytest.raises(BinaryDuoError, match="unknown STE"):
        ToyProblem(width=2, samples=10, ste="relu2")
