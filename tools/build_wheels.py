"""Build the wheels: manylinux_2_17 for x86-64 and aarch64, from one machine of either kind; `make wheels` runs it.

    python tools/build_wheels.py [--out wheelhouse] [--arch x86_64 --arch aarch64] PYTHON …

Each PYTHON is an interpreter with its headers (3.10 or later); it gives one wheel for each architecture. From 3.12 on
the wheel serves every later Python. The compiler is zig's clang (PyPI's `ziglang`), which brings the C libraries of old
and of foreign systems along: extensions link glibc 2.17 and carry libc++ inside. auditwheel (PyPI) then says what each
one needs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLIBC = "2.17"  # CentOS 7, Debian 8, Ubuntu 14.04
ARCHITECTURES = ("x86_64", "aarch64")
# zig spells the names of processors in its own way; -mtune changes no result, so it is left out.
WRAPPER = """#!/bin/sh
for word do shift; case "$word" in -mtune=*) ;; *) set -- "$@" "$word" ;; esac; done
exec "{python}" -m ziglang {call} "$@"
"""
ASK = "import json, sysconfig; print(json.dumps([sysconfig.get_config_var(n) for n in ('EXT_SUFFIX', 'MULTIARCH')]))"


def compilers(folder: Path, architecture: str) -> dict[str, str]:
    """Scripts that call zig as a C and C++ compiler, a linker's archiver and an indexer for one architecture."""
    target = f"-target {architecture}-linux-gnu.{GLIBC}"
    calls = {"cc": f"cc {target}", "c++": f"c++ {target}", "ar": "ar", "ranlib": "ranlib"}
    out = {}
    for name, call in calls.items():
        path = folder / f"zig-{name}"
        path.write_text(WRAPPER.format(python=sys.executable, call=call))
        path.chmod(0o755)
        out[name] = str(path)
    return out


def environment(python: str, architecture: str, folder: Path) -> dict[str, str]:
    """What makes pip's build of `python` one for `architecture`."""
    zig = compilers(folder, architecture)
    found = subprocess.run([python, "-c", ASK], check=True, capture_output=True, text=True).stdout
    suffix, native = json.loads(found)
    definitions = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": architecture,
        "CMAKE_AR": zig["ar"],
        "CMAKE_RANLIB": zig["ranlib"],
        "CMAKE_CXX_COMPILER_AR": zig["ar"],
        "CMAKE_CXX_COMPILER_RANLIB": zig["ranlib"],
        "CMAKE_MODULE_LINKER_FLAGS": "-s",  # stripped by the linker: a strip of this machine knows no other one
    }
    return os.environ | {
        "CC": zig["cc"],
        "CXX": zig["c++"],
        "CMAKE_ARGS": " ".join(f"-D{name}={value}" for name, value in definitions.items()),
        "_PYTHON_HOST_PLATFORM": f"linux-{architecture}",
        "SETUPTOOLS_EXT_SUFFIX": suffix.replace(native, f"{architecture}-linux-gnu"),
    }


def build(python: str, architecture: str, out: Path) -> Path:
    """One wheel, named by what auditwheel finds that it needs."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        command = [python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += [
            "--config-settings",
            "install.strip=false",
            "--config-settings",
            f"build-dir={place}/build",
        ]
        environ = environment(python, architecture, place)
        subprocess.run([*command, "--wheel-dir", str(place / "dist"), str(ROOT)], check=True, env=environ)
        (plain,) = (place / "dist").glob("*.whl")
        tag = f"manylinux_{GLIBC.replace('.', '_')}_{architecture}"
        check(plain, tag)
        retag = [sys.executable, "-m", "wheel", "tags", "--platform-tag", tag, str(plain)]
        name = (
            subprocess.run(retag, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
        )
        out.mkdir(parents=True, exist_ok=True)
        return (place / "dist" / name).rename(out / name)


def check(wheel: Path, tag: str) -> None:
    """Stop if auditwheel finds that the wheel needs more than the tag promises."""
    from auditwheel.architecture import Architecture  # imported here: --help works without it
    from auditwheel.libc import Libc
    from auditwheel.wheel_abi import analyze_wheel_abi

    # Instruction sets beyond the architecture's own are chosen when a model is loaded: auditwheel need not forbid them.
    kind = Architecture(tag.split("_", 3)[-1])
    found = analyze_wheel_abi(
        Libc.GLIBC, kind, wheel, frozenset(), disable_isa_ext_check=True, allow_graft=False
    )
    print(f"{wheel.name}: auditwheel says {found.overall_policy.name}")
    if found.overall_policy.priority < found.policies.get_policy_by_name(tag).priority:
        raise SystemExit(f"{wheel.name} is {found.overall_policy.name}, which is less than {tag}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--out", type=Path, default=ROOT / "wheelhouse")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES)
    options = parser.parse_args()
    for architecture in options.arch or ARCHITECTURES:
        for python in options.pythons:
            wheel = build(python, architecture, options.out)
            print(f"{wheel}: {wheel.stat().st_size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
