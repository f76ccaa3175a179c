"""libbinaryduo as its users have it: installed into a folder, found by pkg-config and CMake, called from C and through
ctypes, with the same results as `bd.load`."""

import ctypes as c
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import binaryduo
from binaryduo.engine import format as duo
from binaryduo.engine.runtime import load
from tests.engine.programs import Builder, load_program

ROOT = Path(__file__).parents[2]
CMAKE = Path(sys.executable).with_name("cmake")
pytestmark = [
    pytest.mark.skipif(not CMAKE.exists(), reason="cmake is not installed beside Python"),
    pytest.mark.skipif(sys.platform != "linux", reason="names of libraries are those of Linux"),
]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The folder that `cmake --install` fills."""
    folder = tmp_path_factory.mktemp("library")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    to = [f"-DCMAKE_INSTALL_PREFIX={folder / 'prefix'}", "-DCMAKE_INSTALL_LIBDIR=lib", *launcher]
    run(CMAKE, "-S", ROOT, "-B", folder / "build", "-G", "Ninja", *to, env=tools())
    run(CMAKE, "--build", folder / "build", env=tools())
    run(CMAKE, "--install", folder / "build")
    return folder / "prefix"


def tools(**more):
    return {**os.environ, "PATH": f"{CMAKE.parent}:{os.environ['PATH']}", **more}


def network():
    """A program with float and binary layers, and images for it."""
    b = Builder(3, 12, 12, seed=11)
    x = b.conv(0, 40, out="bits")
    x = b.conv(x, 64, out="bits", integer=True)
    return b.finish(b.conv(x, 10, (12, 12), padding=(0, 0))), b.images(5)


@pytest.fixture
def packed(tmp_path):
    program, images = network()
    duo.write(program, tmp_path / "net.duo")
    images.tofile(tmp_path / "images.f32")
    return tmp_path / "net.duo", images


def check_classify(said, path, images):
    logits = load(path, threads=1)(images)
    lines = [line.split() for line in said.splitlines()]
    assert [int(label) for label, _ in lines] == logits.argmax(axis=1).tolist()
    np.testing.assert_array_equal(np.float32([value for _, value in lines]), logits.max(axis=1))


@pytest.mark.parametrize("static", [False, True])
def test_the_c_example_with_pkg_config(prefix, packed, tmp_path, static):
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    folder = tmp_path / "empty"
    folder.mkdir()
    shutil.copy(ROOT / "examples" / "classify.c", folder)
    found = tools(PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", *(["--static"] * static), "binaryduo", env=found).split()
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    if static:
        flags = [str(prefix / "lib" / "libbinaryduo.a") if f == "-lbinaryduo" else f for f in flags]
    run("cc", *strict, "classify.c", *flags, "-o", "classify", cwd=folder)
    path, images = packed
    said = run(
        folder / "classify", path, tmp_path / "images.f32", env={"LD_LIBRARY_PATH": str(prefix / "lib")}
    )
    check_classify(said, path, images)
    refused = subprocess.run(
        [folder / "classify", tmp_path / "none.duo", tmp_path / "images.f32"],
        capture_output=True,
        text=True,
        env={"LD_LIBRARY_PATH": str(prefix / "lib")},
    )
    assert refused.returncode == 1
    assert refused.stderr == f"{tmp_path}/none.duo cannot be read: No such file or directory\n"


def test_the_rust_program_of_the_page(prefix, tmp_path):
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed")
    page = (ROOT / "docs" / "c_api.md").read_text()
    (tmp_path / "classify.rs").write_text(re.search(r"```rust\n(.*?)```", page, re.DOTALL)[1])
    run("rustc", "-O", "-D", "warnings", "-L", prefix / "lib", "classify.rs", cwd=tmp_path)
    program, images = network()
    duo.write(program, tmp_path / "net.duo")
    libraries = {"LD_LIBRARY_PATH": str(prefix / "lib")}
    said = run(tmp_path / "classify", tmp_path / "net.duo", env=libraries)
    wanted = load_program(program, threads=1)(np.full_like(images[:1], 0.5))[0]
    np.testing.assert_array_equal(np.float32(json.loads(said)), wanted)


def test_find_package(prefix, packed, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "examples" / "classify.c", folder)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(mine C CXX)\nfind_package(binaryduo 0.1 REQUIRED)\n"
        "add_executable(shared classify.c)\ntarget_link_libraries(shared binaryduo::binaryduo)\n"
        "add_executable(static classify.c)\ntarget_link_libraries(static binaryduo::binaryduo_static)\n"
    )
    run(CMAKE, "-S", folder, "-B", folder / "b", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", env=tools())
    run(CMAKE, "--build", folder / "b", env=tools())
    path, images = packed
    for name in ("shared", "static"):
        check_classify(run(folder / "b" / name, path, tmp_path / "images.f32"), path, images)


def test_small_and_only_duo_is_seen(prefix, tmp_path):
    library = shutil.copy((prefix / "lib" / "libbinaryduo.so").resolve(), tmp_path / "lib.so")
    run("strip", library)
    assert library.stat().st_size < 300_000  # docs/c_api.md states it
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    declared = (ROOT / "csrc" / "include" / "duo.h").read_text()
    assert len(names) > 15
    assert all(name.startswith("duo_") and f"{name}(" in declared for name in names)


# ---- the same functions through ctypes ----


class Options(c.Structure):
    _fields_ = [
        ("threads", c.c_size_t),
        ("share", c.c_void_p),
        ("pool", c.c_void_p),
        ("together", c.c_size_t),
        ("name", c.c_char_p),
    ]


class Tensor(c.Structure):
    _fields_ = [
        *[(n, c.c_uint32) for n in ("number", "kind", "channels", "height", "width", "copies")],
        ("bytes", c.c_size_t),
    ]


class Written(c.Structure):
    _fields_ = [
        ("operation", c.c_size_t),
        ("tensor", c.c_uint32),
        ("first_image", c.c_size_t),
        ("images", c.c_size_t),
        ("values", c.c_void_p),
    ]


WATCH = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Written))


class Api:
    """duo.h, with sentences as ValueErrors."""

    def __init__(self, prefix):
        self.lib = c.CDLL(str(prefix / "lib" / "libbinaryduo.so"))
        for name in ("inputs", "outputs", "tensors", "operations", "arena_bytes"):
            getattr(self.lib, f"duo_{name}").restype = c.c_size_t
        for name in ("metadata", "instruction_set", "version"):
            getattr(self.lib, f"duo_{name}").restype = c.c_char_p

    def call(self, name, *arguments):
        error = c.create_string_buffer(384)
        status = getattr(self.lib, f"duo_{name}")(*arguments, error)
        if status:
            raise ValueError(f"{status}: {error.value.decode()}")

    def open(self, content, options=None):
        model = c.c_void_p()
        self.call(
            "open_memory", content, c.c_size_t(len(content)), options and c.byref(options), c.byref(model)
        )
        return model

    def run(self, model, images, result, arena=None, watch=None):
        size = self.lib.duo_arena_bytes(model)
        if arena is None:
            arena = np.full(size + 1, 255, np.uint8)[1:]  # any address, any content
        inputs, outputs = (c.c_void_p * 1)(images.ctypes.data), (c.c_void_p * 1)(result.ctypes.data)
        self.call(
            "run_watched", model, c.c_size_t(len(images)), inputs, outputs, c.c_void_p(arena.ctypes.data),
            c.c_size_t(arena.size), watch, None,
        )  # fmt: skip
        return result


@pytest.fixture(scope="module")
def api(prefix):
    return Api(prefix)


def test_description_and_results(api):
    program, images = network()
    content = duo.to_bytes(program)
    model = api.open(content)
    lib, tensor = api.lib, Tensor()
    assert lib.duo_version().decode() == binaryduo.__version__
    assert (lib.duo_inputs(model), lib.duo_outputs(model)) == (1, 1)
    assert (lib.duo_tensors(model), lib.duo_operations(model)) == (len(program.tensors), len(program.ops))
    for number, expected in enumerate(program.tensors):
        api.call("tensor_of", model, c.c_size_t(number), c.byref(tensor))
        assert (tensor.channels, tensor.height, tensor.width) == expected.shape
        assert (tensor.number, tensor.kind, tensor.copies) == (number, expected.kind, expected.copies)
        assert tensor.bytes == expected.pixel_bytes * expected.height * expected.width
    python = load_program(program, threads=1)
    assert lib.duo_instruction_set(model).decode() == python.isa
    result = api.run(model, images, np.empty((5, 10), np.float32))
    np.testing.assert_array_equal(result, python(images))
    lib.duo_close(model)
    lib.duo_close(None)


def test_images_together_and_threads_change_nothing(api):
    program, images = network()
    wanted, content = load_program(program, threads=1)(images), duo.to_bytes(program)
    pool = c.c_void_p()
    api.call("pool_open", c.c_size_t(3), c.byref(pool))
    share = c.cast(api.lib.duo_pool_share, c.c_void_p).value
    sizes = []
    for together, threads in ((1, 1), (2, 1), (64, 1), (0, 3)):
        model = api.open(content, Options(threads, share, pool, together))
        sizes.append(api.lib.duo_arena_bytes(model))
        for _ in range(20 if threads > 1 else 1):
            result = api.run(model, images, np.empty((5, 10), np.float32))
            np.testing.assert_array_equal(result, wanted)
        api.lib.duo_close(model)
    assert sizes[0] < sizes[1] < sizes[2]
    api.lib.duo_pool_close(pool)


def test_watching_gives_every_tensor_once(api):
    program, images = network()
    model, seen = api.open(duo.to_bytes(program), Options(together=2)), []

    @WATCH
    def watch(_, written):
        w = written.contents
        seen.append((w.operation, w.tensor, w.first_image, w.images))

    api.run(model, images, np.empty((5, 10), np.float32), watch=watch)
    parts = [(0, 2), (2, 2), (4, 1)]
    steps = [
        (c.c_size_t(-1).value, 0),
        *((i, max(op.out_float, op.out_bits)) for i, op in enumerate(program.ops)),
    ]
    assert seen == [(*step, *part) for part in parts for step in steps]
    api.lib.duo_close(model)


def test_every_refusal_is_a_code_and_a_sentence(api, tmp_path, monkeypatch):
    program, images = network()
    content = duo.to_bytes(program)
    changed = bytearray(content)
    changed[1000] ^= 1
    for bad, sentence in (
        (b"", "it has 0 bytes, fewer than a header"),
        (b"x" * 300, "its first bytes are not those of a .duo file"),
        (bytes(changed), r"its section \w+ is altered \(the checksum differs\)"),
        (content[:-1], f"it has {len(content) - 1} bytes where its header says {len(content)}"),
    ):
        with pytest.raises(
            ValueError, match=f"^3: the memory is not a packed model that can be used: {sentence}$"
        ):
            api.open(bad)
    with pytest.raises(ValueError, match=r"^1: options ask for 2 threads"):
        api.open(content, Options(threads=2))
    with pytest.raises(ValueError, match=r"^4: the memory needs more memory than there is$"):
        api.open(content, Options(together=2**62))
    for path, sentence in ((tmp_path, "Is a directory"), (tmp_path / "none", "No such file")):
        with pytest.raises(ValueError, match=f"^2: .* cannot be read: {sentence}"):
            api.call("open", str(path).encode(), None, c.byref(c.c_void_p()))
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match=r"^3: .*empty is not a packed model that can be used: it is empty$"):
        api.call("open", str(tmp_path / "empty").encode(), None, c.byref(c.c_void_p()))
    with pytest.raises(ValueError, match=r"^1: a pool has 1 to 256 threads, not 0$"):
        api.call("pool_open", c.c_size_t(0), c.byref(c.c_void_p()))
    model, tensor = api.open(content), Tensor()
    with pytest.raises(ValueError, match=r"^1: there is no output 1: the model has 1$"):
        api.call("output", model, c.c_size_t(1), c.byref(tensor))
    with pytest.raises(ValueError, match=r"^1: the arena has 64 bytes and must have"):
        api.run(model, images, np.empty((5, 10), np.float32), arena=np.empty(64, np.uint8))
    api.lib.duo_close(model)
