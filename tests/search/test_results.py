"""Means, rankings, recipes and pictures, from JSON alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from binaryduo.errors import ArgumentError
from binaryduo.search import draw_comparison, draw_contours, pictures, read_results
from binaryduo.search.outcome import write_outcome
from binaryduo.search.results import ranked, settings_of
from binaryduo.search.spec import identity
from binaryduo.search.tables import live_table, markdown, progress_line, totals
from binaryduo.training import from_yaml
from tests.search.small import small


def _case(title: str, levels: int, peak: float, fixed: dict[str, Any] | None = None) -> dict[str, Any]:
    random = np.random.default_rng(0)
    rows = []
    decays, rates = [1e-3, 1e-2, 1e-1], [1e-3, 1e-2]
    for repeat in range(2):
        for d in decays:
            for r in rates:
                value = peak - abs(np.log10(d) + 2) - abs(np.log10(r) + 2) + random.normal(0, 0.01)
                row = {"slot": f"wd{d:g}-lr{r:g}-r{repeat}", "weight_decay": d, "lr": r, "repeat": repeat}
                row |= {"state": "complete", "value": float(value), "seconds": 2.0, "reason": None}
                rows.append(row)
    rows[0] |= {"state": "failed", "value": None, "reason": "NonFiniteLoss: the loss is nan"}
    settings = settings_of(rows)
    return {
        "title": title,
        "levels": levels,
        "axes": {"weight_decay": decays, "lr": rates},
        "fixed": fixed,
        "best": ranked(settings, 1)[0],
        "settings": settings,
        "trials": rows,
    }


@pytest.fixture
def results() -> dict[str, Any]:
    fixed = {"from": "coupled x", "top1": 70.0}
    return {
        "format": "binaryduo-search/1",
        "search": identity(small()),
        "cases": {
            "coupled": _case("coupled", 3, 80.0),
            "decoupled": _case("decoupled, fine-tuned", 2, 82.0, fixed),
        },
    }


def test_means_and_deviations_are_numpys(results: dict[str, Any]) -> None:
    case = results["cases"]["coupled"]
    for setting in case["settings"]:
        own = [
            t
            for t in case["trials"]
            if (t["lr"], t["weight_decay"]) == (setting["lr"], setting["weight_decay"])
        ]
        values = [t["value"] for t in own if t["state"] == "complete"]
        assert setting["mean"] == pytest.approx(np.mean(values))
        assert setting["n"] == len(values)
        if len(values) > 1:
            assert setting["std"] == pytest.approx(np.std(values, ddof=1))
    assert (case["best"]["weight_decay"], case["best"]["lr"]) == (1e-2, 1e-2)
    assert all(not setting["failed"] for setting in ranked(case["settings"]))


def test_settings_with_fewer_repeats_stand_after_the_others() -> None:
    values = [(0.1, 80.0), (0.2, 90.0), (0.1, 82.0), (0.3, 70.0), (0.3, 70.0)]
    rows = [{"lr": lr, "weight_decay": 1.0, "value": v, "state": "complete"} for lr, v in values]
    assert [s["lr"] for s in settings_of(rows)] == [0.1, 0.3, 0.2]


def test_everything_is_written_from_the_json(results: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(results))
    read = read_results(tmp_path)
    names = {path.name for path in write_outcome(read, tmp_path / "out")}
    assert names >= {"contours.png", "comparison.png", "best-coupled.yaml", "results.md"}
    coupled, duo = (from_yaml(tmp_path / "out" / f"best-{n}.yaml") for n in ("coupled", "decoupled"))
    assert (coupled.model.variant, coupled.train.lr) == ("coupled", 1e-2)
    assert duo.finetune is not None
    assert (duo.anneals, duo.moments) == (2, None)  # what the trials were, whatever the search's recipe says
    assert (duo.model.variant, duo.train, duo.finetune.lr) == ("coupled", coupled.train, 1e-2)
    assert "wd0.001-lr0.001-r0 failed: NonFiniteLoss" in markdown(read)


def test_pictures_of_scattered_settings(results: dict[str, Any], tmp_path: Path) -> None:
    """A sampler's settings lie on no grid; of three no triangle may be left."""
    random = np.random.default_rng(1)
    for count in (12, 3):
        rows = [
            {"lr": lr, "weight_decay": decay, "value": 70.0 + i, "state": "complete"}
            for i, (lr, decay) in enumerate(10 ** random.uniform(-3, -1, (count, 2)))
        ]
        case = results["cases"]["coupled"] | {"settings": settings_of(rows)}
        draw_contours(results | {"cases": {"coupled": case}}, tmp_path / f"{count}.png")
        assert (tmp_path / f"{count}.png").stat().st_size > 5000
    draw_comparison([results], tmp_path / "comparison.png")


def test_no_panel_is_empty_and_no_legend_repeats_the_axis(
    results: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three precisions of one kind: the fourth panel is not drawn, and the axis tells the dots apart."""
    drawn: list[Figure] = []
    monkeypatch.setattr(pictures, "_save", lambda figure, path: drawn.append(figure))
    case = results["cases"]["coupled"]
    levels = {"baseline:full": None, "baseline:4": 4, "baseline": 2}
    cases = {name: {**case, "levels": value} for name, value in levels.items()}
    draw_contours({**results, "cases": cases}, tmp_path / "contours.png")
    draw_comparison([{**results, "cases": cases}], tmp_path / "comparison.png")
    panels, comparison = drawn
    assert [axes.axison for axes in panels.axes[:4]] == [True, True, True, False]
    assert comparison.axes[0].get_legend() is None
    draw_comparison([results], tmp_path / "comparison.png")
    assert drawn[-1].axes[0].get_legend() is not None


def test_the_live_table_counts(results: dict[str, Any]) -> None:
    now = totals(results)
    assert (now.done, now.failed, now.total) == (22, 2, 24)
    results["cases"]["coupled"]["trials"][3]["state"] = "running"
    assert totals(results).eta(workers=2) == pytest.approx(0.5)
    assert "22" not in progress_line(results, 2)
    assert "21 of 24 trials done, 2 failed, 1 running" in progress_line(results, 2)
    live_table(results, 2, 0.0)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ArgumentError, match="does not hold the results of a search"):
        read_results(tmp_path)
    with pytest.raises(ArgumentError, match="could not be read"):
        read_results(tmp_path / "nothing.json")
