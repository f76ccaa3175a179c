"""docs/paper_map.md is what the registry and the committed results say, and lists the whole paper."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from binaryduo.cli.app import app
from binaryduo.errors import UnknownNameError
from binaryduo.paper import paper_map
from binaryduo.paper.artefacts import ARTEFACTS, find
from binaryduo.paper.experiment import VERDICTS
from binaryduo.paper.registry import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_map_is_current() -> None:
    assert (DOCS / "paper_map.md").read_text() == paper_map.markdown(docs=DOCS), (
        "run `binaryduo reproduce map`"
    )


def test_every_artefact_is_in_it() -> None:
    text = (DOCS / "paper_map.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(ARTEFACTS)
    for artefact, row in zip(ARTEFACTS, rows, strict=True):
        assert artefact.title in row
        verdict = re.search(r"\*\*([a-z ()]+)\*\* \|$", row)
        assert verdict is not None
        assert verdict[1] in {*VERDICTS, "not run (not yet)"}


def test_each_artefact_has_a_way_or_a_reason() -> None:
    for artefact in ARTEFACTS:
        assert artefact.experiments or artefact.command or artefact.pending, artefact.key
        assert set(artefact.experiments) <= set(EXPERIMENTS), artefact.key
    assert len({artefact.key for artefact in ARTEFACTS}) == len(ARTEFACTS)
    with pytest.raises(UnknownNameError, match="choose one of table1, figure1a"):
        find("figure9")


def test_nothing_is_claimed_without_results(tmp_path: Path) -> None:
    assert {line.verdict for line in paper_map.lines(tmp_path)} == {"not run"}


def test_unfinished_results_are_not_judged(tmp_path: Path) -> None:
    """Three of five STEs: the artefact says so, and claims nothing."""
    committed = DOCS.parent / "experiments" / "results" / "figure2_stes" / "full.json"
    content = json.loads(committed.read_text())
    content["units"] = content["units"][:3]
    (tmp_path / "figure2_stes").mkdir()
    (tmp_path / "figure2_stes" / "full.json").write_text(json.dumps(content))
    line = paper_map.line_of(find("figure2-left"), tmp_path)
    assert line.verdict == "not run"
    assert line.notes == ["3 of 5 parts are done; a claim is judged where all of its parts are"]


def test_a_search_without_a_finished_setting_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "search_precisions").mkdir()
    cases = {"baseline": {"title": "baseline", "best": None}}
    (tmp_path / "search_precisions" / "results.json").write_text(json.dumps({"cases": cases}))
    line = paper_map.line_of(find("appendix-a"), tmp_path)
    assert (line.verdict, line.number) == ("not run", "")
    assert line.notes[0].endswith("nothing measured yet")


def test_smaller_settings_are_told_and_judge_nothing(tmp_path: Path) -> None:
    epochs = [{"epoch": 1, "test_top1": 50.0}, {"epoch": 2}, {"epoch": 3, "test_top1": 49.5}]
    runs = {
        "baseline": {"stages": {"baseline": {"epochs": epochs}}, "summary": "not complete"},
        "duo": "not run",
    }
    (tmp_path / "cifar10_budget").mkdir()
    (tmp_path / "cifar10_budget" / "metrics.json").write_text(json.dumps(runs))
    line = paper_map.line_of(find("figure6-right"), tmp_path)
    assert line.verdict == "not run"
    assert "baseline last 49.50, best 50.00 (epoch 3); this run is not complete" in line.notes[0]
    best = {"mean": 80.25, "n": 2}
    cases = {"coupled": {"title": "coupled", "best": best}, "scratch": {"title": "scratch", "best": None}}
    (tmp_path / "search_grid").mkdir()
    (tmp_path / "search_grid" / "results.json").write_text(json.dumps({"cases": cases}))
    line = paper_map.line_of(find("figure6-left"), tmp_path)
    assert line.notes[0].endswith("each grid: coupled 80.25 (n 2)")
    assert (line.verdict, line.number) == ("too small to say", "best of a reduced grid: coupled 80.25 (n 2)")


def test_command_line(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["reproduce", "list"])
    assert listed.exit_code == 0
    assert "figure6-right" in listed.stdout
    arguments = ["reproduce", "figure5", "--profile", "smoke", "--results", str(tmp_path)]
    first = runner.invoke(app, arguments)
    assert first.exit_code == 0
    assert "1 part to do" in first.stdout
    assert "HOLDS: the layer has 9, 4 and 8 weights" in first.stdout
    assert (tmp_path / "figure5_architectures" / "architectures.png").exists()
    again = runner.invoke(app, ["reproduce", "figure5", "run", *arguments[2:]])
    assert "0 parts to do" in again.stdout
    missing = runner.invoke(app, ["reproduce", "figure1a", "plot", "--results", str(tmp_path)])
    assert missing.exit_code != 0
    assert "run it first" in str(missing.exception)
    derived = runner.invoke(
        app, ["reproduce", "central-claim", "--profile", "smoke", "--results", str(tmp_path)]
    )
    assert "drawn from figure1a_precision" in str(derived.exception)
    other = runner.invoke(app, ["reproduce", "appendix-a"])
    assert "binaryduo search --recipe vgg7-cifar10" in str(other.exception)
    assert str(other.exception).endswith("reduced: binaryduo reproduce search-precisions")
