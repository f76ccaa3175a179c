"""A coverage-guided fuzzer on the C API, with address and undefined-behaviour sanitizers. It runs for some seconds
here; `python -m tests.soak fuzz --minutes 60` gives it longer."""

import os
from pathlib import Path

import pytest

from tests.soak import fuzzing

SECONDS = int(os.environ.get("BINARYDUO_FUZZ_SECONDS", "30"))


@pytest.mark.timeout(600)  # most of it is the compiler's
def test_native_reader_and_executor(tmp_path: Path) -> None:
    try:
        fuzzer = fuzzing.build(tmp_path)
    except fuzzing.CannotBuild as reason:
        pytest.skip(str(reason))
    fuzzing.write_seeds(tmp_path / "corpus")
    fuzzed = fuzzing.run(fuzzer, tmp_path / "corpus", SECONDS, tmp_path / "found")
    assert not fuzzed.found, fuzzed.found
    assert fuzzed.files > 100
    assert fuzzed.coverage > 1000  # the deep reader and the kernels are reached
