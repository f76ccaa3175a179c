"""`binaryduo web --compare`: ONNX Runtime Web inside the page. What is wrong is named; the page times both."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from binaryduo.cli.app import app
from binaryduo.errors import ArgumentError
from binaryduo.web import beside, page
from binaryduo.web.compare import comparison
from tests.report.browser import Browser, find_chromium


def invoke(*words):
    return CliRunner().invoke(app, ["web", *map(str, words)])


def test_what_is_missing_is_named(tmp_path):
    found = invoke("--out", tmp_path, "--compare", tmp_path)
    assert isinstance(found.exception, ArgumentError)
    assert "npm install onnxruntime-web" in str(found.exception)
    found = invoke(page.DEMO_MODEL, "--out", tmp_path, "--compare", tmp_path)
    assert "--full-precision NET.onnx" in str(found.exception)
    found = invoke("--out", tmp_path, "--full-precision", "net.onnx")
    assert "give --compare" in str(found.exception)
    assert not list(tmp_path.iterdir())


def test_a_page_without_it_loads_nothing():
    text = page.build(page.DEMO_MODEL)
    assert "compare.js" not in text
    assert "'wasm-unsafe-eval'\"" in text


def stand_in(folder):
    for name in beside.ORT_BUNDLE:
        (folder / name).write_bytes(name.encode())
    return folder


def test_both_networks_are_beside_the_page(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    text = comparison(stand_in(tmp_path), page.DEMO_MODEL, None)
    data = json.loads(text.removeprefix("globalThis.compared = ").rstrip().rstrip(";"))
    assert base64.b64decode(data["wasm"]) == beside.ORT_BUNDLE[1].encode()
    full, small = (onnx.load_from_string(base64.b64decode(one["onnx"])) for one in data["networks"])
    floats = sum(np.prod(w.dims) for w in full.graph.initializer if w.data_type == onnx.TensorProto.FLOAT)
    bytes_ = sum(np.prod(w.dims) for w in small.graph.initializer if w.data_type == onnx.TensorProto.INT8)
    assert 0.9 * floats < bytes_ < 1.1 * floats  # its weights are bytes
    (tmp_path / "no.onnx").write_bytes(b"no network")
    with pytest.raises(ArgumentError, match="is not an ONNX network for one picture of 1 × 28 × 28"):
        comparison(tmp_path, page.DEMO_MODEL, tmp_path / "no.onnx")


def onnxruntime_web(tmp_path) -> Path:
    """The npm package, where this machine has it or the registry can be reached."""
    named = os.environ.get("ONNXRUNTIME_WEB")
    if named:
        return Path(named)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: ONNX Runtime Web was not run in the page")
    command = [npm, "install", "--silent", "--prefer-offline", "--no-audit", "onnxruntime-web@1.30.0"]
    try:
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    except (subprocess.SubprocessError, OSError):
        pytest.skip("npm cannot get onnxruntime-web here: it was not run in the page")
    return tmp_path / "node_modules" / "onnxruntime-web"


def test_the_page_times_all_three(tmp_path):
    pytest.importorskip("onnxruntime")
    command = find_chromium()
    if command is None:
        pytest.skip("Chromium is not installed: the page was not looked at")
    done = invoke("--out", tmp_path / "page", "--compare", onnxruntime_web(tmp_path))
    assert done.exit_code == 0, done.output
    with Browser(command, tmp_path / "profile") as browser:
        browser.open(tmp_path / "page" / "index.html")
        cells = "[...document.querySelectorAll('#compare-rows tr')].map(r => [...r.cells].map(c => c.textContent))"
        browser.value(
            "new Promise(done => { const look = () => document.querySelectorAll('#compare-rows tr').length === 3 "
            "&& document.querySelector('#compare-rows tr:last-child td:last-child').textContent ? done() "
            ": setTimeout(look, 100); look(); })"
        )
        rows = browser.value(cells)
        assert browser.errors == []
    assert [row[0] for row in rows] == [
        "binaryduo, this file",
        "ONNX Runtime Web, fp32",
        "ONNX Runtime Web, int8",
    ]
    times = [float(row[2].removesuffix(" ms")) for row in rows]
    assert all(time > 0 for time in times)
    for row, time in zip(rows[1:], times[1:], strict=True):
        assert float(row[3].split(" ×")[0]) == pytest.approx(time / times[0], rel=0.15, abs=0.2)
