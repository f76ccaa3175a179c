"""ESG against its own formula, recomputed sample by sample, and against theory."""

import pytest
import torch

from binaryduo.errors import ArgumentError
from binaryduo.mismatch import ToyProblem, cosine, esg
from binaryduo.mismatch.cdg import half_squared_loss
from binaryduo.mismatch.network import forward
from binaryduo.mismatch.parallel import generator
from binaryduo.mismatch.toy import _NOISE


def by_definition(problem, sigma, pairs, seed):
    """Equation of Appendix H, with whole evaluations of the network in float64."""
    weights, x, targets = list(problem.weights.values()), problem.inputs.T, problem.targets
    learned = problem.layer_offsets()
    out = {}
    for i, (name, weight) in enumerate(problem.weights.items()):
        noise = esg.draw_noise(pairs, tuple(weight.shape), generator(seed, _NOISE, i))
        total = torch.zeros_like(weight)
        for direction in noise:
            for sign in (1, -1):
                moved = [w + sign * sigma * direction if k == i else w for k, w in enumerate(weights)]
                loss = half_squared_loss(forward(x, moved, problem.levels, learned).output, targets)
                total += sign * loss * direction
        out[name] = total / (2 * pairs * sigma)
    return out


@pytest.mark.parametrize("levels", [2, 3, 8, None])
@pytest.mark.parametrize("sigma", [1e-3, 1e-2, 0.3])
def test_is_its_definition(levels, sigma):
    problem = ToyProblem(width=5, hidden_layers=3, samples=900, levels=levels, seed=4)
    expected = by_definition(problem, sigma, pairs=37, seed=9)
    found = problem.esg(sigma=sigma, samples=37, seed=9, dtype=torch.float64)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-10)
    for name, gradient in problem.esg(sigma=sigma, samples=37, seed=9).items():
        assert gradient.dtype == torch.float64
        assert (gradient - expected[name]).norm() <= 2e-3 * expected[name].norm()


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("interval", ["layer", "channel"])
def test_is_its_definition_with_learned_thresholds(levels, interval):
    problem = ToyProblem(5, hidden_layers=3, samples=900, levels=levels, seed=4, interval=interval)
    random = torch.Generator().manual_seed(1)
    for name, zeros in problem.offsets.items():  # by less than half of their distance: they stay in order
        move = torch.rand(zeros.shape, generator=random, dtype=torch.float64) - 0.5
        problem.offsets[name] = 0.9 * move / (levels - 1)
    expected = by_definition(problem, 0.1, pairs=37, seed=9)
    found = problem.esg(sigma=0.1, samples=37, seed=9, dtype=torch.float64)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-10)


def test_more_than_one_block():
    problem = ToyProblem(width=3, hidden_layers=2, samples=ToyProblem.BLOCK + 900, levels=2)
    expected = by_definition(problem, 1e-2, pairs=20, seed=0)
    for name, gradient in problem.esg(sigma=1e-2, samples=20, dtype=torch.float64).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("pairs", [16, 64, 256])
def test_full_precision_has_the_cosine_that_theory_gives(pairs):
    """√(N/(N+d+1)), averaged over 40 draws of the directions; d = 64 in the hidden layers, 8 behind."""
    problem = ToyProblem(width=8, hidden_layers=2, samples=2000, levels=None)
    true = problem.coarse_gradient()
    draws = [cosine(true, problem.esg(sigma=1e-4, samples=pairs, seed=s)) for s in range(40)]
    for name, parameters in (("fc1", 64), ("fc2", 64), ("out", 8)):
        values = torch.tensor([d[name] for d in draws])
        error = 4 * values.std().item() / len(draws) ** 0.5
        assert abs(values.mean().item() - esg.expected_cosine(pairs, parameters)) < error + 0.01


def test_the_seed_decides():
    problem = ToyProblem(width=3, samples=200)
    one, same, other = (problem.esg(sigma=0.1, samples=8, seed=s)["fc1"] for s in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("arguments", [{"sigma": 0}, {"sigma": -1.0}, {"samples": 0}, {"samples": 2.5}])
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(ArgumentError):
        ToyProblem(width=2, samples=10).esg(**arguments)
