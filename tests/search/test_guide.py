"""Every `binaryduo search` command of the guide is one that the command line understands."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from binaryduo.cli.app import app
from binaryduo.errors import ArgumentError
from binaryduo.search.spec import search_from_yaml

GUIDE = (Path(__file__).parents[2] / "docs" / "search.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("binaryduo search")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_is_understood(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is resolved, and what it resolves to is a search that can be run."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    words = shlex.split(command.partition(">")[0])[1:]
    if "--file" in words:
        made = runner.invoke(app, ["search", "--recipe", "demo", "--grid", "5x4", "--show"])
        Path("mine.yaml").write_text(made.stdout)
    shown = runner.invoke(app, [*words, *([] if "--show" in words else ["--show"])])
    assert shown.exit_code == 0, shown.output
    Path("shown.yaml").write_text(shown.stdout)
    search_from_yaml("shown.yaml")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--resume --out . --lr 0.1 --cases coupled --workers 2", "settings it has: leave out --cases, --lr"),
        ("--resume --out . --name other", "the search in that folder is named 'demo': leave out --name"),
        ("--file search.yaml --recipe budget", "says which recipe is searched: leave out --recipe"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    options: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    Path("search.yaml").write_text(runner.invoke(app, ["search", "--show"]).stdout)
    result = runner.invoke(app, ["search", *options.split(), "--show"])
    assert isinstance(result.exception, ArgumentError)
    assert words in str(result.exception)
    assert runner.invoke(app, ["search", "--resume", "--out", ".", "--name", "demo", "--show"]).exit_code == 0


def test_guide_has_commands() -> None:
    assert len(COMMANDS) >= 8
