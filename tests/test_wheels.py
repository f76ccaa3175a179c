"""The recipe of the wheels is intact: what it writes for the compiler, which Pythons it serves. It builds nothing."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def scripts(monkeypatch):
    """Both scripts as modules."""
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    found = []
    for name in ("wheels", "try_wheels"):
        spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        found.append(module)
    return found


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_the_compiler_is_called_for_the_target(scripts, arch, tmp_path, monkeypatch):
    wheels, _ = scripts
    monkeypatch.setattr(wheels, "WORK", tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python").write_text('#!/bin/sh\necho "$@"\n')  # says how it was called
    (tools / "python").chmod(0o755)
    file = wheels.toolchain(arch, tools)
    compiler = re.findall(r'CMAKE_CXX_COMPILER "(.*)"', file.read_text())[0]
    said = subprocess.run([compiler, "-c", "a b.cpp"], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["-m", "ziglang", "c++", "-target", f"{arch}-linux-gnu.2.17", "-c", "a", "b.cpp"]
    assert f"CMAKE_SYSTEM_PROCESSOR {arch})" in file.read_text()


def test_every_supported_python_has_a_wheel(scripts):
    wheels, trial = scripts
    supported = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert len(supported) >= 4
    newest = wheels.PYTHONS[-1].replace(".", "")
    assert f'wheel.py-api = "cp{newest}"' in (ROOT / "pyproject.toml").read_text()
    names = [
        f"binaryduo-0.1.0-cp{v.replace('.', '')}-cp{v.replace('.', '')}-linux.whl"
        for v in wheels.PYTHONS[:-1]
    ]
    names.append(f"binaryduo-0.1.0-cp{newest}-abi3-linux.whl")
    for version in supported:
        assert sum(trial.fits(Path(name), version) for name in names) == 1, version


def test_what_it_installs_is_pinned(scripts):
    wheels, _ = scripts
    pinned = (ROOT / "constraints.txt").read_text().lower().replace("_", "-")
    for package in (*wheels.COMPILER, *wheels.BUILDERS):
        assert f"\n{package}==" in pinned, package


def test_an_interpreter_that_is_not_there(scripts):
    wheels, _ = scripts
    assert wheels.find_python("3.99") is None
    assert wheels.find_python(f"{sys.version_info[0]}.{sys.version_info[1]}")
