"""The benchmark measures what it says: real steps, counted operations."""

import pytest

from binaryduo.bench import training as benchmark
from binaryduo.bench.training import Task
from binaryduo.errors import BinaryDuoError


@pytest.mark.parametrize("contender", ["channels_last", "nchw"])
def test_plain_loops_time_each_step(contender: str) -> None:
    times = benchmark.plain_loop(Task(contender, "baseline", batch=4, steps=2, threads=1))
    assert len(times) == 2
    assert min(times) > 0


def test_our_loop_times_each_step() -> None:
    times = benchmark.our_loop(Task("this loop", "coupled", batch=4, steps=2, threads=1))
    assert len(times) == 2
    assert min(times) > 0


def test_operations_of_a_step() -> None:
    """VGG-7 by hand: forward and two gradients of every layer, but for the first layer no gradient of its input."""
    layers = [(3, 64, 32), (64, 64, 32), (64, 128, 16), (128, 128, 8)]
    convolutions = [9 * ci * co * size**2 for ci, co, size in layers]
    dense = [2048 * 512, 512 * 512, 512 * 10]
    expected = 2 * 7 * (3 * (sum(convolutions) + sum(dense)) - convolutions[0])
    assert benchmark.step_operations("vgg7", "baseline", batch=7) == expected


def test_a_failure_is_one_sentence() -> None:
    with pytest.raises(BinaryDuoError, match=r"measuring nchw failed: .*unknown variant"):
        benchmark.run(Task("nchw", "binary", batch=4, steps=1, threads=1))
