"""Without a C++ compiler the build says so, and how to get on."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_no_compiler(tmp_path):
    cmake = Path(sys.executable).with_name("cmake")
    if not cmake.exists():
        pytest.skip("cmake is not installed beside Python")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ninja").symlink_to(cmake.with_name("ninja"))
    done = subprocess.run(
        [cmake, "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja"],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": str(tools), "HOME": str(tmp_path)},
    )
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "no C++ compiler was found" in said
    assert "apt install g++" in said


def test_all_sources_are_in_the_build():
    """A kernel file that is not listed would never be compiled."""
    listed = (ROOT / "CMakeLists.txt").read_text() + (ROOT / "csrc" / "web" / "build").read_text()
    sources = [path.relative_to(ROOT) for path in (ROOT / "csrc").rglob("*.cpp")]
    assert len(sources) > 10
    for source in sources:
        assert source.as_posix().removeprefix("csrc/") in listed or source.parent.name == "checks"
