"""The central claim's picture is drawn from rows of other experiments; its correlations are Spearman's."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from binaryduo.paper import central_claim as claim
from binaryduo.paper import results
from binaryduo.paper.registry import find


def _rows() -> list[dict[str, Any]]:
    cases = [
        (16, "relu1", 0.9),
        (4, "relu1", 0.8),
        (2, "relu1", 0.4),
        (2, "steep4", 0.41),
        (2, "swishsign", 0.39),
    ]
    common = {
        "stage": "single",
        "network": "vgg7",
        "width": 1.0,
        "data": "cifar10",
        "epochs": 1,
        "recipe": "vgg7-cifar10",
    }
    out: list[dict[str, Any]] = []
    for levels, ste, cosine in cases:
        for seed in range(5):
            last = 90 * cosine + seed - 1.3 * ((ste, seed) == ("steep4", 4))  # the last seed ranks it lower
            out.append({**common, "levels": levels, "ste": ste, "seed": seed, "last": last})
            out.append(
                {"levels": levels, "ste": ste, "seed": seed, "init": "he", "cosine": {"total": cosine}}
            )
            out.append(
                {"levels": levels, "ste": ste, "seed": seed, "init": "normal", "cosine": {"total": -1}}
            )
    return out


def test_ranks_share_ties() -> None:
    assert claim.ranks([3.0, 1.0, 3.0, 2.0]) == [3.5, 1.0, 3.5, 2.0]


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_pearson_of_ranks(seed: int) -> None:
    a, b = np.random.default_rng(seed).integers(0, 6, (2, 12)).astype(float)
    expected = np.corrcoef(claim.ranks(a.tolist()), claim.ranks(b.tolist()))[0, 1]
    assert claim.spearman(a.tolist(), b.tolist()) == pytest.approx(expected)


def test_spearman_of_constants_is_not_a_number() -> None:
    assert math.isnan(claim.spearman([1, 1, 1], [1, 2, 3]))


def test_verdict_and_picture(tmp_path: Path) -> None:
    rows = _rows()
    by_cosine, by_area = claim.correlations(claim.points(rows))
    assert by_cosine == pytest.approx(1.0)
    assert by_area < by_cosine
    (verdict,) = claim.verdicts(rows)
    assert verdict.verdict == "holds"
    claim.draw(rows)["central_claim.png"].savefig(tmp_path / "picture.png")
    small = [{**row, "recipe": "reproduce-cpu"} if "stage" in row else row for row in rows]
    assert claim.verdicts(small)[0].verdict == "too small to say"
    (nothing,) = claim.verdicts(rows[:3])
    assert nothing.verdict == "not run"


def test_networks_of_other_widths_are_not_mixed() -> None:
    rows = _rows()
    narrow = [
        {**row, "recipe": "reproduce-cpu", "last": 10.0}
        for row in rows
        if row.get("levels") == 2 and "stage" in row
    ]
    assert claim.points(rows + narrow) == claim.points(rows)
    assert claim.verdicts(rows + narrow) == claim.verdicts(rows)


def test_its_sources_are_of_one_profile_where_all_have_it(tmp_path: Path) -> None:
    """One figure is finished at another width too: that alone does not take its networks out of the comparison."""
    for name in claim.SOURCES:
        experiment = find(name)
        for profile in ("cpu", "hours")[: 2 if name == "figure1a_precision" else 1]:
            path = results.path_of(name, experiment.profile(profile), tmp_path)
            path.parent.mkdir(exist_ok=True)
            units = [
                {"unit": unit, "seconds": 1.0, "rows": [{**unit, "cosine": {}}]}
                for unit in experiment.units(experiment.profile(profile))
            ]
            path.write_text(json.dumps({"units": units}))
    found = results.read_best("central_claim", tmp_path)
    assert found is not None
    assert found.complete
    assert found.profile == "cpu"
    assert {row["recipe"] for row in found.rows if "recipe" in row} == {"reproduce-cpu"}
