"""Fast CDG against brute force: Algorithm 1 as printed, and once more written independently in NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.mismatch import ToyProblem, cosine

LEVELS = [2, 3, 4, 8, None]


def flat(gradients):
    return np.concatenate([np.asarray(g).ravel() for g in gradients.values()])


def relative_error(a, b):
    """|a - b| / |b|; where b is zero, a must be zero too."""
    a, b = flat(a), flat(b)
    norm = np.linalg.norm(b)
    return np.linalg.norm(a - b) / norm if norm else np.linalg.norm(a)


def numpy_loss(x, targets, weights, levels):
    for w in weights[:-1]:
        z = w @ x
        if levels is None:
            x = np.maximum(z, 0)
        else:
            x = sum((z >= (i - 0.5) / (levels - 1)).astype(float) for i in range(1, levels)) / (levels - 1)
    return ((weights[-1] @ x - targets) ** 2).sum() / (2 * x.shape[1])


def numpy_cdg(problem, step):
    """Algorithm 1 from the problem's public attributes alone."""
    x, targets = problem.inputs.numpy(), problem.targets.numpy()
    out = {}
    for name, weight in problem.weights.items():
        out[name] = np.zeros(weight.shape)
        for index in np.ndindex(*weight.shape):
            losses = []
            for sign in (1, -1):
                weights = {key: w.numpy().copy() for key, w in problem.weights.items()}
                weights[name][index] += sign * step
                losses.append(numpy_loss(x, targets, list(weights.values()), problem.levels))
            out[name][index] = (losses[0] - losses[1]) / (2 * step)
    return out


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("init", ["he", "torch", "normal"])
def test_fast_is_brute(levels, init):
    problem = ToyProblem(width=6, hidden_layers=3, samples=500, levels=levels, init=init, seed=3)
    for step in (1e-4, 1e-3, 1e-2, 0.3):
        assert relative_error(problem.cdg(step), problem.cdg(step, method="brute")) < 1e-9


@pytest.mark.parametrize("levels", LEVELS)
def test_both_are_algorithm_1_in_numpy(levels):
    problem = ToyProblem(width=4, hidden_layers=2, samples=300, levels=levels, seed=5)
    expected = numpy_cdg(problem, 2e-3)
    assert relative_error(problem.cdg(2e-3), expected) < 1e-9
    assert relative_error(problem.cdg(2e-3, method="brute"), expected) < 1e-9


@settings(max_examples=50, deadline=None)
@given(
    width=st.integers(1, 7),
    hidden_layers=st.integers(1, 3),
    samples=st.integers(1, 200),
    levels=st.sampled_from([*LEVELS, 5, 16, 256]),
    init=st.sampled_from(["he", "torch", "normal"]),
    step=st.floats(1e-4, 2.0),
    seed=st.integers(0, 2**40),
)
def test_fast_is_brute_for_any_size(width, hidden_layers, samples, levels, init, step, seed):
    problem = ToyProblem(width, hidden_layers, samples, levels, seed=seed, init=init)
    fast, brute = problem.cdg(step), problem.cdg(step, method="brute")
    # Brute force subtracts two losses and divides by 2·step: that is what it can resolve.
    resolution = 1e-15 * problem.loss() / step
    assert np.linalg.norm(flat(fast) - flat(brute)) <= 1e-9 * np.linalg.norm(flat(brute)) + 50 * resolution


def test_several_levels_in_reach_at_once():
    """A step of 2 carries a unit over all 15 thresholds of a four-bit activation."""
    problem = ToyProblem(width=5, hidden_layers=2, samples=200, levels=16)
    assert relative_error(problem.cdg(2.0), numpy_cdg(problem, 2.0)) < 1e-9


def test_more_than_one_block_and_any_thread_count():
    problem = ToyProblem(width=3, hidden_layers=2, samples=2 * ToyProblem.BLOCK + 77, levels=3)
    expected = problem.cdg()
    assert relative_error(expected, problem.cdg(method="brute")) < 1e-9
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            assert (flat(problem.cdg()) == flat(expected)).all()
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)


def test_exact_ties_go_up():
    """A pre-activation that a step carries exactly onto the threshold is on: >= as in the network."""
    problem = ToyProblem(width=1, hidden_layers=1, samples=4, levels=2)
    problem._kept[0] = torch.tensor([[1.0], [1.0], [-1.0], [2.0]])
    problem.weights = {"fc1": torch.tensor([[0.25]]).double(), "out": torch.tensor([[1.0]]).double()}
    problem.target_weights = {"fc1": torch.tensor([[1.0]]).double(), "out": torch.tensor([[3.0]]).double()}
    assert problem.targets.tolist() == [3, 3, 0, 3]
    # +1/4 carries samples 1 and 2 onto 1/2 exactly; sample 4 is there already and -1/4 carries it down.
    jump = ((1 - 3) ** 2 - (0 - 3) ** 2) / 2
    assert problem.cdg(0.25)["fc1"].item() == 3 * jump / 4 / 0.5
    assert problem.cdg(0.25, method="brute")["fc1"].item() == 3 * jump / 4 / 0.5


def test_full_precision_is_nearly_the_gradient():
    problem = ToyProblem(width=16, samples=20_000, levels=None)
    similar = cosine(problem.coarse_gradient(), problem.cdg())
    assert min(similar.values()) > 0.9999


def test_the_ste_plays_no_part():
    one = ToyProblem(width=4, samples=1000, ste="relu1").cdg()
    two = ToyProblem(width=4, samples=1000, ste="swishsign").cdg()
    assert (flat(one) == flat(two)).all()


@pytest.mark.parametrize("step", [0, -1e-3, float("nan"), float("inf"), "small"])
def test_a_bad_step_is_refused(step):
    with pytest.raises(ArgumentError, match="step must be a positive number"):
        ToyProblem(width=2, samples=10).cdg(step=step)


def test_an_unknown_method_is_refused():
    with pytest.raises(BinaryDuoError, match="choose one of fast, brute"):
        ToyProblem(width=2, samples=10).cdg(method="quick")
