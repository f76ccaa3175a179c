"""A coverage-guided fuzzer on the native reader and executor, with address and undefined-behaviour
sanitizers. Runs for a few seconds here; BINARYDUO_FUZZ_SECONDS gives it longer."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from binaryduo.engine import _native
from binaryduo.engine import format as duo
from binaryduo.engine.program import Code
from tests.engine.programs import Builder
from tests.engine.test_float_ops import every_float_op
from tests.engine.test_format import PROGRAM
from tests.engine.test_runtime import network

CSRC = Path(__file__).parents[2] / "csrc"
PARTS = sorted(path for room in ("common", "engine") for path in (CSRC / room).glob("*.cpp"))
PARTS = [path for path in PARTS if path.name != "bindings.cpp"]
SETS = {  # what the compiler needs for them
    "scalar": "",
    "avx2": "avx2 fma popcnt bmi2",
    "avx512": "avx512f avx512bw avx512vl avx512vpopcntdq",
    "avx512vbmi": "avx512vbmi gfni",
}
HERE = [name for name in SETS if name in _native.available().split()]
SECONDS = int(os.environ.get("BINARYDUO_FUZZ_SECONDS", "15"))


def seeds():
    yield PROGRAM
    yield network()[1]
    b = Builder(9, 4, 4, seed=3)
    x = b.conv(b.binarize(0), 5, (4, 4), padding=(0, 0), binary=False, half=True)
    yield b.finish(x)
    b = Builder(20, 3, 4, seed=5)
    x = b.conv(b.binarize(0), 130, out="bits", integer=True)
    yield b.finish(b.conv(x, 200, (3, 3), padding=(1, 0)))
    b = Builder(6, 4, 4, seed=4)
    b.pool(0, Code.AVERAGE_POOL)
    yield b.finish(b.pool(0, Code.MAX_POOL))
    yield every_float_op()[1]


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    clang = shutil.which("clang++")
    if clang is None:
        pytest.skip("clang++ is not installed: the fuzzer was not run")
    target = tmp_path_factory.mktemp("fuzz") / "fuzz_model"
    flags = ["-g", "-O1", "-std=c++17", "-Wno-psabi"]
    flags += [f"-m{feature}" for name in HERE for feature in SETS[name].split()]
    flags += ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all", "-pthread"]
    sources = [*PARTS, CSRC / "checks" / "fuzz_model.cpp"]
    built = subprocess.run(
        [clang, *flags, *sources, "-o", target], capture_output=True, text=True, timeout=280
    )
    if built.returncode and "clang_rt" in built.stderr:
        pytest.skip("clang's sanitizer runtime is not installed: the fuzzer was not run")
    assert built.returncode == 0, built.stderr
    return target


@pytest.mark.parametrize("isa", HERE)
def test_native_reader_and_executor(fuzzer, isa, tmp_path):
    if os.uname().machine != "x86_64":
        pytest.skip("built for x86-64")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for i, program in enumerate(seeds()):
        parts = duo.Sections(np.frombuffer(duo.to_bytes(program), np.uint8), "seed")
        counts = struct.pack("<HH", len(program.tensors), len(program.ops))
        (corpus / str(i)).write_bytes(
            counts + parts.tensors.tobytes() + parts.ops.tobytes() + parts.data.tobytes()
        )
    limits = [f"-max_total_time={SECONDS}", "-timeout=20", "-rss_limit_mb=2048", "-max_len=65536"]
    done = subprocess.run(
        [fuzzer, corpus, *limits, f"-artifact_prefix={tmp_path}/"],
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
        env={**os.environ, "BINARYDUO_ISA": isa},
    )
    assert done.returncode == 0, done.stderr[-4000:]
