"""The HTML report in a real browser: no errors, tables sort, plots respond; half-finished runs are shown as such."""

import json
import shutil
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from binaryduo.cli.app import app
from binaryduo.paper.artefacts import ARTEFACTS
from binaryduo.report import costs, figures, headline, paper_report, run_report
from binaryduo.report.runs import read_run
from binaryduo.training import Data, Loop, Model, Recipe, Stage, duo
from tests.report.browser import Browser, find_chromium


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real two-stage run, with a search, a mismatch profile and a table of speeds beside it; and broken ones."""
    place = tmp_path_factory.mktemp("runs")
    recipe = Recipe(
        name="tiny",
        data=Data(name="fashion-mnist-small"),
        model=Model(network="mlp", width=0.05),
        train=Stage(epochs=2, lr=1e-2),
        finetune=Stage(epochs=1, lr=1e-3),
        loop=Loop(batch=1000, engine="eager", tensorboard=False),
    )
    duo(recipe, place / "whole")
    settings = [
        {"weight_decay": decay, "lr": lr, "mean": 80 + 10 * decay - lr, "std": 0.1, "n": 2, "failed": 0}
        for decay in (0.001, 0.01, 0.1)
        for lr in (0.001, 0.01)
    ]
    cases = {
        "coupled": {"title": "coupled <ternary>", "settings": settings},
        "late": {"title": "late", "settings": []},
    }
    (place / "whole" / "results.json").write_text(
        json.dumps({"format": "binaryduo-search/1", "cases": cases})
    )
    layers = [{"name": f"hidden.{i}", "cosine": 0.5 + 0.1 * i, "interval": [0.4, 0.9]} for i in range(3)]
    (place / "whole" / "mismatch.json").write_text(
        json.dumps([{"ste": "relu1", "layers": layers, "total": 0.6}])
    )
    speeds = [
        {"engine": name, "images_per_second": rate} for name, rate in (("packed", 900.5), ("torch", 1000.25))
    ]
    (place / "whole" / "speed.json").write_text(json.dumps(speeds))
    quick = ["--no-layers", "--no-growth", "--no-memory", "--rounds", "1", "--threads", "1"]
    speeds_file = str(place / "whole" / "inference.json")
    for command in (
        ["pack", str(place / "whole"), str(place / "whole" / "net.duo")],
        ["bench", "infer", "--networks", "vgg7:1", *quick, "--out", speeds_file],
    ):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    half = place / "half"
    (half / "coupled").mkdir(parents=True)
    shutil.copy(place / "whole" / "recipe.yaml", half)
    lines = (place / "whole" / "coupled" / "metrics.jsonl").read_text().splitlines()
    (half / "coupled" / "metrics.jsonl").write_text(lines[0] + "\n" + lines[-1][:20])
    (half / "summary.json").write_text('{"coupled": {')
    (half / "broken.duo").write_bytes(b"not a packed model")
    (place / "empty").mkdir()
    return place


@pytest.fixture(scope="module")
def page(runs: Path) -> Path:
    """The report of all of them."""
    path = runs / "report.html"
    names = ("whole", "half", "empty", "missing")
    result = CliRunner().invoke(app, ["report", *[str(runs / name) for name in names], "--out", str(path)])
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    command = find_chromium()
    if command is None:
        pytest.skip("no Chromium here, and it cannot be installed")
    with Browser(command, tmp_path_factory.mktemp("profile")) as found:
        yield found


def test_states_of_runs(runs: Path) -> None:
    assert {name: read_run(runs / name).state for name in ("whole", "half", "empty", "missing")} == {
        "whole": "complete",
        "half": "unfinished",
        "empty": "empty",
        "missing": "missing",
    }
    half = read_run(runs / "half")
    assert len(half.stages[0].epochs) == 1
    assert len(half.problems) == 3  # the cut line, the cut summary, the packed file that is none


def test_one_small_file_without_addresses(page: Path) -> None:
    text = page.read_text()
    assert len(text) < 5_000_000
    assert "<link" not in text
    assert "src=" not in text.split("<script")[0]
    assert "This run is not finished" in text
    assert "There is no such run" in text
    assert "no setting is finished yet" in text
    assert "coupled <ternary>" not in text.split('id="figures"')[0]  # a user's text is escaped
    assert "MIT License" in text


def test_packed_file_and_measured_speed_are_told(runs: Path, page: Path) -> None:
    run = read_run(runs / "whole")
    assert not run.problems
    assert [(p["file"], p["bytes"]) for p in run.packed] == [
        ("net.duo", (runs / "whole" / "net.duo").stat().st_size)
    ]
    assert dict(run.speeds)["inference"][0]["contender"] == "binaryduo"
    text = page.read_text()
    assert "net.duo" in text
    assert "ONNX Runtime fp32" in text


def test_arguments(tmp_path: Path) -> None:
    runner = CliRunner()
    assert "not both" in str(runner.invoke(app, ["report"]).exception)
    assert "not both" in str(runner.invoke(app, ["report", str(tmp_path), "--paper"]).exception)


def test_the_papers_numbers_stand_beside_their_own_networks_only(runs: Path) -> None:
    run = read_run(runs / "whole")
    assert run_report.paper_accuracy(run, run.stages[0]) is None  # not the paper's network
    run.recipe["model"] |= {"network": "vgg7", "levels": "default"}
    run.recipe["data"]["name"] = "cifar10"
    assert [run_report.paper_accuracy(run, stage) for stage in run.stages] == [89.69, 90.44]
    run.recipe["model"]["levels"] = 4
    assert run_report.paper_accuracy(run, run.stages[0]) is None


def test_the_cost_is_that_of_the_decoupled_network(runs: Path) -> None:
    variant, cost = costs.cost_of(read_run(runs / "whole"))
    assert variant == "decoupled"
    assert str(cost.layers[1].kind) == "CopiedBatchNorm1d"


def test_in_a_browser(page: Path, browser: Browser) -> None:
    browser.errors.clear()
    browser.open(page)
    assert browser.value("document.querySelectorAll('.plot .main-svg').length") > 0
    count = browser.value("document.querySelectorAll('.plot').length")
    drawn = browser.value(
        "[...document.querySelectorAll('.plot')].filter(p => p.querySelector('.main-svg')).length"
    )
    assert drawn == count >= 6
    assert browser.errors == []


def test_tables_sort_by_mouse_and_keyboard(page: Path, browser: Browser) -> None:
    browser.open(page)
    column = (
        "[...document.querySelectorAll('table.sortable')].find(t => t.caption.textContent.includes('speed'))"
        ".tBodies[0].rows"
    )
    names = f"[...{column}].map(r => r.cells[0].textContent).join()"
    head = column.replace(".tBodies[0].rows", ".tHead.rows[0].cells[1]")
    assert browser.value(names) == "packed,torch"
    browser.value(f"{head}.querySelector('button').click()")  # as numbers: 900.5 < 1,000.25
    assert browser.value(names) == "packed,torch"
    assert browser.value(f"{head}.getAttribute('aria-sort')") == "ascending"
    browser.value(f"{head}.querySelector('button').focus()")
    browser.press("Enter")
    assert browser.value(names) == "torch,packed"
    assert browser.value(f"{head}.getAttribute('aria-sort')") == "descending"


def test_plots_respond(page: Path, browser: Browser) -> None:
    browser.open(page)
    browser.value("document.getElementById('plot0').scrollIntoView({block: 'center'})")
    box = browser.value(
        "(() => { const b = document.querySelector('#plot0 .nsewdrag').getBoundingClientRect();"
        " return [b.x, b.y, b.width, b.height]; })()"
    )
    x, y, width, height = box
    browser.move(x + width * 0.52, y + height / 2)
    _until(browser, "document.querySelectorAll('#plot0 .hoverlayer text').length > 0")
    before = browser.value("document.getElementById('plot0').layout.xaxis.range.join()")
    browser.drag((x + width * 0.3, y + height * 0.3), (x + width * 0.7, y + height * 0.8))
    _until(browser, f"document.getElementById('plot0').layout.xaxis.range.join() !== '{before}'")
    button = "document.querySelector('button.log')"
    target = f"document.getElementById({button}.dataset.for).layout.yaxis.type"
    browser.value(f"{button}.focus()")
    browser.press("Enter")
    _until(browser, f"{target} === 'log'")
    assert browser.value(f"{button}.getAttribute('aria-pressed')") == "true"
    assert browser.errors == []


def test_light_and_dark(page: Path, browser: Browser) -> None:
    browser.prefer("dark")
    browser.open(page)
    browser.value("localStorage.clear()")
    browser.open(page, again=True)
    assert browser.value("document.documentElement.dataset.theme") == "dark"
    ground = "getComputedStyle(document.body).backgroundColor"
    dark, ink = browser.value(ground), browser.value("document.getElementById('plot0').layout.font.color")
    browser.value("document.getElementById('theme').click()")
    assert browser.value("document.documentElement.dataset.theme") == "light"
    assert browser.value(ground) != dark
    assert browser.value("document.getElementById('plot0').layout.font.color") != ink
    browser.value("localStorage.clear()")
    browser.prefer("light")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_of_text(theme: str, page: Path, browser: Browser) -> None:
    """Every colour of text has at least 4.5 : 1 on both grounds (WCAG AA)."""
    browser.open(page)
    browser.value(f"document.documentElement.dataset.theme = '{theme}'")
    names = ("--ground", "--raised", "--ink", "--soft", "--link", "--good", "--bad", "--open")
    values = {
        name: browser.value(f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()")
        for name in names
    }
    for name in names[2:]:
        for ground in names[:2]:
            assert _contrast(values[name], values[ground]) >= 4.5, (name, ground)


def test_on_a_phone(page: Path, browser: Browser) -> None:
    """Nothing is wider than the screen but what scrolls by itself."""
    browser.open(page)
    browser.resize(390, 844, mobile=True)
    _until(browser, "document.querySelector('#plot0 .main-svg').getBoundingClientRect().width <= 390")
    _until(browser, "document.documentElement.scrollWidth <= 390")  # the other plots follow
    assert (
        browser.value("Math.max(...[...document.querySelectorAll('.plot')].map(p => p.clientWidth))") <= 390
    )
    browser.resize(1200, 900)


def test_names_for_everything(page: Path, browser: Browser) -> None:
    """Plots, buttons and scrolling regions have names; headings do not skip a level."""
    browser.open(page)
    assert browser.value("[...document.querySelectorAll('.plot')].every(p => p.getAttribute('aria-label'))")
    assert browser.value(
        "[...document.querySelectorAll('button')].every(b => (b.textContent + (b.ariaLabel ?? '')).trim())"
    )
    levels = browser.value("[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert browser.value(
        "new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size"
    ) == browser.value("document.querySelectorAll('[id]').length")


def test_the_papers_page(tmp_path: Path, browser: Browser) -> None:
    browser.errors.clear()
    text = paper_report.build()
    assert len(text) < 5_000_000
    path = tmp_path / "paper.html"
    path.write_text(text)
    browser.open(path)
    assert browser.value("[...document.images].every(i => i.complete && i.naturalWidth > 100 && i.alt)")
    assert browser.value("document.querySelectorAll('.claim').length") >= 15
    rows = "document.querySelector('table.sortable').tBodies[0].rows"
    assert browser.value(f"{rows}.length") == len(ARTEFACTS)
    assert browser.value(f"Math.max(...[...{rows}].map(r => r.cells[2].textContent.length))") < 80
    browser.value(
        "document.querySelector('table.sortable').tHead.rows[0].cells[4].querySelector('button').click()"
    )
    assert browser.value(f"{rows}[0].cells[4].textContent") in ("does not hold", "holds")
    browser.value("document.documentElement.dataset.theme = 'dark'")
    assert browser.value("getComputedStyle(document.querySelector('figure img')).filter").startswith("invert")
    browser.value("window.scrollTo(0, 5000)")
    assert browser.value("document.querySelector('nav').getBoundingClientRect().top") == 0  # the menu stays
    browser.resize(390, 844, mobile=True)
    assert browser.value("document.documentElement.scrollWidth") <= 390
    browser.value("document.getElementById('menu').click()")
    assert browser.value("document.getElementById('contents').getBoundingClientRect().height") > 200
    browser.press("Escape")
    _until(browser, "document.getElementById('contents').getBoundingClientRect().height === 0")
    browser.resize(1200, 900)
    assert browser.errors == []


def test_a_headline_for_every_kind_of_folder(runs: Path, tmp_path: Path) -> None:
    """What was trained on what, and the result in a sentence, from the same numbers as the files have."""
    whole = read_run(runs / "whole")
    last = json.loads((runs / "whole" / "summary.json").read_text())["finetuned"]["last"]["top1"]
    assert headline.what(whole) == "MLP at width 0.05 on Fashion-MNIST (10,000 images)"
    assert (
        f"classifies {last:.2f} % of the 2,000 test images correctly after 2 + 1 epochs"
        in headline.result(whole)
    )
    assert "The coupled network classifies" in headline.result(read_run(runs / "half"))
    assert headline.result(read_run(runs / "empty")) == "This folder holds no run."
    (tmp_path / "results.json").write_text((runs / "whole" / "results.json").read_text())
    search = headline.result(read_run(tmp_path))
    assert search.startswith(
        "6 settings were tried. The best: coupled <ternary>: 81.00 % at weight decay 0.1"
    )
    page = run_report.build([tmp_path])
    assert "<h1>Search for weight decay and learning rate</h1>" in page
    assert "accuracy (%)" not in page  # no table of trainings where there was none


def test_the_best_setting_is_the_searchs_own() -> None:
    """Neither one with a failed repeat nor one with fewer repeats than others."""
    found = [(95.0, 1, 1), (90.0, 1, 0), (80.0, 2, 0)]
    case = {
        "title": "a",
        "settings": [
            {"weight_decay": 0.1, "lr": mean / 100, "mean": mean, "n": n, "failed": failed}
            for mean, n, failed in found
        ],
    }
    best = headline.best_setting(case)
    figure = figures.settings(case)
    assert best is not None
    assert figure is not None
    assert (best["mean"], figure["layout"]["title"]["text"]) == (80.0, "a: best 80.00 %")
    failed = figures.settings({**case, "settings": case["settings"][:1]})
    assert failed is not None
    assert failed["layout"]["title"]["text"] == "a"
    assert [trace["type"] for trace in failed["data"]] == ["heatmap"]


def test_few_settings_are_cells_and_many_are_contours() -> None:
    def kind(side: int) -> str:
        places = [10.0**-i for i in range(side)]
        found = [{"weight_decay": d, "lr": r, "mean": d + r} for d in places for r in places]
        figure = figures.settings({"title": "a", "settings": found})
        assert figure is not None
        return str(figure["data"][0]["type"])

    assert [kind(side) for side in (2, 3, 4, 6)] == ["heatmap", "heatmap", "contour", "contour"]


def _until(browser: Browser, condition: str) -> None:
    end = time.monotonic() + 20
    while not browser.value(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


def _contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
