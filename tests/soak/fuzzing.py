"""The coverage-guided fuzzer (libFuzzer) on the C API, with the sanitizers: built, fed and run.

Its inputs are .duo files; csrc/checks/fuzz_mutator.cpp makes every checksum right again after an alteration, so that
the deep reader is reached, and csrc/checks/fuzz_model.cpp runs what is accepted with every instruction set and
compares them.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from binaryduo.engine import _native
from binaryduo.engine import format as duo
from binaryduo.engine.program import Code, Program, Storage
from tests.engine.programs import Builder

ROOT = Path(__file__).parents[2]
CSRC, ATTACKS = ROOT / "csrc", ROOT / "tests" / "engine" / "attacks"
AVX512 = "avx512f avx512bw avx512vl avx512vpopcntdq"
SETS = {  # what the compiler needs for the kernels of each
    "scalar": "",
    "avx2": "avx2 fma popcnt bmi2",
    "avx512": f"avx2 fma popcnt bmi2 {AVX512}",
    "avx512vbmi": f"avx2 fma popcnt bmi2 {AVX512} avx512vbmi gfni",
    "amx": f"avx2 fma popcnt bmi2 {AVX512} avx512vbmi gfni amx-tile amx-int8",
}
HELPERS = ("fuzz_container.cpp", "fuzz_mutator.cpp")  # not to be explored, and to be fast
FLAGS = ["-g", "-O1", "-std=c++17", "-Wno-psabi", "-pthread", "-fno-sanitize-recover=all"]


class CannotBuild(Exception):
    """What is missing to build the fuzzer here."""


def build(folder: Path) -> Path:
    """The fuzzer, built in that folder."""
    sanitizers = "address,undefined"
    objects = engine_objects(folder, f"fuzzer-no-link,{sanitizers}")
    objects.append(_object(CSRC / "checks" / "fuzz_model.cpp", folder, f"fuzzer-no-link,{sanitizers}"))
    objects += [_object(CSRC / "checks" / name, folder) for name in HELPERS]
    _compile(["clang++", *FLAGS, f"-fsanitize=fuzzer,{sanitizers}", *objects], folder / "fuzz_model")
    return folder / "fuzz_model"


def build_check(source: Path, folder: Path, sanitizers: str) -> Path:
    """A program in C with the engine inside, both with these sanitizers, built in that folder."""
    objects = engine_objects(folder, sanitizers)
    target = folder / source.stem
    how = [*(flag for flag in FLAGS if "std" not in flag), f"-fsanitize={sanitizers}"]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{CSRC / 'include'}"]
    _compile(["clang", *how, *strict, "-c", source], target.with_suffix(".o"))
    _compile(["clang++", *how, target.with_suffix(".o"), *objects], target)
    return target


def engine_objects(folder: Path, sanitizers: str) -> list[Path]:
    """All of the engine, compiled with these sanitizers."""
    if shutil.which("clang++") is None:
        raise CannotBuild("clang++ is not installed: the engine was not checked with sanitizers")
    if os.uname().machine != "x86_64":
        raise CannotBuild("sanitizers are used on x86-64 only: the engine was not checked with them")
    sources = [path for room in ("common", "engine") for path in sorted((CSRC / room).glob("*.cpp"))]
    sources = [path for path in sources if path.name != "bindings.cpp"]
    with ThreadPoolExecutor(os.cpu_count()) as several:
        return list(several.map(lambda source: _object(source, folder, sanitizers), sources))


def _object(source: Path, folder: Path, sanitizers: str = "") -> Path:
    here = re.fullmatch(r"kernels_(.*)", source.stem)
    flags = [f"-m{feature}" for feature in SETS.get(here[1] if here else "", "").split()]
    flags.append(f"-fsanitize={sanitizers}" if sanitizers else "-O2")
    target = folder / f"{source.parent.name}_{source.stem}.o"
    _compile(["clang++", *FLAGS, *flags, "-c", source], target)
    return target


def _compile(command: list[str | Path], target: Path) -> None:
    done = subprocess.run([*command, "-o", target], capture_output=True, text=True, timeout=280)
    if done.returncode and "clang_rt" in done.stderr:
        raise CannotBuild("clang's sanitizer runtime is not installed: the engine was not checked with it")
    if done.returncode:
        raise RuntimeError(done.stderr)


def seeds() -> Iterator[Program]:
    """Small programs with every operation, odd widths, and every kind of weights."""
    from tests.engine.test_float_ops import every_float_op
    from tests.engine.test_format import PROGRAM

    yield PROGRAM
    b = Builder(3, 6, 6, seed=1)
    x = b.conv(0, 11, copies=2, out="bits")
    x = b.conv(x, 35, copies=2, out="bits", integer=True)
    x = b.conv(b.pool(x, Code.MAX_POOL, flip=True), 33, padding=(0, 0), out="bits", integer=True)
    yield b.finish(b.conv(x, 10, (1, 1), padding=(0, 0)))
    b = Builder(9, 4, 4, seed=3)
    x = b.conv(b.binarize(0), 5, (4, 4), padding=(0, 0), binary=False, half=True)
    yield b.finish(x)
    b = Builder(20, 3, 4, seed=5)
    x = b.conv(b.binarize(0), 70, (2, 2), padding=(0, 0), out="bits", integer=True)
    yield b.finish(b.conv(x, 40, (2, 2), padding=(1, 0)))
    b = Builder(6, 4, 4, seed=4)
    b.pool(0, Code.AVERAGE_POOL)
    yield b.finish(b.pool(0, Code.MAX_POOL))
    yield every_float_op()[1]
    b = Builder(3, 6, 7, seed=6, kind=Storage.BYTES)
    x = b.conv(0, 18, (3, 3), (2, 2), (2, 2), copies=2, out="bits", small=True)
    x = b.conv(x, 36, out="bits", integer=True, groups=36)
    x = b.conv(x, 22, out="bits", integer=True, groups=2)
    x = b.conv(x, 44, groups=11, binary=False)
    yield b.finish(b.conv(b.binarize(x), 5, (1, 1), padding=(0, 0), small=True))
    b = Builder(5, 3, 4, seed=7, kind=Storage.BYTES)
    x = b.conv(b.lookup(), 20, groups=5)
    yield b.finish(b.conv(x, 6, groups=2, small=True))
    b = Builder(9, 5, 4, seed=8)
    x = b.conv(b.binarize(0, copies=3), 34, copies=2, out="bits", integer=True, shared=True)
    x = b.conv(b.pool(x, Code.MAX_POOL), 33, (1, 1), padding=(0, 0), copies=2, out="bits", shared=True)
    yield b.finish(b.conv(x, 5, (2, 2), padding=(0, 0), shared=True))


def write_seeds(corpus: Path) -> None:
    """The seeds and the attacks, for a corpus to begin with."""
    corpus.mkdir(parents=True, exist_ok=True)
    for number, program in enumerate(seeds()):
        (corpus / f"seed{number}.duo").write_bytes(duo.to_bytes(program))
    for attack in ATTACKS.glob("*.duo"):
        shutil.copy(attack, corpus / attack.name)


@dataclass(frozen=True)
class Fuzzed:
    """What came of a run: how many files were tried, and the end of what was said if one broke the promise."""

    files: int
    coverage: int
    found: str

    def __str__(self) -> str:
        said = f"fuzz: {self.files:,} files, {self.coverage:,} edges of the code reached with {_native.available()}"
        return f"{said}\nBROKEN:\n{self.found}" if self.found else f"{said}; nothing found"


def run(fuzzer: Path, corpus: Path, seconds: float, artifacts: Path) -> Fuzzed:
    """Fuzz for that time; what breaks the promise is kept in `artifacts`."""
    artifacts.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={seconds:.0f}", "-timeout=20", "-rss_limit_mb=2048", "-max_len=16384"]
    done = subprocess.run(
        [fuzzer, corpus, *limits, "-print_final_stats=1", f"-artifact_prefix={artifacts}/"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds + 300,
        env={**os.environ, "ASAN_OPTIONS": "malloc_context_size=3:quarantine_size_mb=16"},
    )
    files = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    reached = re.findall(r"cov: (\d+)", done.stderr)
    return Fuzzed(
        int(files[1]) if files else 0,
        int(reached[-1]) if reached else 0,
        done.stderr[-4000:] if done.returncode else "",
    )
