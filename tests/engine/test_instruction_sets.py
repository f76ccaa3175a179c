"""Every instruction set gives the same bits: those of this CPU on whole networks, those that it lacks against the
scalar reference (AVX-512 through SIMDe, NEON in qemu, WebAssembly in Node)."""

import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.engine.test_pack import trained_like

CSRC = Path(__file__).parents[2] / "csrc"
SOURCES = [
    CSRC / "engine" / f"kernels_{name}.cpp"
    for name in ("scalar", "avx2", "avx512", "avx512vbmi", "amx", "neon", "wasm")
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
    agrees([program], "amx")


def test_wasm(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: WebAssembly was not checked")
    program = build(
        "em++", tmp_path / "compare.wasm", "-msimd128", "-sSTANDALONE_WASM", "-sALLOW_MEMORY_GROWTH"
    )
    agrees(["node", "--no-warnings", CSRC / "checks" / "run_wasi.mjs", program], "wasm")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"weight_bits": 1, "image_size": 12}),
        ("vgg7", {"weight_bits": 1, "image_size": 17}),
        ("vgg7", {"weight_bits": 32, "width": 0.25, "image_size": 16}),
        ("alexnet", {"width": 0.33, "image_size": 95, "num_classes": 17}),
        ("resnet18", {"width": 0.7, "image_size": 96, "num_classes": 17}),
        ("resnet18-sc", {"width": 0.5, "image_size": 64, "num_classes": 17}),
    ],
)
def test_every_set_on_every_network(name, options, tmp_path, monkeypatch):
    """The vector sets add floats in one order: the same logits to the last bit. The scalar set does not fuse
    multiplication and addition: its layers are compared one by one, on the bits that the others computed."""
    torch = pytest.importorskip("torch")
    import binaryduo as bd
    from binaryduo.engine import _native, reference
    from binaryduo.engine.program import Code, Storage

    torch.manual_seed(0)
    model = trained_like(bd.models.build(name, variant="decoupled", **options))
    channels = 1 if name == "mlp" else 3
    x = torch.randn(3, channels, options["image_size"], options["image_size"])
    bd.pack(model, x[:1], tmp_path / "net.duo", verbose=False)
    logits, traces = {}, {}
    for isa in _native.available().split():
        monkeypatch.setenv("BINARYDUO_ISA", isa)
        packed = bd.load(tmp_path / "net.duo", threads=1)
        logits[isa], traces[isa] = packed(x.numpy()), packed.trace(x[:1].numpy())
    fused = [isa for isa in logits if isa != "scalar"]
    for isa in fused:
        np.testing.assert_array_equal(logits[isa], logits[fused[0]])
    for isa in logits:
        for op in packed.program.ops:
            for number, wanted in reference.step(packed.program, op, traces[isa]).items():
                if op.code == Code.BINARY_CONV and packed.program.tensors[number].kind == Storage.BITS:
                    integers = op.threshold is not None and op.threshold.dtype.kind == "i"
                    wrong = np.mean(traces[isa][number] != wanted)
                    assert wrong == 0 if integers else wrong < 1e-3, (isa, op.name)
