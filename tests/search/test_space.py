"""The axes and the slots of a search."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binaryduo.errors import ArgumentError
from binaryduo.search.cases import parse_case
from binaryduo.search.space import exponential, grid_slots, parse_axis
from binaryduo.search.spec import Search, check, search_from_yaml, search_to_yaml, with_grid
from tests.search.small import small


@given(st.floats(1e-9, 1.0), st.floats(1.5, 1e6), st.integers(2, 30))
def test_ratio_is_constant(low: float, times: float, count: int) -> None:
    values = exponential(low, low * times, count)
    ratio = times ** (1 / (count - 1))
    assert len(values) == count
    for i, value in enumerate(values):
        assert value == pytest.approx(low * ratio**i, rel=1e-5)


def test_default_grid_is_the_papers_size() -> None:
    decay, lr = Search().axes(parse_case("baseline"))
    slots = grid_slots(decay, lr, 2)
    assert len(slots) == 13 * 10 * 2
    assert len({slot.name for slot in slots}) == len(slots)
    assert all(math.isclose(b / a, 2, rel_tol=1e-5) for a, b in zip(lr.values, lr.values[1:], strict=False))
    _, finer = Search().axes(parse_case("decoupled"))
    assert [a / b for a, b in zip(lr.values, finer.values, strict=True)] == pytest.approx([2.0] * 10)


@pytest.mark.parametrize(
    "text", ["1e-3:1e-1:0", "0:1:3", "-1,2", "nonsense", "2:1:3", "", "1:2:3:4", "inf,1"]
)
def test_axes_that_cannot_be(text: str) -> None:
    with pytest.raises(ArgumentError, match="lr = "):
        parse_axis(text, "lr")


@pytest.mark.parametrize("text", ["0.1:0.1:3", "0.1:0.1", "0.1:0.1000001:3"])
def test_ends_without_room_between_them_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"there are no . different values between these ends"):
        parse_axis(text, "lr")
    assert parse_axis("0.1:0.1:1", "lr").values == (0.1,)


def test_a_grid_of_listed_values_has_as_many() -> None:
    listed = small(weight_decay="0.01,0.1", lr="1e-3:1e-1")
    assert with_grid(listed, 2, 4).weight_decay == (0.01, 0.1)
    with pytest.raises(ArgumentError, match="weight_decay lists 2 values, and --grid asks for 5: leave out"):
        with_grid(listed, 5, 4)


def test_grid_keeps_the_ends() -> None:
    decay, lr = with_grid(Search(), 5, 4).axes(parse_case("coupled"))
    assert (len(decay.values), len(lr.values)) == (5, 4)
    assert (decay.low, decay.high, lr.low, lr.high) == (1e-5, 10, 1e-4, 5.12e-2)


def test_a_search_file_is_read_back(tmp_path: "object") -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "search.yaml"
    search = small(cases=("coupled", "decoupled"))
    path.write_text(search_to_yaml(search))
    assert search_from_yaml(path) == search
    path.write_text("recipe: demo\ncases: [baseline, 'coupled:4']\nlr: 1e-3:1e-1:3\n")
    found = search_from_yaml(path)
    assert found.recipe.name == "demo"
    assert [case.levels for case in found.parsed_cases()] == ["default", 4]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cases": ("decoupled",)}, "add the case 'coupled'"),
        ({"cases": ("baseline", "baseline")}, "each named once"),
        ({"cases": ("ternary",)}, "unknown case"),
        ({"repeats": 0}, "repeats must be 1 or more, got 0"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
        ({"retries": -1}, "retries must be 0 or more, got -1"),
        ({"grace": 1}, "longer than heartbeat"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        check(small(**changes))
