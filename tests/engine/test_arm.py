"""64-bit ARM, cross-compiled and emulated: the library without threads, the C examples, every layer bit by bit.

Time means nothing in an emulator and is not measured."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import binaryduo as bd
from binaryduo.cli.app import app
from binaryduo.engine import format as duo
from binaryduo.engine.c_array import to_c_array
from binaryduo.engine.program import Storage
from tests.engine.programs import Builder, load_program
from tests.soak.fuzzing import seeds

ROOT = Path(__file__).parents[2]
CHECKS = ROOT / "csrc" / "checks"
EXAMPLES = ROOT / "examples"
CMAKE = Path(sys.executable).with_name("cmake")
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
GXX = "aarch64-linux-gnu-g++"
pytestmark = [
    pytest.mark.skipif(not CMAKE.exists(), reason="cmake is not installed beside Python"),
    pytest.mark.skipif(EMULATOR is None, reason="qemu-user is not installed: ARM was not checked"),
    pytest.mark.skipif(
        shutil.which(GXX) is None, reason="g++-aarch64-linux-gnu is not installed: ARM was not checked"
    ),
]


def run(*command):
    done = subprocess.run(command, capture_output=True, timeout=280)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the library for ARM, without threads."""
    folder = tmp_path_factory.mktemp("arm")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    ninja = f"-DCMAKE_MAKE_PROGRAM={CMAKE.with_name('ninja')}"
    target = ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={GXX}"]
    how = ["-G", "Ninja", ninja, *target, *launcher, "-DBINARYDUO_THREADS=OFF"]
    run(CMAKE, "-S", ROOT, "-B", folder, *how)
    run(CMAKE, "--build", folder)
    return folder


def build(folder, *sources, flags=()):
    """A program in C or C++ with the library inside."""
    target = folder / Path(sources[0]).stem
    where = [f"-I{ROOT / 'csrc' / 'include'}", *flags]
    libraries = [folder / "libbinaryduo.a", "-lstdc++", "-lm"]
    run(GXX.replace("g++", "gcc"), "-O1", "-static", "-Wno-psabi", *where, *sources, *libraries, "-o", target)
    return target


def test_neon_agrees_with_the_scalar_reference(folder):
    said = run(EMULATOR, build(folder, CHECKS / "compare_kernels.cpp"), "neon").decode()
    assert "neon agrees" in said


def programs():
    yield from ((program, 1) for program in seeds())
    for seed in range(6):
        b = Builder(3 + seed, 9, 8 + seed % 3, seed=seed)
        x = b.conv(0, 33 + 31 * seed, out="bits")
        x = b.conv(x, 40 + 50 * seed, out="bits", integer=True)
        yield b.finish(b.conv(x, 7, (9, 8 + seed % 3), padding=(0, 0))), 3


def test_every_tensor_is_the_same_to_the_last_bit(folder, tmp_path):
    """ARM against this machine. Both fuse multiplication and addition, unless this CPU has nothing but scalars."""
    dump = build(folder, CHECKS / "dump_tensors.cpp")
    compared = 0
    for program, count in programs():
        t = program.tensors[0]
        rng = np.random.default_rng(1)
        images = rng.normal(size=(count, t.channels, t.height, t.width)).astype(np.float32)
        if t.kind == Storage.BYTES:
            images = rng.integers(0, 256, images.shape).astype(np.uint8)
        duo.write(program, tmp_path / "net.duo")
        images.tofile(tmp_path / "images.f32")
        here = load_program(program, threads=1)
        found = np.frombuffer(run(EMULATOR, dump, tmp_path / "net.duo", tmp_path / "images.f32"), np.uint8)
        written = [0, *(n for op in program.ops for n in (op.out_float, op.out_bits) if n >= 0)]
        at = 0
        for image in images:
            traced = here._native.trace(image[None])
            for number in written:
                wanted = traced[number]
                value = found[at : at + wanted.nbytes].view(wanted.dtype).reshape(wanted.shape)
                at += wanted.nbytes
                if here.isa != "scalar":
                    np.testing.assert_array_equal(value, wanted)
                elif program.tensors[number].kind == Storage.FLOAT:
                    np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-3)
                compared += wanted.size
        assert at == found.size
    assert compared > 20_000


# Counts what is taken from the heap while a run is under way.
NO_HEAP = """
#include <stdio.h>
#include <stdlib.h>
#include <duo.h>
static int running, taken;
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n) { taken += running; return __real_malloc(n); }
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n) { taken += running; return __real_aligned_alloc(a, n); }
duo_status __real_duo_run(const duo_model *m, size_t n, const void *const *in, void *const *out, void *arena,
                          size_t bytes, duo_error *error);
duo_status __wrap_duo_run(const duo_model *m, size_t n, const void *const *in, void *const *out, void *arena,
                          size_t bytes, duo_error *error) {
    running = 1;
    void *volatile checked = malloc(1);
    if (taken != 1) puts("the check is broken");
    duo_status status = __real_duo_run(m, n, in, out, arena, bytes, error);
    running = 0;
    if (taken != 1) puts("a run uses the heap");
    free(checked);
    return status;
}
"""


MEMORY = """
#include <duo.h>
#include <malloc.h>
#include <stdio.h>
#include "net.h"
int main(void) {
    duo_options options = {0};
    options.together = 1;
    duo_model *model;
    duo_error error;
    const size_t before = mallinfo2().uordblks;
    if (duo_open_memory(net, sizeof net, &options, &model, &error)) return puts(error.sentence), 1;
    printf("%zu %zu", duo_arena_bytes(model), mallinfo2().uordblks - before);
    return 0;
}
"""


def linked_bytes(map_file):
    """Bytes of the library in a program, by the linker's map: code, constants, unwinding data."""
    text = map_file.read_text().split("Linker script and memory map")[1]
    section, address = r"(text|rodata|data|eh_frame|gcc_except_table)\S*", "0x0*[1-9a-f][0-9a-f]*"
    line = rf"^ \.{section}\s+{address}\s+0x([0-9a-f]+) \S*libbinaryduo\.a"
    found = re.findall(line, text, re.MULTILINE)
    return sum(int(size, 16) for _, size in found)


def run_in_an_array(folder, tmp_path, content):
    """The logits of examples/embedded.c with this model, on ARM, where a run that uses the heap says so."""
    (tmp_path / "net.h").write_text(to_c_array(content, "net"))
    (tmp_path / "heap.c").write_text(NO_HEAP)
    wrapped = ("malloc", "aligned_alloc", "duo_run")
    flags = [f"-I{tmp_path}", *(f"-Wl,--wrap={name}" for name in wrapped)]
    program = build(folder, EXAMPLES / "embedded.c", tmp_path / "heap.c", flags=flags)
    return np.float32(run(EMULATOR, program).decode().split())


def image_of_the_example(*shape):
    return (np.arange(np.prod(shape)) % 17 / 16 - 0.5).astype(np.float32).reshape(1, *shape)


@pytest.mark.parametrize("planes", [1, 2])
def test_a_model_in_an_array_runs_without_the_heap(folder, tmp_path, planes):
    """Of bits, and of activations of three levels, whose weights serve two planes of bits (format version 4)."""
    b = Builder(3, 8, 8, seed=2)
    x = b.conv(0, 41, out="bits", copies=planes)
    x = b.conv(x, 64, out="bits", copies=planes, integer=True, shared=planes > 1)
    program = b.finish(b.conv(x, 10, (8, 8), padding=(0, 0), shared=planes > 1))
    said = run_in_an_array(folder, tmp_path, duo.to_bytes(program))
    wanted = load_program(program, threads=1)(image_of_the_example(3, 8, 8))[0]
    np.testing.assert_allclose(said, wanted, rtol=1e-6)


def test_the_shipped_network_on_a_device(folder, tmp_path):
    """It answers as here, and docs/c_api.md states what it takes: the file, the engine, the arena, the heap."""
    path = tmp_path / "net.duo"
    done = CliRunner().invoke(app, ["pack", "vgg7-cifar10-duo-w1", str(path), "--half"])
    assert done.exit_code == 0, done.output
    said = run_in_an_array(folder, tmp_path, path.read_bytes())
    wanted = bd.load(path, threads=1)(image_of_the_example(3, 32, 32))[0]
    np.testing.assert_allclose(said, wanted, rtol=1e-4, atol=1e-4)
    (tmp_path / "memory.c").write_text(MEMORY)
    arena, heap = map(
        int, run(EMULATOR, build(folder, tmp_path / "memory.c", flags=[f"-I{tmp_path}"])).split()
    )
    linked = ["-Wl,--gc-sections", f"-Wl,-Map={tmp_path / 'map'}", f"-I{tmp_path}"]
    build(folder, EXAMPLES / "embedded.c", flags=linked)
    stated = (ROOT / "docs" / "c_api.md").read_text()
    assert f"| flash: the model | {path.stat().st_size:,} |" in stated
    assert f"| RAM: the arena, one image at a time | {arena:,} |" in stated
    rows = re.findall(r"^\| (?:flash: the engine|RAM: what).*\| ([\d,]+) \|$", stated, re.MULTILINE)
    engine, kept = (int(row.replace(",", "")) for row in rows)
    assert linked_bytes(tmp_path / "map") == pytest.approx(engine, rel=0.05)  # another compiler, another size
    assert heap == pytest.approx(kept, rel=0.05)


def test_the_c_example(folder, tmp_path):
    b = Builder(3, 8, 8, seed=3)
    program, images = b.finish(b.conv(b.binarize(0), 10, (8, 8), padding=(0, 0))), b.images(4)
    duo.write(program, tmp_path / "net.duo")
    images.tofile(tmp_path / "images.f32")
    classify = build(folder, EXAMPLES / "classify.c")
    said = run(EMULATOR, classify, tmp_path / "net.duo", tmp_path / "images.f32").decode()
    labels = [int(line.split()[0]) for line in said.splitlines()]
    assert labels == load_program(program, threads=1).predict(images).tolist()
