"""Instruction sets that this CPU lacks, against the scalar reference: AVX-512 through SIMDe, NEON in qemu."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"
SOURCES = [
    CSRC / "engine" / f"kernels_{name}.cpp" for name in ("scalar", "avx2", "avx512", "avx512vbmi", "neon")
]


def build(compiler, target, *flags):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed: not checked here")
    sources = [*SOURCES, CSRC / "checks" / "compare_kernels.cpp"]
    command = [compiler, "-O2", "-std=c++17", "-Wno-psabi", *flags, *sources, "-o", target]
    subprocess.run(command, check=True, timeout=280)
    return target


def agrees(command, name):
    done = subprocess.run([*command, name], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout
    assert f"{name} agrees" in done.stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="built for x86-64")
def test_avx2_and_avx512(tmp_path):
    if not Path("/usr/include/simde").exists():
        pytest.skip("SIMDe (Debian's libsimde-dev) is not installed: AVX-512 was not checked")
    program = build("g++", tmp_path / "compare", "-DBINARYDUO_SIMDE", "-mavx2", "-mfma", "-mpopcnt")
    agrees([program], "avx2")
    agrees([program], "avx512")
    agrees([program], "avx512vbmi")


def test_neon(tmp_path):
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("qemu-user is not installed: NEON was not checked")
    program = build("aarch64-linux-gnu-g++", tmp_path / "compare", "-static")
    agrees([emulator, program], "neon")
