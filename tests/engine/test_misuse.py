"""duo.h in the hands of a careless C program, under sanitizers: null pointers, sizes that no memory holds, floats at
odd addresses, every shorter length of a file, arenas of exactly the stated size, threads on one model."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from binaryduo.engine import _native
from binaryduo.engine import format as duo
from tests.engine.programs import Builder, load_program
from tests.soak import fuzzing


def network():
    """Float, binary and bit-plane layers with widths that fill no word."""
    b = Builder(3, 20, 17, seed=11)
    x = b.conv(0, 41, copies=2, out="bits")
    x = b.conv(x, 67, copies=2, out="bits", integer=True, shared=True)
    return b.finish(b.conv(x, 10, (20, 17), padding=(0, 0), shared=True)), b.images(3)


@pytest.mark.timeout(600)  # most of it is the compiler's
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_every_misuse_is_refused_and_nothing_else_is_touched(sanitizers: str, tmp_path: Path) -> None:
    try:
        misuse = fuzzing.build_check(fuzzing.CSRC / "checks" / "misuse.c", tmp_path, sanitizers)
    except fuzzing.CannotBuild as reason:
        pytest.skip(str(reason))
    duo.write(network()[0], tmp_path / "net.duo")
    for isa in _native.available().split():
        done = subprocess.run(
            [misuse, tmp_path / "net.duo"],
            capture_output=True,
            text=True,
            timeout=280,
            env={**os.environ, "BINARYDUO_ISA": isa},
        )
        assert done.returncode == 0, f"{isa}: {done.stdout}{done.stderr}"
        refused, runs = map(int, re.findall(r"\d+", done.stdout))
        assert refused > 1000
        assert runs == 64 + 4 * 80  # every offset of an arena, then four times four threads


def test_an_array_at_an_odd_address_runs_in_python() -> None:
    program, images = network()
    model = load_program(program, threads=1)
    odd = np.empty(images.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(images.shape)
    odd[...] = images
    assert not odd.flags.aligned
    np.testing.assert_array_equal(model(odd), model(images))
