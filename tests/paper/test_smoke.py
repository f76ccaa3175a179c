"""Every experiment that is ours to run goes through its three verbs in the smoke profile, in seconds."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from binaryduo.paper import runner, trainings
from binaryduo.paper.experiment import Workspace
from binaryduo.paper.registry import find
from binaryduo.paper.results import missing, read
from binaryduo.training.runlog import RunFolder

QUICK = ("table1_cited", "figure2_stes", "figure4_activations", "figure5_architectures", "algorithm1")
TRAINED = (
    "figure1a_precision",
    "figure1b_width",
    "figure2_accuracy",
    "figure6_comparison",
    "appendix_e_two_bits",
    "appendix_f_quad",
    "appendix_g_intervals",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the trained experiments, one set of runs for all of them."""
    place = tmp_path_factory.mktemp("experiments")
    for name in TRAINED:
        assert runner.run(name, "smoke", place / "results", Workspace(place / "runs"))
    return place / "results"


@pytest.mark.parametrize("name", QUICK)
def test_without_training(name: str, tmp_path: Path) -> None:
    assert runner.run(name, "smoke", tmp_path)
    found = read(name, "smoke", tmp_path)
    assert found is not None
    assert found.done == found.total
    assert {v.verdict for v in find(name).verdicts(found.rows)} == {"holds"}
    (picture,) = runner.plot(name, "smoke", tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", TRAINED)
def test_trained(name: str, results: Path) -> None:
    found = read(name, "smoke", results)
    assert found is not None
    assert found.done == found.total
    for row in found.rows:
        assert 0 <= row["last"] <= row["best"] <= 100
        assert row["curve"][-1][2] == pytest.approx(row["last"], abs=0.01)
    judged = find(name).verdicts(found.rows)
    assert judged
    assert {v.verdict for v in judged} == {"too small to say"}
    assert find(name).numbers(found.rows)  # type: ignore[misc]
    (picture,) = runner.plot(name, "smoke", results)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert missing(name, "smoke", results) == []
    assert runner.estimate(name, "smoke", results, Workspace(results.parent / "runs"))[0] == []


def test_trainings_are_shared_and_kept(results: Path) -> None:
    """Two figures that need the same network train it once; a run that is done is only read."""
    same = [
        {row["seed"]: row["last"] for row in read(name, "smoke", results).rows if row["levels"] == 4}  # type: ignore[union-attr]
        for name in ("figure1a_precision", "figure2_accuracy", "figure1b_width")
    ]
    assert same[0] == same[1] == same[2]
    wanted = {json.dumps(unit, sort_keys=True) for name in TRAINED for unit in find(name).units("smoke")}
    assert len(list((results.parent / "runs").iterdir())) == len(wanted)


def test_quad_decouples_into_the_baselines_size(results: Path) -> None:
    """BinaryDuo-Q's coupled network is smaller; before fine-tuning, decoupling has not changed the accuracy."""
    found = read("appendix_f_quad", "smoke", results)
    assert found is not None
    for row in found.rows:
        if row["stage"] == "decoupled":
            coupled = next(
                r
                for r in found.rows
                if r["stage"] == "coupled" and r["topology"] == row["topology"] and r["seed"] == row["seed"]
            )
            assert row["before"] == pytest.approx(coupled["last"], abs=0.2)


def test_an_interrupted_experiment_continues(tmp_path: Path) -> None:
    assert not runner.run("figure2_stes", "smoke", tmp_path, minutes=-1.0)
    todo = missing("figure2_stes", "smoke", tmp_path)
    assert len(todo) == 5
    assert runner.run("figure2_stes", "smoke", tmp_path)
    assert missing("figure2_stes", "smoke", tmp_path) == []


def test_a_training_that_was_killed_at_once_continues(tmp_path: Path) -> None:
    """A crash before the first checkpoint leaves a folder with a recipe; the same command goes on in it."""
    work, place = trainings.unit("smoke", 7), Workspace(tmp_path)
    with RunFolder(trainings.folder_of(work, tmp_path)) as folder:
        folder.describe(trainings.recipe_of(work))
    (row,) = trainings.measure(work, place)
    again = trainings.measure(work, place)
    assert again == [row]
    assert row["seed"] == 7


def test_the_estimate_is_measured(tmp_path: Path) -> None:
    """More epochs take longer by as much; the paper's setting is estimated without running it."""
    unit = trainings.unit("smoke", 123)
    once, thrice = trainings.estimate([unit, unit | {"epochs": 300}], Workspace(tmp_path))
    assert 0 < once < thrice


def test_imagenet_from_folders(tmp_path: Path) -> None:
    """AlexNet, ResNet-18 and ResNet-18+sc start from class folders of JPEGs and go through both stages."""
    noise = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 4)):
        for label, name in enumerate(("n01440764", "n01443537")):
            folder = tmp_path / "images" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                size = tuple(int(v) for v in noise.integers(70, 110, 2))
                coarse = noise.integers(0, 255, (6, 6, 3), dtype=np.uint8)
                coarse[..., label] //= 3
                Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(folder / f"{number}.JPEG")
    place = Workspace(tmp_path / "runs", tmp_path / "images")
    assert runner.run("appendix_d_imagenet", "smoke", tmp_path / "results", place)
    found = read("appendix_d_imagenet", "smoke", tmp_path / "results")
    assert found is not None
    assert [(row["network"], row["stage"]) for row in found.rows] == [
        (network, stage)
        for network in ("alexnet", "resnet18", "resnet18-sc")
        for stage in ("coupled", "decoupled")
    ]
    assert runner.plot("appendix_d_imagenet", "smoke", tmp_path / "results")[0].exists()
    assert "path" not in json.dumps(found.rows)
    assert str(tmp_path) not in (tmp_path / "results/appendix_d_imagenet/smoke.json").read_text()
