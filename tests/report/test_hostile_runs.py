"""A report is made of whatever is there: no value of any file ends in a traceback or gets out of its place."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binaryduo.report import run_report
from binaryduo.report.runs import read_run
from binaryduo.training import Recipe
from binaryduo.training.recipe import to_dict

SCRIPT = "</script><script>alert(1)</script>"
EPOCH = {
    "kind": "epoch",
    "step": 5,
    "epoch": 1,
    "train_loss": 0.5,
    "train_top1": 60.0,
    "seconds": 1.0,
    "test_loss": 0.4,
    "test_top1": 70.0,
}
FILES: dict[str, Any] = {
    "recipe.yaml": to_dict(Recipe()),
    "environment.json": [{"torch": "2.0", "git": {"commit": "a"}, "accelerators": []}],
    "summary.json": {
        "coupled": {"images_per_second": 3.0},
        "finetuned": {"images_per_second": 3.0},
        "decoupled_before": {"top1": 50.0},
        "changed_predictions": 1,
        "test_images": 9,
    },
    "coupled/metrics.jsonl": dict(EPOCH),
    "decoupled/metrics.jsonl": dict(EPOCH),
    "results.json": {
        "format": "binaryduo-search/1",
        "cases": {"a": {"title": "a", "settings": [{"weight_decay": 0.1, "lr": 0.1, "mean": 50.0, "n": 1}]}},
    },
    "mismatch.json": [
        {"ste": "relu1", "layers": [{"name": "l", "cosine": 0.5, "interval": [0.4, 0.6]}], "total": 0.5}
    ],
    "speed.json": [{"seconds": 1.0, "engine": "x"}],
    "infer.json": {"rows": [{"title": "t", "threads": 1, "milliseconds": {"a": 1.0}, "ratios": {"a": 2.0}}]},
}
ODD = st.sampled_from(
    [
        None,
        True,
        float("nan"),
        float("inf"),
        -1,
        0,
        10**40,
        10**400,
        1e308,
        "text",
        SCRIPT,
        [],
        {},
        [[]],
        [None],
        {"a": None},
    ]
)


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(content) if name.endswith("yaml") else json.dumps(content)
        (folder / name).write_text(text + "\n")
    return folder


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value."""
    found = [path]
    below = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content if isinstance(content, list) else [])
    )
    for key, value in below:
        found += places(value, (*path, key))
    return found


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_may_be_anything_or_missing(tmp_path: Path, data: st.DataObject) -> None:
    files = copy.deepcopy(FILES)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(files)))
        way = data.draw(st.sampled_from(places(files[name])))
        odd = copy.deepcopy(data.draw(ODD))
        if not way:
            files[name] = odd
            continue
        place = files[name]
        for key in way[:-1]:
            place = place[key]
        if data.draw(st.booleans()) and isinstance(place, dict):
            del place[way[-1]]
        else:
            place[way[-1]] = odd
    page = run_report.build([write(tmp_path, files)], costs=False)
    assert SCRIPT not in page
    figures = page.partition('id="figures">')[2].partition("</script>")[0]
    assert isinstance(json.loads(figures, parse_constant=pytest.fail), list)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": ' * 50_000, "\x00\xff", "9" * 5000])
def test_files_that_are_none(content: str, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="latin-1")
    (tmp_path / "pipe.duo").mkdir()
    run_report.build([tmp_path], costs=False)
    assert len(read_run(tmp_path).problems) >= 6


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    files = copy.deepcopy(FILES)
    files["coupled/metrics.jsonl"]["test_loss"] = float("nan")
    files["coupled/metrics.jsonl"]["test_top1"] = "high"
    del files["mismatch.json"][0]["layers"][0]["interval"]
    run = read_run(write(tmp_path, files))
    assert run.problems == [
        "2 values of coupled/metrics.jsonl are missing or not finite numbers, and are left out"
    ]
    page = run_report.build([tmp_path], costs=False)
    assert "2 values of coupled/metrics.jsonl" in page
    assert run.mismatch[0]["layers"][0]["interval"] is None
