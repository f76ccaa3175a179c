"""Cosines of the study's networks: which layers count, what is judged, and which networks are measured."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from binaryduo.paper import coupling_mismatch as m
from binaryduo.paper import coupling_pays, ways
from binaryduo.paper.experiment import Workspace
from binaryduo.training import Data

Row = dict[str, Any]


def _row(network: str, moment: str, seed: int, level: float) -> Row:
    """Two layers in front of an activation, one without a gradient, and two that are exact and must not count."""
    exact: list[float | None] = [1.0, 1.0, 1.0]
    cosine = {
        "a": [level - 0.1, 0, 1],
        "b": [level + 0.1, 0, 1],
        "c": [None, None, None],
        "d": exact,
        "e": exact,
    }
    work = {"network": network, "moment": moment, "seed": seed, "epochs": m.EPOCHS, "step": m.STEPS[0]}
    return {**work, "cosine": cosine, **({"last": 80.0 + seed} if moment == "end" else {})}


def _rows(seeds: int = 3, **levels: float) -> list[Row]:
    order = [(network, moment, seed) for seed in range(seeds) for network in levels for moment in m.MOMENTS]
    step = {
        network: 0.001 * (1 + place) for place, network in enumerate(levels)
    }  # seeds scatter, each way otherwise
    return [_row(name, moment, seed, levels[name] + step[name] * (seed - 1)) for name, moment, seed in order]


def test_layers_behind_the_last_activation_and_without_a_gradient_do_not_count() -> None:
    row = _row("baseline", "start", 0, 0.4)
    assert m.quantized(row) == pytest.approx({"a": 0.3, "b": 0.5})
    assert m.levels([row], "baseline", "start") == {0: pytest.approx(0.4)}


def test_each_claim_is_of_two_moments() -> None:
    rows = _rows(baseline=0.3, scratch=0.3, coupled=0.6, decoupled=0.2)
    found = {v.claim.split(",")[0]: v.verdict for v in m.verdicts(rows)}
    assert found == {
        "as drawn": "holds",
        "of one function": "holds",
        "after fine-tuning": "does not hold",
        "trained from scratch": "undecided",
    }
    assert "1 %, coupled: start 0.600 (n 3), end 0.600 (n 3)" in m.numbers(rows)
    assert list(m.draw(rows)) == ["mismatch.png"]


def test_the_longer_step_stands_beside_and_judges_nothing() -> None:
    rows = _rows(baseline=0.3, coupled=0.6)
    longer = [{**row, "step": m.STEPS[1]} for row in _rows(baseline=0.6, coupled=0.3)]
    (found,) = m.verdicts(rows + longer)
    assert found.verdict == "holds"
    assert "with steps of 3 %: -0.300" in found.evidence
    assert m.verdicts(longer) == []


def test_a_part_decides_nothing() -> None:
    assert m.verdicts(_rows(2, baseline=0.3, coupled=0.6)) == []
    assert m.verdicts([]) == []
    assert m.draw([]) == {}
    assert "None" in m.numbers([])


def test_units_are_of_the_studys_own_runs() -> None:
    runs = coupling_pays.units("hours")
    assert all(m.run_of(work) in runs for work in m.units("hours") if m.needs_run(work))
    assert len(m.units("hours")) == 24 + 16


def test_further_seeds_judge_alone() -> None:
    drawn = [
        _row(network, "start", seed, level + 0.001 * seed * (network == "coupled"))
        for network, level in (("coupled", 0.2), ("baseline", 0.3))
        for seed in m.FURTHER
    ]
    found = {v.claim.split(":")[0]: v.verdict for v in m.verdicts(_rows(baseline=0.3, coupled=0.6) + drawn)}
    assert found == {m.AS_DRAWN: "holds", "once more": "does not hold"}
    assert len(m.verdicts(drawn[:-1])) == 0


def test_every_network_of_a_run_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the embedded images: the weights at each moment are those of the run, and its layers are in the row."""
    real = ways.recipe_of

    def embedded(work: Row, root: Path | None = None) -> Any:
        recipe = real(work, root)
        data = Data("fashion-mnist-small", validation=0.5)
        loop = replace(recipe.loop, batch=500, precision="32", engine="eager")
        return replace(recipe, data=data, loop=loop)

    monkeypatch.setattr(ways, "recipe_of", embedded)
    seen: list[torch.nn.Module] = []
    slopes = m.slopes

    def watched(model: torch.nn.Module, *rest: Any) -> Any:
        seen.append(model)
        return slopes(model, *rest)

    monkeypatch.setattr(m, "slopes", watched)
    works = sorted(m.units("smoke"), key=lambda work: list(m.NETWORKS).index(work["network"]))
    rows = [row for work in works for row in m.measure(work, Workspace(tmp_path))]
    assert [row["step"] for row in rows] == [*m.STEPS] * len(works)
    rows, seen = m.at_step(rows), seen[::2]
    assert [(row["network"], row["moment"], "last" in row) for row in rows] == [
        (network, moment, moment == "end") for network in m.NETWORKS for moment in m.MOMENTS
    ]
    assert all(len(row["cosine"]) >= 3 for row in rows)
    assert (
        len({tuple(p.shape for p in net.parameters()) for net in seen}) == 3
    )  # baseline, coupled, decoupled
    weights = [next(p for p in net.parameters() if p.dim() > 1).detach() for net in seen]
    assert not any(torch.equal(weights[i], weights[i + 1]) for i in (0, 2, 4, 6))
    assert torch.equal(weights[6], weights[5])  # what is decoupled is what the coupled stage has ended with
