"""The examples as a user runs them, on fewer images."""

import importlib.util
import json
import shutil
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType
from typing import Any

import pytest
import torch

from binaryduo import data
from binaryduo.cli import demonstration
from binaryduo.data.fashion_mnist import CLASSES, MEAN, STD, load_embedded
from binaryduo.paper.judging import difference
from binaryduo.training import Recipe, named, with_settings

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_custom_model_is_short_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len((EXAMPLES / "custom_model.py").read_text().splitlines()) < 60
    coupled, decoupled, tuned = load("custom_model").main(str(tmp_path), count=500)
    assert coupled > 40
    assert abs(coupled - decoupled) <= 0.1
    assert tuned > 40


def test_keywords_are_spoken_and_spotted(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed: the words were not spoken")
    assert len((EXAMPLES / "keywords.py").read_text().splitlines()) <= 120
    monkeypatch.syspath_prepend(EXAMPLES)
    keywords = load("keywords")
    train = keywords.synthesised(keywords.SPEAKERS, 6, 0)
    test = keywords.synthesised(keywords.OTHERS, 2, 1)
    assert train[0].shape == (60, keywords.BANDS, keywords.FRAMES)
    assert not set(keywords.SPEAKERS) & set(keywords.OTHERS)
    voices = [f"{accent}+{speaker}" for accent in keywords.ACCENTS for speaker in ("m1", "f2")]
    assert len({keywords.spoken("stop", voice, 150, 50) for voice in voices}) == len(voices)  # each is heard
    rows = keywords.main(train, test, 10, epochs=2, seeds=[0])
    assert [row["way"] for row in rows] == ["baseline", "scratch", "duo"]


def test_the_detector_has_two_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len((EXAMPLES / "detector.py").read_text().splitlines()) <= 120
    monkeypatch.syspath_prepend(EXAMPLES)
    detector = load("detector")
    box = torch.tensor([[0.0, 0.0, 0.5, 0.5]])
    assert float(detector.overlaps(box, box)) == 1
    assert float(detector.overlaps(box, box + torch.tensor([0.25, 0, 0, 0]))) == pytest.approx(1 / 3)
    rows = detector.main(60, 20, epochs=2, seeds=[0])
    assert [row["way"] for row in rows] == ["baseline", "scratch", "duo"]
    assert all(0 <= row["found"] <= 100 for row in rows)


@pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)  # Lightning's
def test_lightnings_own_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    coupled, tuned = load("lightning_trainer").main(count=500, epochs=1)
    assert min(coupled, tuned) > 40


def test_a_decoupled_network_is_saved_and_loaded_as_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before, after = load("hugging_face").main(str(tmp_path / "net"))
    assert before.equal(after)
    kept = json.loads((tmp_path / "net" / "config.json").read_text())
    assert kept["width"] == 0.125
    assert not list(tmp_path.rglob("*.bin"))  # no pickle


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell of the notebook in one namespace, on a tenth of the images."""
    notebook = json.loads((EXAMPLES.parent / "docs" / "tutorial.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    arrays = {name: array[::10] for name, array in load_embedded().items()}
    few = data.from_arrays("few", arrays, CLASSES, MEAN, STD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "load", lambda name: few)
    namespace: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "tutorial.ipynb", "exec"), namespace)
    assert (namespace["logits"].argmax(1) == namespace["expected"].argmax(1)).mean() >= 0.9
    assert namespace["second"].last["top1"] > 40


def test_the_demonstration_says_what_was_measured() -> None:
    """The sentence on other ways has the numbers of the committed runs, the rates of each chosen on held-out images."""
    rows = json.loads((ROOT / "experiments/results/demo/rates.json").read_text())["rows"]
    tests: dict[str, dict[int, float]] = {}
    for way in ("baseline", "scratch", "duo"):
        mine: dict[tuple[float, float], list[dict[str, float]]] = {}
        for row in rows:
            if row["way"] == way:
                mine.setdefault((row["lr"], row.get("finetune_lr", row["lr"])), []).append(row)
        held_out = {
            rates: mean(row["held_out"] for row in some if row["seed"] < 3) for rates, some in mine.items()
        }
        best = max(held_out.values())
        (chosen,) = (rates for rates in mine if len(mine[rates]) == 8)
        assert held_out[chosen] == pytest.approx(best)
        assert min(rates[0] for rates in mine) < chosen[0] < max(rates[0] for rates in mine)
        tests[way] = {int(row["seed"]): row["test"] for row in mine[chosen]}
        assert f"{mean(tests[way].values()):.1f} ± {stdev(tests[way].values()):.1f}" in demonstration.WORTH
        if way == "duo":
            demo = named("demo")
            assert demo.finetune is not None
            assert chosen == (demo.train.lr, demo.finetune.lr)
    for other in ("baseline", "scratch"):
        assert difference(tests["duo"], tests[other]).shown() in demonstration.WORTH


def test_the_demonstration(tmp_path: Path) -> None:
    recipe = with_settings(
        Recipe(name="tiny"),
        [
            "model.network=mlp",
            "model.width=0.2",
            "train.epochs=1",
            "finetune.epochs=1",
            "loop.batch=500",
            "loop.engine=eager",
            "loop.tensorboard=false",
        ],
    )
    (found,) = demonstration.main([0], tmp_path, recipe)
    assert found["decoupled"] == pytest.approx(found["coupled"], abs=0.2)
    assert (tmp_path / "net.duo").exists()
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_what_decoupling_costs_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["cost_of_decoupling.py", "--rounds", "1", "--width", "0.5"])
    load("cost_of_decoupling").main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(rows) == 3 * 5
    for network in range(3):
        baseline, decoupled, filled, _, quad = (int(r[2].replace(",", "")) for r in rows[5 * network :][:5])
        assert decoupled <= filled <= baseline
        assert quad <= baseline
