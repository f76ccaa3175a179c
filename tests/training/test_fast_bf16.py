"""Training in bfloat16 by this package's kernels, against float64 on the same rounded numbers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import binaryduo as bd
from binaryduo.engine import _native
from binaryduo.training.fast import convolution, fast
from binaryduo.training.fast import norm as fastnorm

pytestmark = pytest.mark.skipif(not convolution.available(), reason="installed without the native part")
tiles = pytest.mark.skipif(not convolution.tiles_available(), reason="this CPU has no AMX tiles")

ROUNDING = 2.0**-8  # of a number that is stored as bfloat16


def rounded(*size: int, seed: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).bfloat16()


def convolved(x: Tensor, w: Tensor, grad: Tensor, own: bool) -> list[Tensor]:
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    y = convolution.convolve(x, w) if own else F.conv2d(x, w, padding=1)
    y.backward(grad)
    assert x.grad is not None
    assert w.grad is not None
    return [y.detach(), x.grad, w.grad]


@pytest.mark.parametrize("instructions", _native.available().split())
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1, 1, 1),
        (3, 5, 7, 5, 9),
        (2, 45, 45, 8, 8),
        (9, 90, 45, 7, 11),
        (2, 3, 64, 32, 32),
        (1, 16, 17, 2, 33),
        (11, 33, 31, 4, 4),
    ],
)
def test_convolution_against_float64(
    shape: tuple[int, ...], threads: int, instructions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINARYDUO_ISA", instructions)
    n, ci, co, h, w = shape
    x, weight, grad = (
        rounded(*size, seed=i) for i, size in enumerate([(n, ci, h, w), (co, ci, 3, 3), (n, co, h, w)])
    )
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        y, dx, dw = convolved(x, weight.float(), grad, own=True)
    finally:
        torch.set_num_threads(before)
    exact = convolved(x.double(), weight.double(), grad.double(), own=False)
    assert (y.dtype, dx.dtype, dw.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    for mine, wanted, error in zip((y, dx, dw), exact, (ROUNDING, ROUNDING, 1e-5), strict=True):
        bound = error * wanted.abs() + 1e-5 * wanted.abs().max()
        assert bool(((mine.double() - wanted).abs() <= bound).all())


@tiles
def test_any_number_of_threads_gives_the_same_bits() -> None:
    x, w, grad = (
        rounded(19, 20, 9, 9, seed=0),
        rounded(24, 20, 3, 3, seed=1).float(),
        rounded(19, 24, 9, 9, seed=2),
    )
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(convolved(x, w, grad, own=True))
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("levels", [0, 2, 3])  # 0: without an activation
@pytest.mark.parametrize("channels", [1, 8, 45])
def test_norm_reads_and_writes_bfloat16(channels: int, levels: int, copies: int) -> None:
    """The float32 kernels on the same numbers give the same levels; gradients differ by their last rounding."""
    x, grad = rounded(4, channels, 5, 6, seed=0), rounded(4, copies * channels, 5, 6, seed=1)
    random = torch.Generator().manual_seed(2)
    weight, bias = (torch.rand(copies * channels, generator=random) for _ in range(2))

    def run(kind: torch.dtype) -> tuple[Tensor, ...]:
        inputs = [t.detach().clone().requires_grad_() for t in (x.to(kind), weight, bias)]
        out, mean, var = fastnorm.normalise(*inputs, copies, levels, 1e-5)  # type: ignore[call-arg]
        out.backward(grad.to(kind))
        return out.detach(), mean, var, *(t.grad for t in inputs)  # type: ignore[return-value]

    mine, wanted = run(torch.bfloat16), run(torch.float32)
    assert mine[0].dtype == mine[3].dtype == torch.bfloat16
    assert torch.equal(mine[0].float(), wanted[0].bfloat16().float())
    for a, b in zip((*mine[1:3], *mine[4:]), (*wanted[1:3], *wanted[4:]), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(mine[3], wanted[3].bfloat16())


def test_a_step_is_autocasts_up_to_rounding() -> None:
    """Of one quantized layer: through more of them, the few activations that rounding flips change everything."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), bd.nn.QuantAct(3), nn.MaxPool2d(2)
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * 8 * 8, 10)).train()
    plain, x, y = copy.deepcopy(model), torch.rand(32, 3, 16, 16), torch.arange(32) % 10
    with fast(model), torch.autocast("cpu", torch.bfloat16):
        F.cross_entropy(model(x), y).backward()
    with torch.autocast("cpu", torch.bfloat16):
        F.cross_entropy(plain(x), y).backward()
    for (name, mine), own in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert mine.grad is not None
        assert own.grad is not None
        if name != "0.bias":  # which BN takes away again: rounding is all that is left
            assert F.cosine_similarity(mine.grad.flatten(), own.grad.flatten(), dim=0) > 0.99, name


@tiles
def test_another_instruction_set_turns_tiles_off(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = nn.Conv2d(4, 4, 3, padding=1), torch.rand(1, 4, 5, 5)
    with fast(layer) as layers, torch.autocast("cpu", torch.bfloat16):
        assert len(layers) == 1
        assert layer(x).dtype == torch.bfloat16
    monkeypatch.setenv("BINARYDUO_ISA", "avx2")
    assert not convolution.tiles_available()
    assert len(fast(layer)) == 0
