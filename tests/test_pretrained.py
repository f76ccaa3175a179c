"""Pretrained networks: from a run to a card and back, from every place they may be in, and no altered byte."""

import json
from pathlib import Path

import pytest
import torch

import binaryduo as bd
from binaryduo.cli.app import run
from binaryduo.errors import ArgumentError, CheckpointError, DataError
from binaryduo.models.trained import VARIABLE, compact, expanded, weights_file
from binaryduo.training import Data, Loop, Model, Recipe, Stage, train
from binaryduo.training.evaluation import evaluate
from binaryduo.training.publish import publish
from binaryduo.training.sources import open_source


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one network of our own, made from a real run."""
    place = tmp_path_factory.mktemp("own")
    recipe = Recipe(
        data=Data("fashion-mnist-small"),
        model=Model("mlp", variant="decoupled", weight_bits=1, width=0.05),
        train=Stage(1, lr=1e-2),
        loop=Loop(batch=500, engine="eager", tensorboard=False),
    )
    train(recipe, place / "run")
    card = publish(place / "run", "tiny", place / "cards")
    assert card["images"] == 2000
    assert card["bytes"] == (place / "cards" / "tiny.safetensors").stat().st_size
    return place


def test_a_run_becomes_a_network_with_the_accuracy_of_its_card(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(folder / "cards"))
    assert "tiny" in bd.models.pretrained_names()
    about, net = bd.models.card("tiny"), bd.models.pretrained("tiny")
    assert not net.training
    data = open_source(folder / "run").data
    assert data is not None
    assert evaluate(net, data.test).means()["top1"] == pytest.approx(about["top1"], abs=1e-3)
    assert about["last_epoch"] == pytest.approx(
        about["top1"], abs=0.2
    )  # the scale may differ in its last bit
    found = open_source("tiny")
    assert found.options["weight_bits"] == 1
    with pytest.raises(ArgumentError, match="leave out width"):
        open_source("tiny", given={"width": 1.0})


def test_the_card_knows_which_images_a_verb_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(folder / "cards"))
    with pytest.raises(SystemExit) as left:
        run(["mismatch", "network", "tiny", "--images", "200", "--coordinates", "4"])
    assert left.value.code == 0
    assert "200 samples" in capsys.readouterr().out


def test_a_network_by_name_is_packed_with_its_classes_and_normalisation(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the run that it was made of."""
    monkeypatch.setenv(VARIABLE, str(folder / "cards"))
    meta = {}
    for source in ("tiny", str(folder / "run")):
        target = folder / f"{Path(source).name}.duo"
        with pytest.raises(SystemExit) as left:
            run(["pack", source, str(target)])
        assert left.value.code == 0
        meta[source] = bd.load(target).program.meta
    assert {"classes", "mean", "std"} <= meta["tiny"].keys()
    of_the_run = meta[str(folder / "run")]
    assert {**meta["tiny"], "recipe": of_the_run["recipe"]} == of_the_run


def test_one_bit_weights_are_kept_by_sign_and_scale() -> None:
    torch.manual_seed(0)
    net = bd.models.build("vgg7", weight_bits=1, width=0.1, image_size=8).eval()
    tensors, again = compact(net), bd.models.build("vgg7", weight_bits=1, width=0.1, image_size=8).eval()
    again.load_state_dict(expanded(tensors, again, "here"))
    x = torch.rand(4, 3, 8, 8)
    assert torch.allclose(net(x), again(x), atol=1e-4)
    full = sum(p.numel() * 4 for p in net.parameters())
    assert sum(t.numel() * t.element_size() for t in tensors.values()) < full / 4


def test_a_url_is_fetched_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release sets a URL; cards then come with the package."""
    shipped = tmp_path / "package"
    shipped.mkdir()
    (shipped / "tiny.json").write_text((folder / "cards" / "tiny.json").read_text())
    monkeypatch.setattr("binaryduo.models.trained.SHIPPED", shipped)
    monkeypatch.setenv("BINARYDUO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ArgumentError, match=f"not part of this installation: set {VARIABLE}"):
        bd.models.pretrained("tiny")
    monkeypatch.setenv(VARIABLE, (folder / "cards").as_uri())
    bd.models.pretrained("tiny")
    monkeypatch.setenv(VARIABLE, (tmp_path / "nowhere").as_uri())
    bd.models.pretrained("tiny")  # from the cache
    kept = weights_file("tiny")
    assert kept.parent == tmp_path / "cache" / "pretrained"
    kept.unlink()
    with pytest.raises(DataError, match="could not be read"):
        bd.models.pretrained("tiny")


def test_an_altered_file_is_not_used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray((folder / "cards" / "tiny.safetensors").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "tiny.safetensors").write_bytes(content)
    about = json.loads((folder / "cards" / "tiny.json").read_text())
    (tmp_path / "tiny.json").write_text(json.dumps(about))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(CheckpointError, match="is not the file that the card of tiny was written for"):
        bd.models.pretrained("tiny")
    (tmp_path / "tiny.json").write_text(json.dumps({**about, "bytes": "many"}))
    with pytest.raises(CheckpointError, match="must have build, data, sha256, bytes"):
        bd.models.pretrained("tiny")


@pytest.mark.parametrize("name", ["nobody", "../models/cards/nobody", ""])
def test_unknown_names_are_listed(name: str) -> None:
    with pytest.raises(bd.BinaryDuoError, match="unknown pretrained network"):
        bd.models.pretrained(name)


@pytest.mark.parametrize("name", bd.models.pretrained_names())
def test_every_shipped_network_is_whole(name: str) -> None:
    about = bd.models.card(name)
    found = open_source(name)
    assert found.model(found.example(2)).shape == (2, about["build"]["num_classes"])
    assert 0 < about["top1"] <= 100
