"""What a run has written is covered by checksums: what was damaged or lost is named, and never continued in silence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from binaryduo._common.locks import Lock
from binaryduo.errors import CheckpointError
from binaryduo.training import checkpoint, duo
from binaryduo.training.devices import make_fabric
from binaryduo.training.loop import Trainer
from binaryduo.training.metrics import Metrics
from binaryduo.training.runlog import read_metrics
from tests.training import tiny
from tests.training.short_runs import LOOP, RECIPE, STAGE, cut, started


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
