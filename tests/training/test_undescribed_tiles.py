"""Machines that show AMX without the size of its tiles: PyTorch alone ends there by an illegal instruction."""

import subprocess
import sys

import pytest

from binaryduo.training import devices

PRODUCT = """
import os, sys, torch
from binaryduo.training.devices import make_fabric
from binaryduo.training.recipe import Loop
make_fabric(Loop(precision="bf16", accelerator="cpu"))
with torch.autocast("cpu", torch.bfloat16):
    torch.nn.Linear(64, 48)(torch.rand(32, 64)).sum().backward()
"""


def test_a_product_in_bfloat16_survives_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run([sys.executable, "-c", PRODUCT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("without a description" in done.stderr) == devices.tiles_are_undescribed()


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_a_limit_of_the_users_own_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "tiles_are_undescribed", lambda: True)
    for other in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "AVX2")
    before = dict(devices.os.environ)
    assert not devices.avoid_undescribed_tiles()
    assert dict(devices.os.environ) == before
