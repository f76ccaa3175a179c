"""The toy problem with learned thresholds: CDG against brute force, the coarse gradient against autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.mismatch import ToyProblem, loss_curve
from binaryduo.mismatch.toy_learning import as_module, learn


def moved(width: int, hidden_layers: int, samples: int, levels: int, interval: str, seed: int) -> ToyProblem:
    """A problem whose thresholds are anywhere, in ascending order."""
    problem = ToyProblem(width, hidden_layers, samples, levels, seed=seed, interval=interval)  # type: ignore[arg-type]
    random = torch.Generator().manual_seed(seed)
    for name, zeros in problem.offsets.items():
        gaps = torch.rand(zeros.shape, generator=random, dtype=torch.float64) * 2 / (levels - 1) + 1e-3
        starts = torch.tensor([(i + 0.5) / (levels - 1) for i in range(levels - 1)], dtype=torch.float64)
        problem.offsets[name] = gaps.cumsum(0) - 0.4 - starts.unsqueeze(1)
    return problem


def flat(gradients: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([g.numpy().ravel() for g in gradients.values()])


def numpy_loss(problem: ToyProblem, weights: dict[str, np.ndarray]) -> float:
    """Algorithm 1's loss once more, from the public attributes alone."""
    x, steps = problem.inputs.numpy(), problem.levels - 1  # type: ignore[operator]
    for name in problem.layers[:-1]:
        z = weights[name] @ x
        at = [(i + 0.5) / steps + problem.offsets[name][i].numpy().reshape(-1, 1) for i in range(steps)]
        x = sum((z >= t).astype(float) for t in at) / steps
    return float(((weights["out"] @ x - problem.targets.numpy()) ** 2).sum() / (2 * x.shape[1]))


@settings(max_examples=40, deadline=None)
@given(
    width=st.integers(1, 6),
    hidden_layers=st.integers(1, 3),
    samples=st.integers(1, 150),
    levels=st.sampled_from([2, 3, 4, 8]),
    interval=st.sampled_from(["layer", "channel"]),
    step=st.floats(1e-3, 2.0),
    seed=st.integers(0, 2**40),
)
def test_fast_is_brute_for_any_thresholds(width, hidden_layers, samples, levels, interval, step, seed):
    problem = moved(width, hidden_layers, samples, levels, interval, seed)
    fast, brute = flat(problem.cdg(step)), flat(problem.cdg(step, method="brute"))
    resolution = 1e-15 * problem.loss() / step  # of a difference of two losses
    assert np.linalg.norm(fast - brute) <= 1e-9 * np.linalg.norm(brute) + 50 * resolution


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("interval", ["layer", "channel"])
def test_an_entry_is_the_loss_in_numpy(levels, interval):
    problem = moved(4, 2, 300, levels, interval, 3)
    found = problem.cdg(0.05)
    for name, index in (("fc1", (1, 2)), ("fc2", (3, 0)), ("out", (0, 1))):
        losses = []
        for sign in (1, -1):
            weights = {key: w.numpy().copy() for key, w in problem.weights.items()}
            weights[name][index] += sign * 0.05
            losses.append(numpy_loss(problem, weights))
        assert float(found[name][index]) == pytest.approx((losses[0] - losses[1]) / 0.1, abs=1e-12)
    up, down = loss_curve(problem, "fc1", (1, 2), [0.05, -0.05])
    assert float((up - down) / 0.1) == pytest.approx(float(found["fc1"][1, 2]), abs=1e-12)


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("interval", ["layer", "channel"])
@pytest.mark.parametrize("ste", ["relu1", "swishsign"])
def test_the_coarse_gradient_is_back_propagation_through_the_activation(levels, interval, ste):
    problem = moved(5, 3, 200, levels, interval, 1)
    problem.ste = ste
    net = as_module(problem)
    ((net(problem.inputs.T).squeeze(1) - problem.targets).square().mean() / 2).backward()
    weights = [p.grad for name, p in net.named_parameters() if name.endswith("weight")]
    for ours, theirs in zip(problem.coarse_gradient().values(), weights, strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("interval", ["layer", "channel"])
def test_thresholds_that_did_not_move_change_nothing(interval):
    fixed = ToyProblem(width=5, samples=2000, levels=3, seed=2)
    same = ToyProblem(width=5, samples=2000, levels=3, seed=2, interval=interval)
    for one, other in ((fixed.cdg(), same.cdg()), (fixed.coarse_gradient(), same.coarse_gradient())):
        assert np.array_equal(flat(one), flat(other))
    assert np.allclose(flat(fixed.esg(samples=64)), flat(same.esg(samples=64)), atol=1e-6)


def test_learning_lowers_the_loss_and_leaves_the_problem_as_it_was():
    problem = ToyProblem(width=8, hidden_layers=2, samples=5000, levels=3, interval="channel")
    before = problem.loss()
    weights = {name: w.clone() for name, w in problem.weights.items()}
    only = learn(problem, steps=150, batch=512, weights=False)
    both = learn(problem, steps=150, batch=512)
    assert both.loss() < only.loss() < before
    assert problem.loss() == before
    assert all(w.equal(weights[name]) and w.equal(only.weights[name]) for name, w in problem.weights.items())
    assert all(bool((o == 0).all()) for o in problem.offsets.values())


def test_bad_input_is_refused():
    with pytest.raises(ArgumentError, match="has none to learn"):
        learn(ToyProblem(width=2, samples=10), steps=1, weights=False)
    with pytest.raises(ArgumentError, match="full-precision"):
        ToyProblem(width=2, samples=10, levels=None, interval="layer")
    with pytest.raises(BinaryDuoError, match="choose one of layer, channel"):
        ToyProblem(width=2, samples=10, interval="pixel")  # type: ignore[arg-type]
    problem = ToyProblem(width=2, samples=10, levels=3, interval="layer")
    problem.offsets["fc2"] = torch.tensor([[1.0], [0.0]])
    with pytest.raises(ArgumentError, match="the thresholds of fc2 are not in ascending order"):
        problem.cdg()
