"""What decides a run is covered: nothing that was edited or damaged is continued in silence."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from binaryduo._common.locks import Lock
from binaryduo.errors import ArgumentError, BinaryDuoError, CheckpointError
from binaryduo.training import (
    Loop,
    Recipe,
    Stage,
    checkpoint,
    duo,
    fit,
    from_yaml,
    to_yaml,
    train,
    with_settings,
)
from binaryduo.training.devices import make_fabric
from binaryduo.training.identity import (
    CHANGEABLE,
    FREE,
    Identity,
    decisive,
    differences,
    digest_of,
    settings_of,
)
from binaryduo.training.loop import Trainer
from binaryduo.training.metrics import Metrics
from binaryduo.training.restore import load_run
from binaryduo.training.runlog import read_metrics
from tests.training import tiny

STAGE, LOOP = Stage(epochs=2, lr=0.01), dataclasses.replace(tiny.LOOP, checkpoint_steps=4)
RECIPE = with_settings(
    Recipe(name="tiny"),
    [
        "model.network=mlp",
        "model.width=0.05",
        "train.epochs=1",
        "finetune.epochs=1",
        "loop.batch=2000",
        "loop.tensorboard=false",
        "loop.accelerator=cpu",
        "loop.engine=eager",
    ],
)


def started(folder: Path, resume: bool = False, stage: Stage = STAGE, loop: Loop = LOOP) -> torch.nn.Module:
    model = tiny.network(seed=1 if resume else 0)
    fit(model, tiny.split(), tiny.split(20, 1), stage, loop, folder, resume)
    return model


def edited_settings(recipe: Path) -> tuple[Stage, Loop]:
    """The settings of a user's own model, as they stand in its folder."""
    found = yaml.safe_load(recipe.read_text())
    return Stage(**found["train"]), Loop(**found["loop"])


def cut(folder: Path) -> None:
    """As if the run had been killed before its last step."""
    for path in (folder / "checkpoints").glob("step-000000010.*"):
        path.unlink()


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


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_altered_byte_of_a_state_passes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "altered"
    state = {
        "step": 21,
        "best": {"top1": 71.25, "step": 20},
        "chosen": {"engine": "eager", "total_steps": 60},
    }
    path = checkpoint.write(folder, "step-000000021", {"a": torch.arange(3)}, state, {"verb": "fit"})
    raw = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(bytes(raw))
    try:
        found = checkpoint.read(path)
    except CheckpointError:
        return
    assert (found.state, found.run) == (state, {"verb": "fit"})  # white space


@pytest.mark.parametrize(
    ("key", "value"),
    [("step", 25), ("total_steps", 99), ("top1", 99.9), ("engine", "none"), ("metrics_position", 1)],
)
def test_an_altered_state_is_named_and_the_one_before_is_used(
    key: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = started(tmp_path / "whole")
    started(tmp_path / "part")
    path = tmp_path / "part" / "checkpoints" / "step-000000010.json"
    text = path.read_text()
    old = next(line for line in text.splitlines() if f'"{key}":' in line)
    comma = "," if old.endswith(",") else ""
    path.write_text(text.replace(old, f'"{key}": {json.dumps(value)}{comma}', 1))
    model = started(tmp_path / "part", resume=True)
    assert "step-000000010.json was altered" in capsys.readouterr().err.replace("\n", "")
    assert tiny.same(whole, model)


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
    train(with_settings(RECIPE, ["train.epochs=2"]), tmp_path)
    with pytest.raises(ArgumentError, match="10 steps are trained already, and the run would now have 5"):
        train(RECIPE, tmp_path, resume=True, change=True)


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
    changed = with_settings(RECIPE, ["finetune.epochs=2"])
    assert duo(changed, tmp_path / "two", resume=True, change=True).finetuned.steps == 10


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


@pytest.mark.parametrize("damage", ["gone", "short", "altered"])
def test_metrics_that_are_not_what_was_written_are_named(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = started(tmp_path / "whole")
    started(tmp_path / "part")
    cut(tmp_path / "part")
    path = tmp_path / "part" / "metrics.jsonl"
    raw = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(raw[:100] if damage == "short" else raw.replace(b"loss", b"lost", 1))
    assert tiny.same(whole, started(tmp_path / "part", resume=True))
    said = " ".join(capsys.readouterr().err.split())
    assert ("was altered" if damage == "altered" else "has lost lines") in said
    assert b"\0" not in path.read_bytes()
    assert read_metrics(tmp_path / "part")[-1]["step"] == 10


def test_metrics_resume_where_they_were(tmp_path: Path) -> None:
    first = Metrics(tmp_path, tensorboard=False)
    first.write({"kind": "step", "step": 1})
    place = first.synced()
    first.write({"kind": "step", "step": 2})
    first.close()
    again = Metrics(tmp_path, place[0], tensorboard=False, digest=place[1])
    again.write({"kind": "step", "step": 3})
    end = again.synced()
    again.close()
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 3]
    straight = Metrics(tmp_path / "other", tensorboard=False)
    for step in (1, 3):
        straight.write({"kind": "step", "step": step})
    assert straight.synced() == end
    straight.close()


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"[1]", b"\xff", b"", b'{"a": 1}'])
def test_a_damaged_record_of_starts_is_set_aside(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = started(tmp_path / "whole")
    started(tmp_path / "part")
    cut(tmp_path / "part")
    (tmp_path / "part" / "environment.json").write_bytes(content)
    assert tiny.same(whole, started(tmp_path / "part", resume=True))
    assert "kept as environment.json.damaged" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "part" / "environment.json.damaged").read_bytes() == content
    assert len(json.loads((tmp_path / "part" / "environment.json").read_text())) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"step": "ten"},
        {"best": {"top1": 3.0}},
        {"best": [1]},
        {"chosen": None},
        {"chosen": {"engine": "warp", "total_steps": 10, "test_every": 1, "measured": {}}},
        {"epoch_counts": {"loss": 1, "extra": 2}},
        {"seconds": None},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_state_that_no_run_has_is_named_and_the_one_before_used(
    change: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its checksum is right, as of a version that writes other keys."""
    whole = started(tmp_path / "whole")
    started(tmp_path / "part")
    folder = tmp_path / "part" / "checkpoints"
    found = checkpoint.read(folder / "step-000000010.json")
    checkpoint.write(folder, "step-000000010", found.tensors, {**found.state, **change}, found.run)
    assert tiny.same(whole, started(tmp_path / "part", resume=True))
    assert "the previous one is tried" in capsys.readouterr().err


def test_moments_and_types_must_be_there(tmp_path: Path) -> None:
    started(tmp_path)
    folder = tmp_path / "checkpoints"
    found = checkpoint.read(folder / "step-000000010.json")
    few = {name: t for name, t in found.tensors.items() if not name.startswith("optimizer/")}
    wide = {name: t.double() if "0.weight" in name else t for name, t in found.tensors.items()}
    some = {name: t for name, t in found.tensors.items() if not name.endswith("0.weight/exp_avg")}
    for tensors, message in (
        (few, "lacks some of the optimizer's moments"),
        (wide, "float64"),
        (some, "lacks some of the optimizer's moments"),
    ):
        checkpoint.write(folder, "step-000000010", tensors, found.state, found.run)
        with pytest.raises(CheckpointError, match=message):
            started(tmp_path, resume=True)


def test_a_run_without_its_checkpoints_is_not_begun_again_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    duo(RECIPE, tmp_path / "run")
    for stage in ("decoupled", "coupled"):
        for path in (tmp_path / "run" / stage / "checkpoints").glob("step-*"):
            path.unlink()
        with pytest.raises(CheckpointError, match=rf"{stage} has lost its checkpoints"):
            duo(RECIPE, tmp_path / "run", resume=True)
    # One that was killed before its first checkpoint simply begins, and says so.
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "recipe.yaml").write_bytes((tmp_path / "run" / "recipe.yaml").read_bytes())
    duo(RECIPE, tmp_path / "early", resume=True)
    assert "holds no checkpoint yet" in capsys.readouterr().err


def test_orphans_of_a_kill_are_removed(tmp_path: Path) -> None:
    started(tmp_path)
    cut(tmp_path)
    folder = tmp_path / "checkpoints"
    for name in ("step-000000001.safetensors", "best-000000001.safetensors", "step-000000009.json.part"):
        (folder / name).write_bytes(b"orphan")
    started(tmp_path, resume=True)
    steps = [path.stem for path in folder.glob("step-*.json")]
    assert len(steps) == 2
    assert {path.stem for path in folder.iterdir()} == {*steps, *(p.stem for p in folder.glob("best-*.json"))}
    assert not list(folder.glob("*.part"))


def test_a_network_is_not_restored_with_other_levels(tmp_path: Path) -> None:
    """The weights fit a network of other levels as well: only the record tells."""
    train(with_settings(RECIPE, ["model.variant=coupled"]), tmp_path)
    load_run(tmp_path)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("ste: relu1", "ste: swishsign"))
    with pytest.raises(CheckpointError, match=r"model\.ste = 'swishsign', and .* was trained with 'relu1'"):
        load_run(tmp_path)


def test_a_trainer_has_all_its_attributes_from_the_beginning(tmp_path: Path) -> None:
    trainer = Trainer(
        tiny.network(), tiny.split(), tiny.split(20, 1), STAGE, LOOP, tmp_path, make_fabric(LOOP)
    )
    before = set(vars(trainer))
    trainer.run()
    assert set(vars(trainer)) == before


HOLD = "import sys, time, pathlib; from binaryduo._common.locks import Lock\n"
HOLD += "lock = Lock(pathlib.Path(sys.argv[1])); print(lock.acquire(), flush=True); time.sleep(60)"


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    lock = Lock(path)
    assert (lock.taken(), lock.acquire(), lock.holder()) == (True, False, holder.pid)
    holder.kill()
    holder.communicate()
    assert (lock.taken(), lock.acquire(), lock.holder()) == (False, True, os.getpid())
    lock.release()
    assert not lock.taken()
