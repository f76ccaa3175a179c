"""Installs wheels into empty environments that have no compiler, and uses them: `python packaging/try_wheels.py dist`.

A wheel is tried with every Python of this machine that it fits: a packed model with NumPy alone, with each instruction
set of this CPU, then the command line, then the commands that need PyTorch, where its build for CPUs can be had (from
PyTorch's own index: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu). Wheels of another architecture need an
emulator and a root folder with a Python of theirs, on Debian:

    apt install qemu-user debootstrap
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3 bookworm /tmp/arm
    for package in /tmp/arm/var/cache/apt/archives/*.deb; do dpkg-deb -x $package /tmp/arm; done
    python packaging/try_wheels.py dist --root /tmp/arm
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wheels import find_python

TORCH = "torch==2.13.0+cpu"  # no other build: those for graphics cards are gigabytes
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")

# Runs in the environment that is tried: the shipped model with random images, beside the reference in plain NumPy. Sums
# of floats are rounded in another order there, so that a bit of few images may turn; a prediction does not.
ENGINE = """
import os, pathlib, sys
import numpy as np
import binaryduo as bd
from binaryduo.engine import _native, format, reference

assert "torch" not in sys.modules
path = pathlib.Path(bd.__file__).parent / "web" / "demo" / "fashion-mnist.duo"
images = np.random.default_rng(0).normal(size=(16, 1, 28, 28)).astype(np.float32)
expected = reference.logits(format.read(path), images)
sets = _native.available().split()
for name in sets:
    os.environ["BINARYDUO_ISA"] = name
    model = bd.load(path)
    assert model.isa == name, (model.isa, name)
    found = model(images)
    assert (found.argmax(1) == expected.argmax(1)).all(), name
    close = np.isclose(found, expected, rtol=1e-4, atol=1e-4).all(1).mean()
    assert close >= 0.8, (name, close)
print("a packed model ran with", ", ".join(sets), "on NumPy", np.__version__)
"""
PLAIN = (
    ("--version",),
    ("describe", "{demo}/fashion-mnist.duo"),
    ("run", "{demo}/fashion-mnist.duo", "{demo}/1-boot.png", "--top", "3"),
    ("web", "--out", "page"),
)
TRAINING = (
    ("cost", "vgg7"),
    ("data", "list"),
    ("reproduce", "list"),
    ("pack", "vgg7-cifar10-duo-w1", "net.duo"),
    ("describe", "net.duo"),
)


def fits(wheel: Path, version: str) -> bool:
    """Whether pip would install a wheel of ours into this version of Python: by its tags, as in cp312-abi3."""
    python, abi = re.findall(r"-cp3(\d+)-(\w+)-", wheel.name)[0]
    minor = int(version.split(".")[1])
    return minor >= int(python) if abi == "abi3" else minor == int(python)


def start(
    where: Path, command: tuple[str | Path, ...], env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder."""
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=where, env=env)


def succeeds(where: Path, *command: str | Path, env: dict[str, str]) -> bool:
    """Runs a command in a folder; says whether it succeeded."""
    return start(where, command, env).returncode == 0


def call(where: Path, *command: str | Path, env: dict[str, str]) -> str:
    """Runs a command in a folder and returns what it printed; if it fails, all of it is shown and this program ends."""
    done = start(where, command, env)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}\n{' '.join(map(str, command))} failed.")
    return done.stdout


def try_here(wheel: Path, python: str, training: bool) -> Iterator[str]:
    """Uses a wheel in an environment whose PATH has its own programs and no compiler; says what worked."""
    with tempfile.TemporaryDirectory() as temporary:
        where = Path(temporary)
        env = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        env |= {"HOME": temporary, "PATH": str(where / "env" / "bin"), "COLUMNS": "80"}
        call(where, python, "-m", "venv", "env", env=os.environ | {"HOME": temporary})
        pip = [where / "env/bin/python", "-m", "pip", "install", "-q", "--only-binary", ":all:"]
        call(where, *pip, wheel, env=env)
        yield call(where, where / "env/bin/python", "-c", ENGINE, env=env).strip()
        package = call(
            where, where / "env/bin/python", "-c", "import binaryduo; print(binaryduo.__path__[0])", env=env
        )
        steps = [("cli", PLAIN)] + ([("train", TRAINING)] if training else [])
        for extra, commands in steps:
            if extra == "train" and not succeeds(where, *pip, TORCH, env=env):
                yield f"[train]: not run, {TORCH} cannot be had here for this Python"
                return
            call(where, *pip, f"{wheel}[{extra}]", env=env)
            for command in commands:
                words = [word.format(demo=f"{package.strip()}/web/demo") for word in command]
                printed = call(where, where / "env/bin/binaryduo", *words, env=env)
                if not printed.strip():
                    raise SystemExit(f"binaryduo {' '.join(words)} printed nothing.")
            yield f"[{extra}]: " + ", ".join(command[0] for command in commands) + " work"


def try_emulated(wheel: Path, arch: str, root: Path, python: Path) -> str:
    """Runs the engine of a wheel of another architecture in qemu, with a Python of that architecture."""
    version = re.findall(r"python(3\.\d+)", python.name)[0]
    with tempfile.TemporaryDirectory() as temporary:
        where = Path(temporary)
        platforms = [f"--platform=manylinux{rest}_{arch}" for rest in ("2014", "_2_17", "_2_27", "_2_28")]
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--only-binary",
            ":all:",
            "--python-version",
            version,
        ]
        call(where, *pip, *platforms, "--target", "packages", wheel, env=dict(os.environ))
        env = {"PYTHONPATH": str(where / "packages"), "PATH": os.environ["PATH"]}
        return call(where, f"qemu-{arch}", "-L", root, python, "-c", ENGINE, env=env).strip()


def trials(wheel: Path, root: Path | None, training: bool) -> Iterator[str]:
    """What was tried with one wheel and what came of it, one sentence at a time."""
    arch = re.findall(r"_(x86_64|aarch64)\.whl$", wheel.name)[0]
    here = arch == platform.machine()
    for version in filter(lambda version: fits(wheel, version), VERSIONS):
        if here:
            python = find_python(version)
            for sentence in (
                try_here(wheel, python, training) if python else ["not run, this Python is not here"]
            ):
                yield f"Python {version}: {sentence}"
        else:
            emulated = root / f"usr/bin/python{version}" if root else None
            if root and emulated and emulated.exists():
                yield f"Python {version} in qemu: {try_emulated(wheel, arch, root, emulated)}"
            else:
                yield f"Python {version}: not run, no such Python for {arch} is here"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder that holds the wheels")
    parser.add_argument("--root", type=Path, help="a root folder with a Python of the other architecture")
    parser.add_argument(
        "--without-torch", action="store_true", help="leave out the commands that need PyTorch"
    )
    given = parser.parse_args()
    found = sorted(given.folder.resolve().glob("binaryduo-*.whl"))
    if not found:
        raise SystemExit(
            f"There is no wheel of binaryduo in {given.folder}; packaging/wheels.py builds them."
        )
    for wheel in found:
        print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.2f} MB", flush=True)
        for sentence in trials(wheel, given.root, not given.without_torch):
            print(f"  {sentence}", flush=True)


if __name__ == "__main__":
    main()
