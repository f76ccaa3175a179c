"""One pool of threads for the process: it survives fork, errors and many callers."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from tests.engine.programs import Builder, load_program

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def network():
    b = Builder(16, 24, 24, seed=5)
    x = b.conv(b.binarize(0), 64, out="bits", integer=True)
    x = b.conv(x, 64, out="bits", integer=True)
    return b.images(8), b.finish(b.conv(x, 10, (24, 24), padding=(0, 0)))


def in_child(call):
    """What `call` returns in a process made by os.fork: True, False, or None where it hangs."""
    child = os.fork()
    if child == 0:
        os._exit(0 if call() else 1)
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.1)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_runs_the_model_it_inherits():
    images, program = network()
    model = load_program(program, threads=2)
    wanted = model(images)  # now the pool's threads run
    assert in_child(lambda: np.array_equal(model(images), wanted))
    # a child's child, which inherits a pool that the child started
    assert in_child(lambda: np.array_equal(model(images), wanted) and in_child(lambda: model(images).any()))
    np.testing.assert_array_equal(model(images), wanted)


def _run(model, images, queue):
    queue.put(model(images))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_multiprocessing_with_fork():
    images, program = network()
    model = load_program(program, threads=2)
    wanted = model(images)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_run, args=(model, images, queue)) for _ in range(3)]
    for child in children:
        child.start()
    for _ in children:
        np.testing.assert_array_equal(queue.get(timeout=60), wanted)
    for child in children:
        child.join(timeout=60)
        assert child.exitcode == 0


def test_threads_that_cannot_be_started_are_refused_and_training_goes_on_without():
    """In a process that may not start another thread: an error for `load`, the same result for a kernel."""
    pytest.importorskip("torch")
    code = """
        import os, resource, sys
        import torch
        torch.set_num_threads(1)
        from binaryduo.errors import ArgumentError
        from binaryduo.training.fast import convolution
        from tests.engine.test_threads import network
        from tests.engine.programs import load_program

        x, w = torch.randn(4, 16, 24, 24), torch.randn(16, 16, 3, 3)
        wanted = convolution.convolve(x, w)
        images, program = network()
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        if os.getuid() == 0:
            os.setresuid(65534, 65534, 65534)  # limits do not bind root
        try:
            load_program(program, threads=3)
        except ArgumentError as error:
            assert "3 threads cannot be started here" in str(error), error
        else:
            sys.exit("three threads were started")
        torch.get_num_threads = lambda: 3
        assert torch.equal(convolution.convolve(x, w), wanted)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
