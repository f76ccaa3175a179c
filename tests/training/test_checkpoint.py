"""Checkpoints: what comes back, what is refused, what a full disk does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from binaryduo.errors import CheckpointError
from binaryduo.training import Stage, checkpoint
from binaryduo.training.optimizing import make_optimizer


def network(width: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.Flatten(), nn.Linear(4 * width, 2)
    ).to(memory_format=torch.channels_last)


def stepped(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = make_optimizer(model, Stage(lr=0.1))
    for _ in range(2):
        model(torch.randn(3, 3, 4, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def test_everything_comes_back(tmp_path: Path) -> None:
    model = network()
    optimizer = stepped(model)
    checkpoint.save_step(tmp_path, 7, checkpoint.pack_state(model, optimizer), {"step": 7, "x": 0.1})
    other = network()
    fresh = make_optimizer(other, Stage(lr=0.1))
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.state == {"step": 7, "x": 0.1}
    checkpoint.unpack_state(found.tensors, other, fresh)
    x = torch.randn(3, 3, 4, 4)
    for net, opt in ((model, optimizer), (other, fresh)):
        net(x).square().sum().backward()
        opt.step()
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        assert optimizer.state[mine]["exp_avg"].stride() == fresh.state[theirs]["exp_avg"].stride()


def test_two_are_kept_and_the_best(tmp_path: Path) -> None:
    for step in range(5):
        checkpoint.write(tmp_path, f"best-{step:09d}", {"a": torch.tensor(step)}, {})
        checkpoint.save_step(tmp_path, step, {"a": torch.tensor(step)}, {"step": step})
        checkpoint.tidy(tmp_path, step, best=step)
    names = sorted(path.name for path in tmp_path.glob("*.json"))
    assert names == ["best-000000004.json", "step-000000003.json", "step-000000004.json"]
    assert checkpoint.best(tmp_path).tensors["a"] == 4


def test_damaged_ones_never_push_out_whole_ones(tmp_path: Path) -> None:
    """A run that has come back to step 6, since 8 and 10 are damaged, keeps what it saves from there on."""
    for step in (6, 8, 10):
        checkpoint.write(tmp_path, f"step-{step:09d}", {"a": torch.tensor(step)}, {"step": step})
    for step in (8, 10):
        (tmp_path / f"step-{step:09d}.json").write_text("{")
    found = checkpoint.newest(tmp_path, lambda text: None)
    assert found is not None
    checkpoint.tidy(tmp_path, found.state["step"])
    checkpoint.save_step(tmp_path, 7, {"a": torch.tensor(7)}, {"step": 7})
    said: list[str] = []
    found = checkpoint.newest(tmp_path, said.append)
    assert found is not None
    assert (found.state["step"], said) == (7, [])
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["step-000000006", "step-000000007"]


@pytest.mark.parametrize("damage", ["cut", "flip", "no tensors", "no json"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(damage: str, tmp_path: Path) -> None:
    for step in (1, 2):
        checkpoint.save_step(tmp_path, step, {"a": torch.arange(100)}, {"step": step})
    tensors, header = tmp_path / "step-000000002.safetensors", tmp_path / "step-000000002.json"
    raw = tensors.read_bytes()
    if damage == "cut":
        tensors.write_bytes(raw[:-50])
    elif damage == "flip":
        tensors.write_bytes(raw[:-50] + bytes([raw[-50] ^ 1]) + raw[-49:])
    elif damage == "no tensors":
        tensors.unlink()
    else:
        header.write_text(header.read_text()[:20])
    said: list[str] = []
    found = checkpoint.newest(tmp_path, said.append)
    assert found is not None
    assert found.state["step"] == 1
    assert "step-000000002" in said[0]
    assert "the previous one is tried" in said[0]
    (tmp_path / "step-000000001.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is intact"):
        checkpoint.newest(tmp_path, said.append)


def test_another_network_is_refused_by_name(tmp_path: Path) -> None:
    path = checkpoint.write(tmp_path, "one", checkpoint.pack_state(network(4)), {})
    with pytest.raises(CheckpointError, match=r"another network: 0\.weight is \(4, 3, 3, 3\) there"):
        checkpoint.unpack_state(checkpoint.read(path).tensors, network(5))
    with pytest.raises(CheckpointError, match=r"3\.\w+ .* absent here"):
        checkpoint.unpack_state(checkpoint.read(path).tensors, network(4)[:3])


def test_no_pickle_is_in_a_checkpoint(tmp_path: Path) -> None:
    path = checkpoint.write(tmp_path, "one", {"a": torch.zeros(3)}, {"b": 1})
    raw = path.with_suffix(".safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert set(json.loads(raw[8 : 8 + length])) == {"a"}


FULL_DISK = """
import resource, signal, sys, torch
from pathlib import Path
from binaryduo.training import checkpoint
folder = Path(sys.argv[1])
checkpoint.save_step(folder, 1, {"a": torch.arange(10)}, {"step": 1})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    checkpoint.save_step(folder, 2, {"a": torch.arange(100000)}, {"step": 2})
except checkpoint.CheckpointError as error:
    print(error)
print(checkpoint.newest(folder).state["step"], sorted(p.name for p in folder.iterdir()))
"""


def test_a_disk_that_takes_no_more_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "could not be written (File too large): nothing saved before is lost" in done.stdout
    assert "1 ['step-000000001.json', 'step-000000001.safetensors']" in done.stdout


def test_a_step_whose_tensors_were_deleted_goes_once_another_is_whole(tmp_path: Path) -> None:
    tensors = checkpoint.pack_state(network())
    for step in (1, 2):
        checkpoint.save_step(tmp_path, step, tensors, {"step": step})
    (tmp_path / "step-000000001.safetensors").unlink()
    checkpoint.tidy(tmp_path, 2)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "step-000000002.json",
        "step-000000002.safetensors",
    ]
