"""`binaryduo bench web`: what is missing is named; a page's answer arrives. Measuring needs npm's network."""

import pytest

from binaryduo.errors import ArgumentError
from binaryduo.web import beside
from tests.report.browser import find_chromium


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ArgumentError, match="npm install onnxruntime-web"):
        beside.ort_folder(tmp_path)
    with pytest.raises(ArgumentError, match="no-such-browser was not found"):
        beside.find_browser("no-such-browser")
    (tmp_path / "dist").mkdir()
    for name in beside.ORT_FILES:
        (tmp_path / "dist" / name).touch()
    assert beside.ort_folder(tmp_path) == tmp_path / "dist"


def test_a_pages_answer_arrives(tmp_path):
    browser = find_chromium()
    if browser is None:
        pytest.skip("Chromium is not installed: not checked here")
    script = "fetch('result', {method: 'POST', body: JSON.stringify({found: 6 * 7, fine_clock: crossOriginIsolated})})"
    (tmp_path / "index.html").write_text(f"<!doctype html><script>{script}</script>")
    assert beside._run(browser, tmp_path, 60) == {"found": 42, "fine_clock": True}
