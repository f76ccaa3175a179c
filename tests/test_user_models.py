"""Every network of the zoo, through decouple and couple, and what a user does with the result afterwards."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import binaryduo as bd
from binaryduo.graph.tracing import tensors_in
from tests import zoo_odd  # noqa: F401 (fills the zoo)
from tests.random_nets import randomise
from tests.zoo import ZOO

NAMES = sorted(ZOO)
# Networks whose widths cannot shrink enough: an unknown operation, or the input itself, fixes them.
CANNOT_COUPLE = {
    "width_in_arithmetic": "'first.0' keeps its width because forward\\(\\) computes with their number",
    "square_literals": "'first.0' keeps its width because layer 'f' works on another dimension",
    "subclassed_layers": "'0' keeps its width because conv2d",
}


def build(name: str, levels: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(len(name))
    model, example = ZOO[name](levels)
    randomise(model, torch.Generator().manual_seed(levels))
    return model.eval(), example if isinstance(example, tuple) else (example,)


def levels_for(name: str) -> int:
    return 3 + NAMES.index(name) % 4


def weights(model: nn.Module) -> int:
    layers = (m for m in model.modules() if isinstance(m, nn.Conv1d | nn.Conv2d | nn.Linear))
    return sum(layer.weight.numel() for layer in layers)


def snapshot(model: nn.Module) -> tuple[Any, ...]:
    """All that must be the same after a transformation: modules, modes, values, gradients' flags."""
    modules = [(n, type(m), m.training, getattr(m, "levels", None)) for n, m in model.named_modules()]
    flags = [(n, p.requires_grad) for n, p in model.named_parameters()]
    return modules, flags, {n: t.clone() for n, t in model.state_dict().items()}


def assert_same(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    assert before[:2] == after[:2]
    assert before[2].keys() == after[2].keys()
    assert all(torch.equal(t, after[2][n]) for n, t in before[2].items())


def difference(a: Any, b: Any) -> float:
    pairs = list(zip(tensors_in(a), tensors_in(b), strict=True))
    assert pairs
    assert all(u.shape == v.shape for u, v in pairs)
    return max(float((u - v).abs().max() / u.abs().max().clamp_min(1e-30)) for u, v in pairs)


@pytest.mark.parametrize("topology", ["duo", "quad"])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_function(name: str, topology: Any) -> None:
    model, example = build(name, levels_for(name))
    model.double()
    doubles = tuple(x.double() for x in example)
    before, random = snapshot(model), torch.get_rng_state()
    binary = bd.decouple(model, doubles, topology)
    assert torch.equal(random, torch.get_rng_state())
    assert_same(before, snapshot(model))
    assert isinstance(binary, type(model))
    acts = [m.levels for m in binary.modules() if isinstance(m, bd.nn.QuantAct)]
    assert set(acts) <= {2, None}
    other = tuple(torch.randn_like(x) for x in doubles)  # not only on the example
    with torch.no_grad():
        assert difference(model(*doubles), binary(*doubles)) < 1e-10
        assert difference(model(*other), binary(*other)) < 1e-10
    old, new = dict(model.named_parameters()), dict(binary.named_parameters())
    assert binary.decoupling.names.keys() == old.keys()
    for was, now in binary.decoupling.names.items():
        assert new[now].dim() == old[was].dim()
        assert new[now].numel() >= old[was].numel()
        assert new[now].requires_grad == old[was].requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_the_result_is_an_ordinary_model(name: str, tmp_path: Path) -> None:
    model, example = build(name, levels_for(name))
    binary = bd.decouple(model, example)
    with torch.no_grad():
        expected = binary(*example)
        assert difference(expected, copy.deepcopy(binary)(*example)) == 0
        assert copy.deepcopy(binary).decoupling.names == binary.decoupling.names
    assert all(not m.training for m in binary.modules())
    save_file({n: t.clone() for n, t in binary.state_dict().items()}, tmp_path / "binary.safetensors")
    second = bd.decouple(
        randomise(build(name, levels_for(name))[0], torch.Generator().manual_seed(9)), example
    )
    second.load_state_dict(load_file(tmp_path / "binary.safetensors"))
    with torch.no_grad():
        assert difference(expected, second(*example)) == 0
    second.to(torch.float64)
    kinds = {t.dtype for t in [*second.parameters(), *second.buffers()] if t.is_floating_point()}
    assert kinds == {torch.float64}
    assert str(binary).count("\n") > 3
    optimizer = torch.optim.SGD(binary.train().parameters(), lr=0.01)
    loss = sum(t.pow(2).sum() for t in tensors_in(binary(*example)) if t.requires_grad)
    loss.backward()
    optimizer.step()
    assert all(p.isfinite().all() for p in binary.parameters())
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in binary.parameters())
    binary.eval()(*example)


@pytest.mark.parametrize("name", NAMES)
def test_coupling_keeps_the_budget(name: str) -> None:
    topology: Any = ("duo", "quad")[NAMES.index(name) % 2]
    baseline, example = build(name, 2)
    before = snapshot(baseline)
    if name in CANNOT_COUPLE:
        with pytest.raises(bd.BinaryDuoError, match=CANNOT_COUPLE[name]):
            bd.couple(baseline, example, topology=topology)
        return
    coupled = bd.couple(baseline, example, topology=topology)
    assert_same(before, snapshot(baseline))
    assert {m.levels for m in coupled.modules() if isinstance(m, bd.nn.QuantAct)} <= {3, None}
    binary = bd.decouple(coupled, example, topology)
    assert weights(binary) <= weights(baseline)
    shapes = [t.shape for t in tensors_in(binary(*example))]
    assert shapes == [t.shape for t in tensors_in(baseline(*example))]
    assert bd.cost(binary, example).params == sum(p.numel() for p in binary.parameters())


class InTraining(nn.Module):
    """GoogLeNet's habit: something that forward() does in training only."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), bd.nn.QuantAct())
        self.fc, self.aux, self.what = nn.Linear(16, 4), nn.Linear(16, 4), what

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x).mean((2, 3))
        if not self.training:
            return self.fc(y)
        if self.what == "operation":
            return self.fc(y.sin())
        return self.fc(y) + self.aux(y if self.what == "layer" else y.sin())


def test_an_empty_example_is_refused() -> None:
    for verb in (bd.couple, bd.decouple, bd.cost):
        with pytest.raises(bd.errors.GraphError, match="example_input is empty"):
            verb(InTraining("layer"), torch.randn(0, 3, 8, 8))


def test_what_forward_does_in_training_only() -> None:
    x = torch.randn(2, 3, 8, 8)
    with pytest.raises(bd.errors.GraphError, match="'aux' runs in training only"):
        bd.couple(InTraining("layer"), x)
    with pytest.raises(bd.errors.GraphError, match="'aux' runs in training only"):
        bd.couple(InTraining("layer behind an operation"), x)
    with pytest.warns(UserWarning, match="does more in training"):
        bd.couple(InTraining("operation"), x)
