"""Learned thresholds: their gradients against an independent computation, and `decouple` exact for any of them."""

import copy
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, fx, nn

import binaryduo as bd
from binaryduo import ste as stes
from binaryduo.errors import GraphError
from binaryduo.nn.intervals import LEAST_GAP, kept_apart
from binaryduo.packing.onnx import standard_modules
from binaryduo.training.fast.norm import kinds_fit, pairs
from tests.random_nets import RandomNet

BOUNDED = settings(max_examples=12, derandomize=True, deadline=None)
KINDS: list[Any] = ["layer", "channel"]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def learn(model: nn.Module, x: Tensor, seed: int, kind: str | None = None) -> nn.Module:
    """Give every activation random thresholds, for layers, channels or a mixture of both."""
    acts = [m for m in model.modules() if isinstance(m, bd.nn.QuantAct)]
    for number, act in enumerate(acts):
        act.set_levels(act.levels, kind or ["layer", "channel", None][(seed + number) % 3], like=x)
    model.eval()(x)
    for act in acts:
        if act.offsets is not None:
            act.offsets.data.copy_(torch.randn(act.offsets.shape, generator=seeded(seed)) * 0.3)
    return model


# --- the activation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ste", stes.names())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("levels", [2, 3, 4, 7])
def test_the_first_step_is_that_of_fixed_thresholds_bit_for_bit(levels: int, kind: Any, ste: str) -> None:
    x = torch.rand(4, 3, 5, 5, generator=seeded(levels)) * 1.6 - 0.3
    x.view(-1)[:8] = torch.tensor([0.0, 1.0, 0.25, 0.75, 0.5, 1 / 6, -1e-9, 1 + 1e-7])
    grad = torch.randn(x.shape, generator=seeded(1))
    given = x.clone().requires_grad_()
    other = x.clone().requires_grad_()
    fixed, learned = bd.nn.QuantAct(levels, ste), bd.nn.QuantAct(levels, ste, interval=kind)
    assert torch.equal(fixed(given), learned(other))
    (a,) = torch.autograd.grad(fixed(given), given, grad)
    (b,) = torch.autograd.grad(learned(other), other, grad)
    assert torch.equal(a, b)
    assert learned.offsets.numel() == (levels - 1) * (3 if kind == "channel" else 1)


def qil(x: np.ndarray, low: float, high: float, grad: np.ndarray) -> tuple[np.ndarray, float, float]:
    """QIL's transformer for three levels and ReLU1, with centre c and half-width d, by hand: ∂/∂x, ∂/∂c, ∂/∂d."""
    c, d = (low + high) / 2, high - low  # thresholds at a quarter and three quarters of [c - d, c + d]
    u = (x - c) / (2 * d) + 0.5
    inside = ((u >= 0) & (u <= 1)) * grad
    return inside / (2 * d), (-inside / (2 * d)).sum(), (-inside * (x - c) / (2 * d * d)).sum()


@settings(max_examples=30, derandomize=True, deadline=None)
@given(seed=st.integers(0, 10**6), low=st.floats(-0.5, 0.5), gap=st.floats(0.1, 1.5))
def test_gradients_are_those_of_qil_with_the_scale_of_lsq(seed: int, low: float, gap: float) -> None:
    generator = seeded(seed)
    x = (torch.rand(6, 4, 3, 3, generator=generator, dtype=torch.float64) * 3 - 1).requires_grad_()
    grad = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    act = bd.nn.QuantAct(3, interval="layer").double()
    act.offsets.data[:] = torch.tensor([low - 0.25, low + gap - 0.75])
    t1, t2 = act.thresholds.flatten().tolist()
    out = act(x)
    assert np.array_equal(out.detach(), ((x >= t1).double() + (x >= t2).double()).detach() / 2)
    out.backward(grad)
    by_x, by_c, by_d = qil(x.detach().numpy(), t1, t2, grad.numpy())
    assert np.allclose(x.grad, by_x)
    # c = (t1 + t2)/2 and d = t2 - t1; LSQ's scale for 36 values of an image and two steps
    expected = np.array([by_c / 2 - by_d, by_c / 2 + by_d]) / np.sqrt(36 * 2)
    assert np.allclose(act.offsets.grad, expected)


@pytest.mark.parametrize("levels", [2, 3, 4, 6])
def test_gradients_of_many_levels_are_those_of_the_interpolated_ste(levels: int) -> None:
    """With `soft` the forward pass is the STE itself: autograd's gradient must be the coarse one, times LSQ's scale."""
    x = torch.rand(200, 3, generator=seeded(3), dtype=torch.float64).mul(1.4).sub(0.2)
    grad = torch.randn(x.shape, generator=seeded(4), dtype=torch.float64)
    found = []
    for soft in (True, False):
        act = bd.nn.QuantAct(levels, soft=soft, interval="channel", channels=3).double()
        act.offsets.data.copy_(
            torch.randn(act.offsets.shape, generator=seeded(5)) * 0.3 / (levels - 1) ** 1.5
        )
        given = x.clone().requires_grad_()
        found.append(torch.autograd.grad(act(given), [given, act.offsets], grad))
    assert torch.allclose(found[0][0], found[1][0])
    assert torch.allclose(found[0][1] / (levels - 1) ** 0.5, found[1][1])  # one value an image and channel


@settings(max_examples=30, derandomize=True, deadline=None)
@given(levels=st.integers(3, 8), seed=st.integers(0, 10**6))
def test_thresholds_are_kept_in_order_and_others_are_not_touched(levels: int, seed: int) -> None:
    offsets = torch.randn((levels - 1) * 4, generator=seeded(seed)) * 0.3
    kept = kept_apart(offsets, levels)
    thresholds = torch.tensor(stes.thresholds(levels)).unsqueeze(1) + kept.view(levels - 1, 4)
    assert (thresholds.diff(dim=0) >= LEAST_GAP / (levels - 1) - 1e-5).all()
    assert (kept >= offsets).all()
    assert torch.equal(kept_apart(torch.zeros(8), 3), torch.zeros(8))


def test_sizes_are_found_in_the_first_pass_and_kept_with_the_weights() -> None:
    act = bd.nn.QuantAct(3, interval="channel")
    optimizer = torch.optim.Adam(act.parameters(), lr=0.1)
    act(torch.rand(8, 5, 2, 2)).sum().backward()
    optimizer.step()
    assert act.thresholds.shape == (2, 5)
    other = bd.nn.QuantAct(3, interval="channel")
    other.load_state_dict(act.state_dict())
    assert torch.equal(other.thresholds, act.thresholds)
    with pytest.raises(bd.BinaryDuoError, match="for 5 channels, and its input has 4"):
        act(torch.rand(8, 4))
    with pytest.raises(bd.BinaryDuoError, match="need an input"):
        bd.nn.QuantAct(3, interval="channel")(torch.rand(8))
    with pytest.raises(bd.BinaryDuoError, match="has no thresholds"):
        bd.nn.QuantAct(None, interval="layer")
    with pytest.raises(bd.BinaryDuoError, match="unknown interval 'pixel'"):
        bd.nn.QuantAct(3, interval="pixel")  # type: ignore[arg-type]


def test_it_can_be_traced_copied_and_compiled_away() -> None:
    model = nn.Sequential(nn.Linear(4, 6), bd.nn.QuantAct(3, interval="channel"), nn.Linear(6, 2))
    x = torch.rand(5, 4)
    wanted = model(x)
    assert torch.equal(fx.symbolic_trace(model)(x), wanted)
    assert torch.equal(copy.deepcopy(model)(x), wanted)


# --- decoupling -----------------------------------------------------------------------------------------------


@BOUNDED
@given(seed=st.integers(0, 10**6), levels=st.integers(3, 6), topology=st.sampled_from(["duo", "quad"]))
def test_random_networks_with_random_thresholds_keep_their_function(
    seed: int, levels: int, topology: Any
) -> None:
    x = torch.randn(3, 3, 8, 8, generator=seeded(seed)).double()
    model = learn(RandomNet(seed, levels).double(), x, seed)
    binary = bd.decouple(model, x, topology)
    other = torch.randn(5, 3, 8, 8, generator=seeded(seed + 1)).double()
    with torch.no_grad():
        for images in (x, other):
            a, b = model(images), binary(images)
            assert (a - b).abs().max() <= 1e-10 * a.abs().max()
    for act in binary.modules():
        if isinstance(act, bd.nn.QuantAct):
            assert (act.levels, act.interval) == (2, None)
    names, new = binary.decoupling.names, dict(binary.named_parameters())
    assert set(names.values()) <= new.keys()
    assert not any(name.endswith("offsets") for name in names)


@pytest.mark.parametrize("topology", ["duo", "quad"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["resnet18-sc", "vgg7"])
def test_the_papers_networks_decouple_exactly_and_without_more_modules(
    name: str, kind: Any, topology: Any
) -> None:
    size = 64 if name.startswith("resnet") else 32
    more: dict[str, Any] = {"width": 0.13, "num_classes": 5, "image_size": size, "weight_bits": 1}
    model = bd.models.build(name, "coupled", interval=kind, topology=topology, **more).double()
    x = torch.randn(2, 3, size, size, generator=seeded(0)).double()
    plain = bd.decouple(bd.models.build(name, "coupled", topology=topology, **more).double(), x, topology)
    for act in model.modules():
        if isinstance(act, bd.nn.QuantAct) and act.offsets is not None:
            act.offsets.data.copy_(torch.randn(act.offsets.shape, generator=seeded(1)) * 0.2)
    binary = bd.decouple(model.eval(), x, topology)
    with torch.no_grad():
        a, b = model(x), binary(x)
    assert (a - b).abs().max() <= 1e-10 * a.abs().max()
    one_bit = [type(m).__name__ for m in binary.modules() if bd.nn.is_binary_weight(m)]
    assert one_bit == [type(m).__name__ for m in plain.modules() if bd.nn.is_binary_weight(m)]
    if name == "vgg7":  # no stream that is averaged: the thresholds are all in BN's biases
        assert {n: p.shape for n, p in binary.named_parameters()} == {
            n: p.shape for n, p in plain.named_parameters()
        }


def test_a_binary_activation_keeps_its_learned_threshold() -> None:
    model = nn.Sequential(
        nn.Linear(4, 6),
        bd.nn.QuantAct(2, interval="channel"),
        nn.Linear(6, 5),
        bd.nn.QuantAct(3),
        nn.Linear(5, 2),
    ).double()
    x = torch.randn(20, 4, generator=seeded(0)).double()
    learn(model[:2], x, 0, "channel")
    binary = bd.decouple(model, x)
    assert torch.equal(binary[1].offsets, model[1].offsets)
    assert torch.allclose(model(x), binary(x), atol=1e-12)


# --- where it is taken ----------------------------------------------------------------------------------------


def small(levels: int, interval: Any = None) -> nn.Sequential:
    acts = [bd.nn.QuantAct(levels, interval=interval) for _ in range(2)]
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), acts[0],
        bd.nn.BinaryConv2d(6, 8, 3, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(8), acts[1],
        nn.Flatten(), nn.Linear(8 * 9, 3),
    )  # fmt: skip


X = torch.rand(4, 1, 10, 10, generator=seeded(9))


@pytest.mark.parametrize("kind", KINDS)
def test_couple_takes_it_and_starts_as_without(kind: Any) -> None:
    torch.manual_seed(0)
    baseline = small(2)
    torch.manual_seed(1)
    plain = bd.couple(baseline, X)
    torch.manual_seed(1)
    learned = bd.couple(baseline, X, interval=kind)
    assert torch.equal(plain.eval()(X), learned.eval()(X))
    acts = [m for m in learned.modules() if isinstance(m, bd.nn.QuantAct)]
    assert [act.thresholds.shape[1] for act in acts] == ([1, 1] if kind == "layer" else [4, 5])
    own = bd.couple(learn(small(2, kind), X, 3, kind), X)  # those of the baseline are learned anew
    assert [m.interval for m in own.modules() if isinstance(m, bd.nn.QuantAct)] == [kind, kind]
    assert all(not p.any() for name, p in own.named_parameters() if name.endswith("offsets"))
    with pytest.raises(bd.BinaryDuoError, match="unknown interval"):
        bd.couple(baseline, X, interval="pixel")  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", ["baseline", "coupled", "decoupled"])
@pytest.mark.parametrize("kind", KINDS)
def test_build_takes_it(kind: Any, variant: Any) -> None:
    model = bd.models.build("mlp", variant, width=0.05, interval=kind)
    kinds = {m.interval for m in model.modules() if isinstance(m, bd.nn.QuantAct)}
    assert kinds == {None if variant == "decoupled" else kind}
    assert model.training
    with pytest.raises(bd.BinaryDuoError, match="has no thresholds"):
        bd.models.build("mlp", levels=None, interval=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_baseline_with_learned_thresholds_is_packed_exported_and_counted(kind: Any, tmp_path: Any) -> None:
    model = learn(small(2, kind), X, 4, kind)
    bd.pack(model, X[:1], tmp_path / "net.duo", verbose=False)  # compares bit by bit with the float64 model
    packed = bd.load(tmp_path / "net.duo")
    with torch.no_grad():
        assert np.allclose(packed(X.numpy()), model(X), atol=1e-4)
        assert torch.equal(standard_modules(model)(X), model(X))  # what export_onnx writes
    with_, without = bd.cost(model, X), bd.cost(small(2), X)
    learned = sum(p.numel() for name, p in model.named_parameters() if name.endswith("offsets"))
    assert with_.param_bits - without.param_bits == 32 * learned
    assert with_.ops == without.ops


def test_onnx_runtime_agrees(tmp_path: Any) -> None:
    model = learn(small(3), X, 4, "channel")
    bd.export_onnx(model, X, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    (found,) = session.run(None, {"images": X.numpy()})
    with torch.no_grad():
        assert np.allclose(found, model(X), atol=1e-4)


def test_the_fast_engine_leaves_learned_thresholds_to_autograd() -> None:
    assert kinds_fit(nn.BatchNorm2d(8), bd.nn.QuantAct(3))
    assert not kinds_fit(nn.BatchNorm2d(8), bd.nn.QuantAct(3, interval="layer"))
    assert pairs(small(3, "channel")) == []
    assert len(pairs(small(3))) == 2


def test_an_activation_used_twice_can_be_trained() -> None:
    act = bd.nn.QuantAct(3, interval="channel")
    model = nn.Sequential(nn.Linear(4, 6), act, nn.Linear(6, 6), act, nn.Linear(6, 1))
    model(torch.rand(8, 4, generator=seeded(2))).sum().backward()
    assert act.offsets.grad is not None
    assert act.offsets.grad.abs().sum() > 0


def test_profile_measures_it() -> None:
    model, labels = learn(small(3), X, 5, "channel"), torch.tensor([0, 1, 2, 0])
    found = bd.mismatch.profile(model, nn.functional.cross_entropy, X, labels, step=0.05, coordinates=20)
    assert found.method == "suffix"
    assert [layer.name for layer in found.layers] == ["0", "3", "8"]


def test_an_activation_shared_by_other_widths_cannot_learn_for_each_channel() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(4, 16), nn.Linear(16, 24), nn.Linear(24, 2)
            self.act = bd.nn.QuantAct()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last(self.act(self.second(self.act(self.first(x)))))
            return out

    x = torch.rand(3, 4)
    with pytest.raises(GraphError, match=r"'act' is used for 1[0-9] and for 1[0-9] channels"):
        bd.couple(Shared(), x, interval="channel")
    bd.couple(Shared(), x, interval="layer")(x)
