"""Convolutions in training against float64, in float32, on every path."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from binaryduo.engine import _native
from binaryduo.nn import BinaryConv2d
from binaryduo.training.fast import convolution, fast

pytestmark = pytest.mark.skipif(not convolution.available(), reason="installed without the native part")


@pytest.fixture(params=_native.available().split())
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernels of each instruction set, or the next ones below where it has none of its own."""
    from binaryduo.training.fast import _convolution

    monkeypatch.setenv("BINARYDUO_ISA", request.param)
    assert _convolution.kernels() == request.param or request.param not in ("avx512", "avx2", "scalar")
    return _convolution.kernels()


def gradients(x: Tensor, w: Tensor, fast: bool) -> list[Tensor]:
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = convolution.convolve(x, w) if fast else F.conv2d(x, w, padding=1)
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(y.dtype)
    y.backward(grad)
    assert x.grad is not None
    assert w.grad is not None
    return [y.detach(), x.grad, w.grad]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 16, 16, 4, 4),
        (3, 17, 33, 5, 7),
        (2, 45, 90, 8, 8),
        (7, 64, 24, 12, 10),
        (1, 8, 1, 1, 1),
        (2, 31, 16, 3, 9),
    ],
)
def test_against_float64(kernels: str, shape: tuple[int, ...], threads: int) -> None:
    n, ci, co, h, w = shape
    random = torch.Generator().manual_seed(1)
    x = torch.randn(n, ci, h, w, generator=random, dtype=torch.float64)
    weight = torch.randn(co, ci, 3, 3, generator=random, dtype=torch.float64)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = gradients(x.float(), weight.float(), fast=True)
    finally:
        torch.set_num_threads(before)
    for mine, exact in zip(found, gradients(x, weight, fast=False), strict=True):
        assert float((mine - exact).abs().max()) < 2e-5 * float(exact.abs().max())


def test_the_same_threads_give_the_same_bits() -> None:
    random = torch.Generator().manual_seed(3)
    x, w = torch.randn(9, 20, 11, 11, generator=random), torch.randn(24, 20, 3, 3, generator=random)
    first, again = gradients(x, w, fast=True), gradients(x, w, fast=True)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_only_training_is_changed_and_everything_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINARYDUO_ISA", "scalar")  # without tiles, which take narrow layers too
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1), BinaryConv2d(16, 32, 3, padding=1)
    )
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        plain = model(x)
        with fast(model) as layers:
            assert len(layers) == 2
            trained = model.train()(x)
            assert not torch.equal(trained, plain)
            assert torch.allclose(trained, plain, atol=1e-4)
            assert torch.equal(model.eval()(x), plain)
            assert torch.equal(model.train().double()(x.double()).float(), model.eval()(x.double()).float())
        assert torch.equal(model.float().train()(x), plain)


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv2d(16, 16, 3, padding=1, stride=2),
        nn.Conv2d(16, 16, 3),
        nn.Conv2d(16, 16, 3, padding=1, groups=2),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2),
        nn.Conv2d(16, 16, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(16, 16, 5, padding=2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.Linear(16, 16),
    ],
    ids=str,
)
def test_other_layers_are_left_alone(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINARYDUO_ISA", "scalar")
    assert not convolution.suits(module)
