"""BN and activation as one operation, against PyTorch's own two in float64."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import binaryduo as bd
from binaryduo.engine import _native
from binaryduo.nn import QuantAct
from binaryduo.nn.copies import CopiedBatchNorm2d
from binaryduo.training.fast import fast
from binaryduo.training.fast import norm as fastnorm

pytestmark = pytest.mark.skipif(not fastnorm.available(), reason="installed without the native part")


@pytest.fixture(params=_native.available().split())
def kernels(request, monkeypatch):
    """The kernels of each instruction set, or the next ones below where it has none of its own."""
    monkeypatch.setenv("BINARYDUO_ISA", request.param)
    assert fastnorm._norm.kernels() == request.param or request.param not in ("avx2", "scalar")


def test_unknown_instruction_set(monkeypatch):
    monkeypatch.setenv("BINARYDUO_ISA", "mmx")
    with pytest.raises(ValueError, match="this CPU runs one of"):
        fastnorm._norm.kernels()


def network(channels, copies, levels, seed):
    torch.manual_seed(seed)
    norm = nn.BatchNorm2d(channels)
    norm.weight.data.normal_(0.6, 0.3)
    norm.bias.data.normal_(0.4, 0.3)
    norm = CopiedBatchNorm2d.of(norm, copies) if copies > 1 else norm
    return nn.Sequential(norm, QuantAct(levels)).train()


def gradients(model, x, grad):
    x = x.clone().requires_grad_()
    y = model(x)
    y.backward(grad)
    return y.detach(), x.grad, [p.grad for p in model.parameters()]


@settings(max_examples=40, deadline=None)
@given(
    channels=st.integers(1, 37),
    copies=st.integers(1, 3),
    levels=st.sampled_from([2, 3, 4, 16]),
    size=st.tuples(
        st.integers(2, 5), st.integers(3, 9), st.integers(1, 9)
    ),  # two rows alone can nearly cancel
    seed=st.integers(0, 1000),
    threads=st.integers(1, 3),
)
def test_agrees_with_float64(channels, copies, levels, size, seed, threads):
    model = network(channels, copies, levels, seed)
    n, height, width = size
    x = torch.randn(n, channels, height, width) * 3 + 40  # a mean far from zero: sums must not cancel
    wide = copy.deepcopy(model).double()
    values = copy.deepcopy(wide)[0](x.double()).detach()
    steps = (values * (levels - 1) + 0.5) % 1
    near = (steps < 1e-3) | (steps > 1 - 1e-3)  # rounding may put these on either side
    edges = (values.abs() < 1e-3) | ((values - 1).abs() < 1e-3)
    grad = torch.randn(n, copies * channels, height, width).masked_fill(edges, 0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with fast(model) as layers:
            assert len(layers) == 1
            y, dx, dp = gradients(model, x, grad)
    finally:
        torch.set_num_threads(before)
    wanted, wanted_dx, wanted_dp = gradients(wide, x.double(), grad.double())
    torch.testing.assert_close(y.double()[~near], wanted[~near], rtol=0, atol=1e-6)
    for found, right in zip([dx, *dp], [wanted_dx, *wanted_dp], strict=True):
        assert (found - right).abs().max() <= 1e-3 * max(1.0, float(right.abs().max()))
    for name in ("running_mean", "running_var"):
        found, right = getattr(model[0], name), getattr(wide[0], name)
        torch.testing.assert_close(found.double(), right, rtol=1e-4, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    channels=st.integers(1, 37),
    copies=st.integers(1, 3),
    size=st.tuples(st.integers(2, 5), st.integers(3, 9), st.integers(1, 9)),
    seed=st.integers(0, 1000),
)
def test_copies_without_an_activation_agree_with_float64(channels, copies, size, seed):
    """As in a residual stream, where the copies are added to others before an activation reads them."""
    torch.manual_seed(seed)
    norm = CopiedBatchNorm2d.of(nn.BatchNorm2d(channels), copies).train()
    norm.weight.data.normal_(0.6, 0.3)
    n, height, width = size
    x = torch.randn(n, channels, height, width) * 3 + 40
    grad = torch.randn(n, copies * channels, height, width)
    wide = copy.deepcopy(norm).double()
    with fast(norm) as layers:
        assert len(layers) == 1
        y, dx, dp = gradients(norm, x, grad)
    wanted, wanted_dx, wanted_dp = gradients(wide, x.double(), grad.double())
    torch.testing.assert_close(y.double(), wanted, rtol=0, atol=1e-4)
    for found, right in zip([dx, *dp], [wanted_dx, *wanted_dp], strict=True):
        assert (found - right).abs().max() <= 1e-3 * max(1.0, float(right.abs().max()))
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(norm, name).double(), getattr(wide, name), rtol=1e-4, atol=1e-4)


def test_every_instruction_set_makes_copies_without_an_activation(kernels):
    torch.manual_seed(0)
    norm = CopiedBatchNorm2d.of(nn.BatchNorm2d(45), 2).train()
    x, grad = torch.randn(4, 45, 6, 6), torch.randn(4, 90, 6, 6)
    wanted = gradients(copy.deepcopy(norm), x, grad)
    with fast(norm):
        found = gradients(norm, x, grad)
    torch.testing.assert_close(found[:2], wanted[:2], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[2], wanted[2], rtol=1e-4, atol=1e-3)


def test_both_instruction_sets(kernels):
    model = network(45, 2, 3, 0)
    x, grad = torch.randn(4, 45, 6, 6), torch.randn(4, 90, 6, 6)
    wanted = gradients(copy.deepcopy(model), x, grad)
    with fast(model):
        found = gradients(model, x, grad)
    assert (found[0] != wanted[0]).float().mean() < 1e-3
    assert torch.nn.functional.cosine_similarity(found[1].flatten(), wanted[1].flatten(), dim=0) > 0.999


def test_evaluation_is_untouched():
    model = network(8, 2, 2, 1)
    model(torch.randn(4, 8, 5, 5))
    model.eval()
    x = torch.randn(3, 8, 5, 5)
    wanted = model(x)
    with fast(model):
        assert torch.equal(model(x), wanted)
    plain = copy.deepcopy(model).train().double()
    with fast(model):
        assert torch.equal(model.train().double()(x.double()), plain(x.double()))
    assert not any("forward" in module.__dict__ for module in model.modules())


class Branches(nn.Module):
    """What must not be taken for a pair: a second reader, a module used twice, a reader in training only."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.BatchNorm2d(4) for _ in range(4))
        self.one, self.two, self.three, self.four = (QuantAct() for _ in range(4))

    def forward(self, x):
        y = self.a(x)
        y = self.one(y) + y
        y = self.two(self.b(y)) + self.two(y)
        z = self.c(y)
        y = self.three(z)
        y = y + z if self.training else y
        return self.four(self.d(y))


def test_only_pairs_are_joined():
    model = Branches()
    assert fastnorm.pairs(model) == [(model.d, model.four)]
    assert fastnorm.pairs(model.eval()) == [(model.d, model.four)]
    assert not model.training


def test_the_paper_networks_use_it():
    for variant, count in (("baseline", 4), ("coupled", 4), ("decoupled", 4)):
        model = bd.models.build("vgg7", variant=variant, width=0.25)
        assert len(fast(model).pairs) == count
        assert not fast(model).norms
    stream = fast(bd.models.build("resnet18-sc-small", variant="decoupled", width=0.25))
    assert len(stream.norms) == 16  # each convolution's but the last one's, and the stream's first


def test_hooks_see_and_change_what_they_would_without_it():
    x = torch.randn(4, 8, 5, 5)
    for place, register in ((0, "register_forward_hook"), (1, "register_forward_pre_hook")):
        model = network(8, 2, 2, 1)
        seen = []
        getattr(model[place], register)(lambda *a, seen=seen: seen.append(a[-1]))
        wanted = copy.deepcopy(model)(x)
        with fast(model):
            found = model(x)
        assert torch.equal(found, wanted)
        value = seen[-1] if place == 0 else seen[-1][0]
        assert len(value.unique()) > 2  # not levels


def test_modes_defaults_and_second_derivatives():
    model = nn.Sequential(network(8, 1, 2, 1), network(8, 1, 2, 1))
    model[0].eval()
    layers = fast(model)
    assert len(layers) == 2
    assert [part.training for part in model] == [False, True]
    model.train()
    x = torch.randn(4, 8, 5, 5)
    with layers:
        wanted = model(x)
        torch.set_default_dtype(torch.bfloat16)
        try:
            assert torch.equal(model(x), wanted)
        finally:
            torch.set_default_dtype(torch.float32)
        x.requires_grad_()
        (grad,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):  # a second derivative is refused, not wrong
        grad.sum().backward()
