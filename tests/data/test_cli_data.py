"""`binaryduo data` as a user types it."""

import pytest
from typer.testing import CliRunner

from binaryduo.cli.app import app


def test_list_get_verify() -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["data", "list"])
    assert listed.exit_code == 0
    assert "cifar10" in listed.output
    got = runner.invoke(app, ["data", "get", "fashion-mnist-small"])
    assert "10,000 training and 2,000 test images, 10 classes" in got.output
    assert "as published" in runner.invoke(app, ["data", "verify", "fashion-mnist-small"]).output


def test_a_wrong_name_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    from binaryduo.cli.app import run

    with pytest.raises(SystemExit) as stopped:
        run(["data", "get", "cifar11"])
    assert stopped.value.code == 2
    assert "unknown data set 'cifar11'" in capsys.readouterr().err
