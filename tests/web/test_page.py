"""`binaryduo web` in a real browser: the page answers, draws its bits, and computes the native engine's numbers."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import binaryduo as bd
from binaryduo.cli.app import app
from binaryduo.errors import ArgumentError
from binaryduo.web import page
from tests.report.browser import Browser, find_chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    command = find_chromium()
    if command is None:
        pytest.skip("Chromium is not installed: the page was not looked at")
    with Browser(command, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "new"
    done = CliRunner().invoke(app, ["web", "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder / "index.html"


def test_same_numbers_as_the_native_engine(browser, written, monkeypatch):
    browser.open(written)
    monkeypatch.setenv("BINARYDUO_ISA", "scalar")
    native = bd.load(page.DEMO_MODEL, threads=1)
    images = np.random.default_rng(0).normal(size=(4, *native.input_shape)).astype(np.float32)
    call = f"Array.from(binaryduo.model.run(new Float32Array({json.dumps(images.ravel().tolist())})))"
    np.testing.assert_array_equal(np.array(browser.value(call), np.float32).reshape(4, -1), native(images))


def test_the_examples_get_the_native_engines_answers(browser, written):
    """The page scales a picture up and down again, which may turn one of the ten."""
    browser.open(written)
    names = browser.value("[...document.querySelectorAll('#examples img')].map(image => image.alt)")
    assert len(names) == 10
    said = []
    for i in range(10):
        said.append(
            browser.value(
                f"(async () => {{ document.querySelectorAll('#examples button')[{i}].click();"
                "await new Promise(done => setTimeout(done, 250));"
                "return document.querySelector('#classes .first .name').textContent; })()"
            )
        )
    native = bd.load(page.DEMO_MODEL)
    pictures = np.stack([np.asarray(Image.open(path)) for path in sorted(page.DEMO.glob("*.png"))])[:, None]
    wanted = native.predict((pictures / 255 - 0.2867) / 0.354)
    classes = native.program.meta["classes"].split("\n")
    assert sum(classes[i] == answer for i, answer in zip(wanted, said, strict=True)) >= 9
    assert browser.errors == []


def test_drawing_changes_the_bits(browser, written):
    browser.open(written)
    shown = "(() => { const c = document.querySelector('.layer canvas'); return c.toDataURL(); })()"
    browser.value("document.querySelector('#clear').click()")
    browser.value("new Promise(done => setTimeout(done, 200))")
    before = browser.value(shown)
    box = browser.value(
        "(({x, y, width}) => [x, y, width])(document.querySelector('#canvas').getBoundingClientRect())"
    )
    browser.drag((box[0] + 40, box[1] + 40), (box[0] + box[2] - 40, box[1] + box[2] - 60))
    browser.value("new Promise(done => setTimeout(done, 200))")
    assert browser.value(shown) != before
    layers = browser.value("document.querySelectorAll('.layer').length")
    assert layers == sum(t.kind == 1 for t in bd.load(page.DEMO_MODEL).program.tensors)


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits(browser, written, width):
    browser.resize(width, 900, mobile=width < 500)
    browser.open(written, again=True)
    assert browser.value("document.documentElement.scrollWidth") <= width
    browser.resize(1200, 900)


def test_a_users_own(tmp_path):
    """Own names and pictures are in the page and cannot become part of its code."""
    names = [f"</script><b>{i}" for i in range(10)]
    text = page.build(page.DEMO_MODEL, names, title="<script>{data}")
    assert "</script><b>" not in text
    assert "<title>&lt;script&gt;{data}</title>" in text
    with pytest.raises(ArgumentError, match="has 10 classes, and 2 names"):
        page.build(page.DEMO_MODEL, ["cat", "dog"])
    (tmp_path / "names.txt").write_text("\n".join(f"n{i}" for i in range(10)))
    command = ["web", str(page.DEMO_MODEL), "--out", str(tmp_path), "--classes", str(tmp_path / "names.txt")]
    command += ["--example", str(page.DEMO / "0-sneaker.png")]
    assert CliRunner().invoke(app, command).exit_code == 0
    again = CliRunner().invoke(app, command)
    assert again.exit_code
    assert "exists already" in str(again.exception)


def test_what_is_no_picture_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3), bd.nn.QuantAct(), bd.nn.BinaryConv2d(4, 4, 3)
    ).eval()
    bd.pack(model, torch.randn(1, 2, 8, 8), tmp_path / "two.duo", verbose=False)
    with pytest.raises(ArgumentError, match="one or three channels"):
        page.build(tmp_path / "two.duo")
