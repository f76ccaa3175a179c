"""What a picture shows: names that do not cover each other, legends of what is drawn, errors that can be."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from binaryduo.paper import central_claim, overview
from binaryduo.paper.pictures import label_points, lines, scatter, scatter_on
from binaryduo.paper.results import read_best

RESULTS = Path(__file__).parents[2] / "experiments" / "results"


def _names(figure: Figure) -> list[list[Annotation]]:
    figure.draw_without_rendering()
    return [[text for text in axes.texts if isinstance(text, Annotation)] for axes in figure.axes]


def _apart(names: list[Annotation]) -> bool:
    boxes = [name.get_window_extent() for name in names]
    return not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("seed", range(4))
def test_names_do_not_cover_each_other(seed: int) -> None:
    """Also where points come in pairs that are closer than a name is high."""
    random = np.random.default_rng(seed)
    places = random.uniform(0, 1, (5, 2))
    points = [
        (f"network {number}{half}", x + 0.004 * half, [y, y + 0.01])
        for number, (x, y) in enumerate(places)
        for half in (0, 1)
    ]
    (names,) = _names(scatter(points, "x", "y", "title"))
    assert len(names) == len(points)
    assert _apart(names)


def test_an_inverted_axis_keeps_names_beside_their_points() -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    points = [("left", 0.0, [1.0, 1.1]), ("right", 1.0, [1.0, 1.1])]
    scatter_on(axes, points, "x", "y", "title")
    axes.invert_xaxis()
    label_points(axes, points)
    (names,) = _names(figure)
    for name, (_, at, values) in zip(names, points, strict=True):
        x, _ = axes.transData.transform((at, values[0]))
        box = name.get_window_extent()
        assert min(abs(box.x0 - x), abs(box.x1 - x)) < 20
        assert axes.get_window_extent().contains(box.x0, box.y0)


def test_the_central_claims_names_are_apart() -> None:
    found = read_best("central_claim", RESULTS)
    assert found is not None
    for names in _names(central_claim.draw(found.rows)["central_claim.png"]):
        assert len(names) == 8
        assert _apart(names)


def test_a_legend_shows_what_is_drawn() -> None:
    """A series with one place has no line, and none in the legend."""
    figure = lines([("one", [1.0], [[2.0, 3.0]]), ("two", [1.0, 2.0], [[1.0], [2.0]])], "x", "y", "title")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [handle.get_linestyle() for handle in legend.get_lines()] == ["None", "-"]
    assert all(handle.get_marker() == "o" for handle in legend.get_lines())


def test_no_cosine_is_above_one() -> None:
    """The spread of the README's picture stays where cosines can be."""
    axes = Figure().subplots()
    overview.diagnose(axes, RESULTS)
    ends = [segment[:, 1] for bars in axes.collections for segment in bars.get_segments()]
    assert len(ends) == 6
    assert 0 < min(map(np.min, ends)) < max(map(np.max, ends)) <= 1
