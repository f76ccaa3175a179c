"""The npm package from its tarball, in Node and in Chromium: the native engine's numbers, and clear errors."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from binaryduo.web.beside import _run
from tests.engine.test_pack import trained_like
from tests.report.browser import find_chromium
from tests.web.programs import PACKAGE, installed_package, node, run_in_node

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return installed_package(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return pack_network(
        "vgg7", {"weight_bits": 1, "width": 0.3, "image_size": 16}, tmp_path_factory.mktemp("duo")
    )


def pack_network(name, options, folder):
    torch = pytest.importorskip("torch")
    import binaryduo as bd

    torch.manual_seed(0)
    model = trained_like(bd.models.build(name, variant="decoupled", **options))
    x = torch.randn(3, 1 if name == "mlp" else 3, options["image_size"], options["image_size"])
    bd.pack(model, x[:1], folder / "net.duo", verbose=False)
    return folder / "net.duo", x.numpy()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"weight_bits": 1, "image_size": 12}),
        ("vgg7", {"weight_bits": 32, "width": 0.25, "image_size": 16}),
        ("alexnet", {"width": 0.2, "image_size": 95, "num_classes": 17}),
        ("resnet18", {"width": 0.4, "image_size": 64, "num_classes": 17}),
        ("resnet18-sc", {"width": 0.3, "image_size": 64, "num_classes": 17}),
    ],
)
def test_same_numbers_as_the_native_engine(name, options, project, tmp_path, monkeypatch):
    """All logits and every activation equal those of the native engine's scalar set, to the last bit. (Its vector
    sets fuse multiplication and addition, which WebAssembly cannot: see docs/web.md.)"""
    import binaryduo as bd

    duo, images = pack_network(name, options, tmp_path)
    monkeypatch.setenv("BINARYDUO_ISA", "scalar")
    native = bd.load(duo, threads=1)
    found, told = run_in_node(project, duo, images)
    np.testing.assert_array_equal(found, native(images))
    traced = native.trace(images[:1])
    assert {tensor["number"] for tensor in told["inside"]} == set(range(len(traced)))
    for tensor in told["inside"]:
        values = np.array(tensor["values"], np.float32).reshape(
            tensor["channels"], tensor["height"], tensor["width"]
        )
        wanted = traced[tensor["number"]][0].transpose(2, 0, 1)
        np.testing.assert_array_equal(values, wanted, err_msg=tensor["name"])


def test_what_is_wrong_is_said(packed, project, tmp_path):
    """Damaged files, wrong arrays, closed models: one sentence each."""
    duo, images = packed
    content = bytearray(duo.read_bytes())
    damaged = {
        "empty": b"",
        "short": bytes(content[:100]),
        "cut": bytes(content[:-64]),
        "text": b"hello" * 100,
    }
    for place in (9, 30, 300, len(content) // 2, len(content) - 1):
        damaged[f"flipped{place}"] = (
            bytes(content[:place]) + bytes([content[place] ^ 1]) + bytes(content[place + 1 :])
        )
    for name, broken in damaged.items():
        (tmp_path / f"{name}.duo").write_bytes(broken)
    script = """
    import { load, DuoError } from "binaryduo";
    const say = async (what, work) => {
      try { await work(); console.log(`${what}: nothing`); }
      catch (e) { console.log(`${what}: ${e instanceof DuoError} ${e.message}`); }
    };
    const [good, size, ...bad] = process.argv.slice(2);
    for (const file of bad) await say(file, () => load(file));
    const model = await load(good);
    await say("missing", () => load("nowhere.duo"));
    await say("kind", () => load(7));
    await say("server", () => load(new Response("", { status: 404 })));
    await say("array", () => model.run([1, 2, 3]));
    await say("length", () => model.run(new Float32Array(Number(size) + 1)));
    await say("nan", () => model.run(new Float32Array(Number(size)).fill(NaN)));
    await say("two", () => model.trace(new Float32Array(2 * Number(size))));
    model.close();
    await say("closed", () => model.run(new Float32Array(Number(size))));
    """
    files = [tmp_path / f"{name}.duo" for name in damaged]
    done = node(project, script, duo, str(images[0].size), *files)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    assert len(lines) == len(damaged) + 8
    for line in lines:
        assert re.match(r".*: true .{15,}", line), line
    said = "\n".join(lines)
    for words in (
        "fewer than a header",
        "checksum differs",
        "ENOENT",
        "404",
        "Float32Array",
        "holds NaN",
        "closed",
    ):
        assert words in said, said
    for name in damaged:
        assert f"{name}.duo is not a packed model" in said, said


def test_no_images_and_many(packed, project):
    duo, images = packed
    many = np.concatenate([images] * 30)
    found, _ = run_in_node(project, duo, many)
    np.testing.assert_array_equal(found[:3], found[-3:])
    script = """
    import { load } from "binaryduo";
    const model = await load(process.argv[2]);
    console.log(model.run(new Float32Array(0)).length);
    """
    assert node(project, script, duo).stdout.strip() == "0"


def test_the_engine_is_built_from_these_sources():
    folders = [ROOT / "csrc" / name for name in ("common", "engine", "include", "web")]
    files = sorted(path for folder in folders for path in folder.glob("*") if path.suffix in (".h", ".cpp"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    assert digest.encode() in (PACKAGE / "engine.wasm").read_bytes(), (
        "the C++ of the engine has changed since engine.wasm was compiled: run 'make wasm' (apt install emscripten) "
        "and commit src/binaryduo/web/npm/engine.wasm"
    )


@pytest.mark.parametrize("page", [ROOT / "docs" / "web.md", PACKAGE / "README.md"], ids=["site", "npm"])
def test_its_size_is_stated(page):
    stated = int(re.search(r"(\d+) KB, one thread, no other package", page.read_text())[1])
    assert (PACKAGE / "engine.wasm").stat().st_size / 1000 == pytest.approx(stated, abs=2)


def test_it_can_be_built_again(tmp_path):
    """The same sources and compiler give the same bytes."""
    if shutil.which("em++") is None:
        pytest.skip("emscripten is not installed: engine.wasm was not compiled again")
    subprocess.run([ROOT / "csrc" / "web" / "build", tmp_path / "engine.wasm"], check=True, timeout=290)
    assert (tmp_path / "engine.wasm").read_bytes() == (PACKAGE / "engine.wasm").read_bytes()


def test_version():
    import json

    import binaryduo as bd

    assert json.loads((PACKAGE / "package.json").read_text())["version"] == bd.__version__


def test_the_tarball_in_a_browser(project, packed, monkeypatch):
    """Served as a site serves it: the package's own files load the model, and give the native engine's numbers."""
    import binaryduo as bd

    browser = find_chromium()
    if browser is None:
        pytest.skip("Chromium is not installed: the tarball was not run in it")
    duo, images = packed
    shutil.copy(duo, project / "net.duo")
    images.astype("<f4").tofile(project / "images.bin")
    (project / "index.html").write_text(
        '<!doctype html><script type="importmap">'
        '{"imports": {"binaryduo": "./node_modules/binaryduo/index.js"}}</script><script type="module">'
        'const send = (what) => fetch("result", { method: "POST", body: JSON.stringify(what) });'
        'try { const { load } = await import("binaryduo"); const model = await load("net.duo");'
        'const images = new Float32Array(await (await fetch("images.bin")).arrayBuffer());'
        "await send({ logits: Array.from(model.run(images)), bytes: model.bytes });"
        "} catch (error) { await send({ error: String(error) }); }</script>"
    )
    monkeypatch.setenv("BINARYDUO_ISA", "scalar")
    answer = _run(browser, project, seconds=120)
    assert answer.get("bytes") == duo.stat().st_size, answer
    wanted = bd.load(duo, threads=1)(images)
    np.testing.assert_array_equal(np.float32(answer["logits"]).reshape(wanted.shape), wanted)
