"""An experiment that is one search: run, collected and drawn as every other, and run once only."""

import json
from pathlib import Path

from binaryduo.paper.experiment import Workspace
from binaryduo.paper.searches import records
from tests.search.small import small


def test_a_search_is_an_experiment_with_three_verbs(tmp_path: Path) -> None:
    experiment = records("some_search", "A small search", small())
    results, place = tmp_path / "results" / "some_search", Workspace(tmp_path / "runs")
    assert experiment.run is not None
    assert experiment.collect is not None
    assert experiment.plot is not None
    assert experiment.run(results, place, None)
    found = json.loads((results / "results.json").read_text())
    assert found["overhead"]["trials"] == 2
    (said,) = experiment.collect(results)
    accuracies = [trial["value"] for trial in found["cases"]["baseline"]["trials"]]
    assert said == f"baseline {max(accuracies):.2f} (n 1)"
    pictures = [path for path in experiment.plot(results) if path.suffix == ".png"]
    assert {path.name for path in pictures} == {"contour-baseline.png", "comparison.png"}
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/some-search/trials/**/*.json")}
    assert trained
    assert experiment.run(results, place, None)  # nothing is left to do
    assert {path: path.stat().st_mtime_ns for path in trained} == trained
