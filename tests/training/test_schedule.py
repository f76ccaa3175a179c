"""Learning rates against their definitions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binaryduo.errors import ArgumentError
from binaryduo.training import Stage
from binaryduo.training.measured import fit_budget
from binaryduo.training.schedule import check, rate


def test_a_drop_happens_when_its_epoch_begins() -> None:
    stage = Stage(lr=1.0, schedule="step", drops=(2, 4))
    assert [rate(stage, 0, 9, epoch) for epoch in range(4)] == pytest.approx([1, 0.1, 0.1, 0.01])


def test_cosine_is_half_a_cosine() -> None:
    stage = Stage(lr=2.0, schedule="cosine")
    for step in range(10):
        assert rate(stage, step, 10, 0) == pytest.approx(1 + math.cos(math.pi * step / 10))


@given(
    total=st.integers(1, 1000),
    warmup=st.floats(0, 0.9),
    schedule=st.sampled_from(["cosine", "onecycle", "constant", "step"]),
)
def test_rates_stay_between_zero_and_the_peak(total: int, warmup: float, schedule: str) -> None:
    stage = Stage(lr=0.5, schedule=schedule, warmup=warmup)  # type: ignore[arg-type]
    rates = [rate(stage, step, total, 0) for step in range(total)]
    assert all(0 < r <= 0.5 for r in rates)
    peak = rates.index(max(rates))
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (Stage(lr=0), "lr must be positive, got 0"),
        (Stage(warmup=1.0), "warmup must be a share from 0 to below 1, got 1.0"),
        (Stage(drops=(5, 3)), r"drops must be .*, got \(5, 3\)"),
        (Stage(drops=(0, 3)), r"drops must be .* from 1 on, got \(0, 3\)"),
        (Stage(gamma=-0.1), "gamma must be 0 or more, got -0.1"),
        (Stage(schedule="step", minutes=3), "cannot be fitted to minutes"),
    ],
)
def test_nonsense_is_refused(stage: Stage, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check(stage)


@given(
    seconds=st.floats(10, 1e5),
    step=st.floats(1e-3, 1.0),
    per_epoch=st.integers(1, 2000),
    test=st.floats(0, 2.0),
)
def test_a_budget_is_kept(seconds: float, step: float, per_epoch: int, test: float) -> None:
    steps, every = fit_budget(seconds, step, per_epoch, test)
    tests = math.ceil(steps / (per_epoch * every))
    assert steps * step + tests * test <= seconds + step + test
    assert tests * test <= 0.05 * seconds + test
