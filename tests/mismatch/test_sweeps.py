"""Sweeps and landscapes against what the toy problem itself says."""

import json

import pytest

from binaryduo.errors import ArgumentError, BinaryDuoError
from binaryduo.mismatch import (
    BINARY_STES,
    FIGURE_CASES,
    PRECISIONS,
    Case,
    ToyProblem,
    cosine,
    loss_curve,
    loss_panels,
    loss_surface,
    plots,
    select,
    surface_panel,
    sweep,
)

SMALL = {"samples": 2000, "width": 6}


def test_rows_are_the_toy_problem_s_cosines():
    rows = sweep([Case(3), Case(2, "steep4")], [0.02, 0.1], [1, 2], ["he", "torch"], **SMALL)
    assert len(rows) == 2 * 2 * 2 * 2
    (row,) = select(rows, levels=2, seed=2, init="torch", step=0.1)
    problem = ToyProblem(6, samples=2000, levels=2, ste="steep4", seed=2, init="torch")
    assert row["cosine"] == pytest.approx(cosine(problem.coarse_gradient(), problem.cdg(0.1)), nan_ok=True)


def test_esg_rows():
    (row,) = sweep([Case(None)], [0.01], [3], estimator="esg", pairs=16, **SMALL)
    problem = ToyProblem(6, samples=2000, levels=None, seed=3)
    expected = cosine(problem.coarse_gradient(), problem.esg(0.01, 16, seed=3))
    assert row["cosine"] == pytest.approx(expected)
    assert row["pairs"] == 16


def test_progress_ends_at_its_total():
    seen = []
    sweep(PRECISIONS, [0.01, 0.1], [0, 1], progress=lambda done, total: seen.append((done, total)), **SMALL)
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_the_figure_has_all_its_bars():
    assert [case.label for case in PRECISIONS] == [
        "full precision",
        "4 bits",
        "3 bits",
        "2 bits",
        "ternary",
        "binary",
    ]
    assert {case.ste for case in BINARY_STES} >= {"relu1", "steep2", "steep4", "polynomial", "swishsign"}
    assert set(FIGURE_CASES) == set(PRECISIONS) | set(BINARY_STES)


def test_an_unknown_estimator_is_refused():
    with pytest.raises(BinaryDuoError, match="choose one of cdg, esg"):
        sweep([Case(2)], estimator="spsa", **SMALL)


@pytest.mark.parametrize("levels", [2, 4, None])
def test_a_surface_is_the_loss_of_moved_weights(levels):
    problem = ToyProblem(5, 2, 700, levels, seed=1)
    entries, offsets = [(0, 1), (3, 2)], [[0.0, 0.0], [0.3, -0.2], [-0.01, 0.5]]
    for layer in ("fc1", "fc2"):
        found = loss_surface(problem, layer, entries, offsets)
        for value, row in zip(found, offsets, strict=True):
            moved = ToyProblem(5, 2, 700, levels, seed=1)
            for entry, offset in zip(entries, row, strict=True):
                moved.weights[layer][entry] += offset
            assert float(value) == pytest.approx(moved.loss(), rel=1e-12)


def test_two_weights_of_one_unit_move_it_together():
    problem = ToyProblem(4, 1, 300, 2)
    both = loss_surface(problem, "fc1", [(0, 0), (0, 1)], [[0.4, 0.3]])
    problem.weights["fc1"][0, 0] += 0.4
    problem.weights["fc1"][0, 1] += 0.3
    assert float(both) == pytest.approx(problem.loss(), rel=1e-12)


def test_the_ends_of_a_curve_give_the_cdg():
    problem = ToyProblem(6, samples=1000, levels=3)
    ends = loss_curve(problem, "fc2", (2, 3), [-0.05, 0.05])
    assert float((ends[1] - ends[0]) / 0.1) == pytest.approx(float(problem.cdg(0.05)["fc2"][2, 3]), abs=1e-12)


def test_an_unknown_layer_is_refused():
    with pytest.raises(ArgumentError, match="there are fc1, fc2, fc3"):
        loss_curve(ToyProblem(3, samples=5), "out", (0, 0), [0.1])


def test_a_grid_without_the_step_is_refused():
    with pytest.raises(ArgumentError, match="multiple of 4"):
        surface_panel(10, points=7)


def test_pictures_are_drawn_and_panels_go_through_json(tmp_path):
    rows = json.loads(json.dumps(sweep(FIGURE_CASES, [0.01, 0.1], [0, 1], **SMALL)))
    rows[0]["cosine"]["fc1"] = None  # a direction that does not exist, as JSON keeps it
    panels = json.loads(json.dumps(loss_panels(50, 100, points=11, width=4)))
    surface = json.loads(json.dumps(surface_panel(100, None, entries=((0, 0), (1, 1)), points=5, width=4)))
    figures = [
        plots.bars(rows, "t"),
        plots.panels(rows, "ε", "t"),
        plots.curves(panels),
        plots.surface(**surface),
    ]
    for i, figure in enumerate(figures):
        figure.savefig(tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").stat().st_size > 5000


def test_the_surface_s_gradient_is_the_true_one():
    panel = surface_panel(500, None, entries=((0, 0), (2, 3)), points=5, width=4, seed=3)
    true = ToyProblem(4, samples=500, levels=None, seed=3).coarse_gradient()["fc2"]
    assert panel["gradient"] == pytest.approx((float(true[0, 0]), float(true[2, 3])))
