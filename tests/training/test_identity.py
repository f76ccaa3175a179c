"""What decides a run is recorded: nothing that was edited is continued in silence."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from binaryduo.errors import ArgumentError, BinaryDuoError, CheckpointError
from binaryduo.training import Loop, Recipe, Stage, checkpoint, duo, from_yaml, to_yaml, train, with_settings
from binaryduo.training.identity import (
    CHANGEABLE,
    FREE,
    Identity,
    decisive,
    differences,
    digest_of,
    settings_of,
)
from binaryduo.training.restore import load_run
from tests.training import tiny
from tests.training.short_runs import LOOP, RECIPE, STAGE, cut, started


def edited_settings(recipe: Path) -> tuple[Stage, Loop]:
    """The settings of a user's own model, as they stand in its folder."""
    found = yaml.safe_load(recipe.read_text())
    return Stage(**found["train"]), Loop(**found["loop"])


def test_every_setting_has_its_place_in_the_table() -> None:
    known = set(settings_of(Recipe()))
    assert known >= FREE | CHANGEABLE
    assert not FREE & CHANGEABLE
    fixed = known - FREE - CHANGEABLE
    assert {"loop.seed", "loop.batch", "loop.precision", "data.name", "train.optimizer"} <= fixed
    assert {key for key in known if key.startswith("model.")} <= fixed


ENTRIES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(ENTRIES, ENTRIES)
def test_the_digest_is_of_the_content(a: Any, b: Any) -> None:
    assert digest_of(json.loads(json.dumps(a, indent=3))) == digest_of(a)
    assert (digest_of(a) == digest_of(b)) == (json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True))


@pytest.mark.parametrize(
    ("old", "new"), [("lr: 0.01", "lr: 0.1"), ("seed: 0", "seed: 3"), ("batch: 8", "batch: 16")]
)
def test_an_edited_recipe_is_named(old: str, new: str, tmp_path: Path) -> None:
    started(tmp_path)
    cut(tmp_path)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(old, new, 1))
    edited = edited_settings(recipe)
    key = old.partition(":")[0]
    with pytest.raises(CheckpointError, match=rf"{key} = .* edited after the run had begun"):
        started(tmp_path, True, *edited)


def test_a_free_setting_may_differ(tmp_path: Path) -> None:
    whole = started(tmp_path / "whole")
    started(tmp_path / "part")
    cut(tmp_path / "part")
    recipe = tmp_path / "part" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("checkpoint_steps: 4", "checkpoint_steps: 1"))
    edited = edited_settings(recipe)
    assert tiny.same(whole, started(tmp_path / "part", True, *edited))


def test_a_folder_of_an_earlier_version_is_continued(tmp_path: Path) -> None:
    """It named, for a user's own model, a network and a data set that nobody had said, and counted no metrics."""
    whole = started(tmp_path / "whole")
    started(tmp_path / "part")
    cut(tmp_path / "part")
    before = Recipe(train=STAGE, loop=LOOP)
    (tmp_path / "part" / "recipe.yaml").write_text(to_yaml(before))
    for path in (tmp_path / "part" / "checkpoints").glob("step-*.json"):
        kept = checkpoint.read(path)
        assert kept.run is not None
        state = {**kept.state}
        for sums in ("epoch_counts", "window"):
            state[sums] = {key: state[sums][key] for key in ("loss", "top1", "top5", "images", "unreadable")}
        run = {**kept.run, "settings": decisive(before, "fit")}
        checkpoint.write(path.parent, path.stem, kept.tensors, state, run)
    assert tiny.same(whole, started(tmp_path / "part", resume=True))


def test_settings_that_decide_nothing_may_differ_at_any_time(tmp_path: Path) -> None:
    first = train(RECIPE, tmp_path)
    other = with_settings(RECIPE, ["loop.checkpoint_minutes=9", "loop.profile_every=50"])
    assert train(other, tmp_path, resume=True).last == first.last
    assert from_yaml(tmp_path / "recipe.yaml") == other
    assert not (tmp_path / "changes.json").exists()


def test_a_deliberate_change_is_said_recorded_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(RECIPE, tmp_path)
    with pytest.raises(ArgumentError, match=r"another recipe \(train.epochs is 1 there and 2 here\)"):
        train(with_settings(RECIPE, ["train.epochs=2"]), tmp_path, resume=True)
    longer = with_settings(RECIPE, ["train.epochs=2", "train.lr=0.002"])
    result = train(longer, tmp_path, resume=True, change=True)
    assert result.steps == 10
    said = " ".join(capsys.readouterr().err.split())
    assert "train.epochs is 2 from here on; it was 1" in said
    assert "train.lr is 0.002 from here on" in said
    (entry,) = json.loads((tmp_path / "changes.json").read_text())
    assert entry["changes"] == {"train.epochs": [1, 2], "train.lr": [0.001, 0.002]}
    assert entry["newest_checkpoint"] == "checkpoints/step-000000005.json"
    assert from_yaml(tmp_path / "recipe.yaml") == longer
    # From here on it is the run's own recipe, also where a checkpoint from before the change is used.
    for path in (tmp_path / "checkpoints").glob("step-000000010.*"):
        path.unlink()
    assert train(longer, tmp_path, resume=True).last == result.last
    # Without the record, or with another, the older checkpoint is not continued.
    for path in (tmp_path / "checkpoints").glob("step-000000010.*"):
        path.unlink()
    (tmp_path / "changes.json").write_text((tmp_path / "changes.json").read_text().replace("0.002", "0.003"))
    with pytest.raises(CheckpointError, match="edited after the run had begun"):
        train(longer, tmp_path, resume=True)


@pytest.mark.parametrize("setting", ["model.width=0.1", "loop.seed=1", "loop.batch=500", "train.minutes=1"])
def test_what_decides_from_the_first_step_cannot_change(setting: str, tmp_path: Path) -> None:
    train(RECIPE, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ArgumentError, match=rf"{setting.partition('=')[0]} was .* start another run"):
        train(with_settings(RECIPE, [setting]), tmp_path, resume=True, change=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_run_is_not_made_shorter_than_it_is(tmp_path: Path) -> None:
    longer = with_settings(RECIPE, ["train.epochs=2"])
    result = train(longer, tmp_path)
    with pytest.raises(ArgumentError, match="10 steps are trained already, and the run would now have 5"):
        train(RECIPE, tmp_path, resume=True, change=True)
    assert not (tmp_path / "changes.json").exists()
    assert train(longer, tmp_path, resume=True).last == result.last  # what was refused has left nothing


def test_train_and_duo_do_not_continue_each_other(tmp_path: Path) -> None:
    train(RECIPE, tmp_path / "one")
    duo(RECIPE, tmp_path / "two")
    before = {path: path.read_bytes() for path in tmp_path.rglob("summary.json")}
    with pytest.raises(ArgumentError, match="one holds a run of `train`"):
        duo(RECIPE, tmp_path / "one", resume=True)
    for resume in (True, False):
        with pytest.raises(ArgumentError, match="two holds a run of `duo`"):
            train(RECIPE, tmp_path / "two", resume=resume)
    assert {path: path.read_bytes() for path in tmp_path.rglob("summary.json")} == before
    with pytest.raises(ArgumentError, match="first stage, which is complete"):
        duo(with_settings(RECIPE, ["train.lr=0.5"]), tmp_path / "two", resume=True, change=True)
    for setting in ("finetune.optimizer=sgd", "loop.decouple_from=best"):
        with pytest.raises(ArgumentError, match="decides what the second stage begins with, which has begun"):
            duo(with_settings(RECIPE, [setting]), tmp_path / "two", resume=True, change=True)
    changed = with_settings(RECIPE, ["finetune.epochs=2"])
    assert duo(changed, tmp_path / "two", resume=True, change=True).finetuned.steps == 10
    with pytest.raises(ArgumentError, match="10 steps are trained already, and the run would now have 5"):
        duo(RECIPE, tmp_path / "two", resume=True, change=True)  # known only once the first stage has passed
    assert len(json.loads((tmp_path / "two" / "changes.json").read_text())) == 1
    assert from_yaml(tmp_path / "two" / "recipe.yaml") == changed


def test_another_verb_or_stage_is_refused() -> None:
    identity = Identity("duo", 1, decisive(RECIPE, "duo"))
    assert identity.check(identity.record(), "it")
    with pytest.raises(
        CheckpointError, match=r"written by duo, stage 0, and cannot be continued by duo, stage 1"
    ):
        identity.check(dataclasses.replace(identity, stage=0).record(), "it")
    for nothing in (None, {}, {"verb": "duo", "stage": 1, "settings": []}):
        with pytest.raises(CheckpointError, match="does not say which run"):
            identity.check(nothing, "it")
    assert differences({"a": 1}, {"b": 2}) == {"a": (1, None), "b": (None, 2)}


def test_a_checkpoint_of_an_earlier_version_is_read_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = started(tmp_path / "whole")
    started(tmp_path / "part")
    cut(tmp_path / "part")
    for path in (tmp_path / "part" / "checkpoints").glob("step-*.json"):
        header = json.loads(path.read_text())
        header["state"].pop("metrics_sha256")
        path.write_text(json.dumps({key: header[key] for key in ("size", "sha256", "state")}))
    assert tiny.same(whole, started(tmp_path / "part", resume=True))
    assert "of an earlier version" in capsys.readouterr().err
    # Its state is held against the recipe: a length that is not the recipe's is refused.
    cut(tmp_path / "part")
    path = tmp_path / "part" / "checkpoints" / "step-000000008.json"
    header = json.loads(path.read_text())
    header["state"]["chosen"]["total_steps"] = 61
    path.write_text(json.dumps({key: header[key] for key in ("size", "sha256", "state")}))
    with pytest.raises(BinaryDuoError, match="a run of 61 steps"):
        started(tmp_path / "part", resume=True)


def test_a_network_is_not_restored_with_other_levels(tmp_path: Path) -> None:
    """The weights fit a network of other levels as well: only the record tells."""
    train(with_settings(RECIPE, ["model.variant=coupled"]), tmp_path)
    load_run(tmp_path)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("ste: relu1", "ste: swishsign"))
    with pytest.raises(CheckpointError, match=r"model\.ste = 'swishsign', and .* was trained with 'relu1'"):
        load_run(tmp_path)
