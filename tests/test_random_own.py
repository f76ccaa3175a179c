"""Random networks of many kinds: the same function when decoupled, within the budget, counted right, packed right."""

from pathlib import Path
from typing import Any

import pytest
import torch

import binaryduo as bd
from binaryduo.graph.tracing import tensors_in
from tests.architectures.verbs import agreeing, loss, macs, weights
from tests.random_own import RandomOwn

SEEDS = range(40)
# What may be refused, and why: nothing else is.
CANNOT_COUPLE = "nothing is left to narrow"


def check(seed: int, levels: int, folder: Path) -> str:
    """One network through everything; returns what was refused."""
    torch.manual_seed(seed)
    baseline = RandomOwn(seed).eval()
    x, others, refused = baseline.example(), baseline.example(6), ""
    topology: Any = ("duo", "quad")[seed % 2]
    try:
        coupled = bd.couple(baseline, x, levels, topology, widths=(None, "fill")[seed // 2 % 2]).eval()
    except bd.BinaryDuoError as error:
        refused, coupled = str(error), RandomOwn(seed, levels).eval()
    with torch.no_grad():
        for _ in range(2):
            coupled.train()(baseline.example(8))
    coupled.eval()
    binary = bd.decouple(coupled, x, topology, strict=False)
    wide, doubles = bd.decouple(coupled.double(), x.double(), topology), others.double()
    with torch.no_grad():
        for a, b in zip(tensors_in(coupled(doubles)), tensors_in(wide(doubles)), strict=True):
            assert a.shape == b.shape
            assert float((a - b).abs().max()) <= 1e-10 * float(a.abs().max()), float((a - b).abs().max())
    coupled.float()
    if not refused:
        assert weights(binary) <= weights(baseline)
    for model in (baseline, binary):
        found = bd.cost(model, x)
        assert found.params == sum(p.numel() for p in model.parameters())
        assert found.macs == macs(model, x[:1])
        bd.pack(model, x, folder / "net.duo", verbose=False)
        outputs = bd.load(folder / "net.duo", threads=1).outputs(others.numpy())
        assert (
            agreeing(outputs, model, others, 1e-3).sum() >= len(others) // 2
        )  # rounding may flip an activation
    if seed % 4 == 0:
        profile = bd.mismatch.profile(coupled, loss, x, torch.zeros(len(x)), step="auto", coordinates=1)
        assert all(layer.cdg.isfinite().all() for layer in profile.layers)
    return refused


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.filterwarnings("ignore:of the decoupled network these one-bit layers read averaged copies")
def test_random_networks_of_many_kinds(seed: int, tmp_path: Path) -> None:
    refused = check(seed, 3 + seed % 3, tmp_path)
    assert refused == "" or CANNOT_COUPLE in refused
