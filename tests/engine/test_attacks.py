"""Hostile files that ship with the source (attacks/README.md): refused in one sentence, or run the same everywhere."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from binaryduo.engine import _native
from binaryduo.engine.runtime import load
from binaryduo.errors import PackedFormatError

HERE = Path(__file__).parent / "attacks"
FILES = sorted(HERE.glob("*.duo"))
REFUSED = [path for path in FILES if path.name.startswith("refused-")]
LOADS = [path for path in FILES if path.name.startswith("loads-")]


def test_every_attack_is_described_and_small() -> None:
    described = (HERE / "README.md").read_text()
    assert len(FILES) == len(REFUSED) + len(LOADS) >= 30
    for path in FILES:
        assert f"`{path.stem}`" in described, path
        assert path.stat().st_size < 16_384, path


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_refused_in_one_sentence(path: Path) -> None:
    with pytest.raises(PackedFormatError, match="is not a packed model that can be used: ") as error:
        load(path, threads=1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", LOADS, ids=lambda path: path.stem)
def test_every_instruction_set_agrees(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vector sets to the last bit; where the scalar one must agree is compared by the fuzzer, which has these
    files among its first."""
    results = {}
    for isa in _native.available().split():
        monkeypatch.setenv("BINARYDUO_ISA", isa)
        model = load(path, threads=2)
        shape = (5, *model.input_shape)
        images = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        results[isa] = model(images)
        assert repr(model).isprintable()
    fused = [result for isa, result in results.items() if isa != "scalar"]
    for result in fused:
        np.testing.assert_array_equal(result, fused[0])


def test_no_attack_takes_memory() -> None:
    """All of them in a process that may have 400 MB of addresses beside what Python and NumPy have."""
    code = """
        import resource, sys
        from pathlib import Path
        from binaryduo.engine.runtime import load
        from binaryduo.errors import PackedFormatError
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 400 * 2**20,) * 2)
        for path in sys.argv[1:]:
            try:
                load(path, threads=1)
            except PackedFormatError as error:
                assert "memory" not in str(error), error
    """
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    lines = "\n".join(line[8:] for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", lines, *FILES], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_names_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.duo")  # nobody will ever write to it
    for name in ("a\0b", tmp_path, tmp_path / "pipe.duo", tmp_path / "missing.duo", "/dev/zero"):
        with pytest.raises(PackedFormatError):
            load(name)
