"""The layers, and that they survive what users do to layers."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, fx, nn

import binaryduo as bd


def net() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        bd.nn.QuantAct(3, ste="steep2"),
        bd.nn.BinaryConv2d(8, 4, 3, padding=1),
        bd.nn.QuantAct(),
        nn.Flatten(),
        bd.nn.BinaryLinear(64, 5),
    )


def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    model.zero_grad()
    model(x).square().sum().backward()
    return [p.grad.clone() for p in [x, *model.parameters()] if p.grad is not None]


X = torch.linspace(-2, 2, 2 * 3 * 16).view(2, 3, 4, 4)


def test_binary_weights_are_the_sign_times_the_mean() -> None:
    conv = bd.nn.BinaryConv2d(3, 4, 3, padding=1, stride=2)
    conv.weight.data[0, 0, 0, 0] = 0.0  # the sign of 0 is +1
    latent = conv.weight.detach().double()
    sign = torch.where(latent < 0, -1.0, 1.0).double()
    plain = nn.Conv2d(3, 4, 3, padding=1, stride=2).double()
    plain.weight.data = sign * latent.abs().mean()
    assert conv.bias is not None
    plain.bias = nn.Parameter(conv.bias.detach().double())
    assert torch.allclose(conv.eval()(X).double(), plain(X.double()), atol=1e-5)
    linear = bd.nn.BinaryLinear(6, 2, bias=False).eval()
    w = linear.weight.detach()
    expected = X.view(-1, 6) @ (torch.where(w < 0, -1.0, 1.0) * w.abs().mean()).T
    assert torch.allclose(linear(X.view(-1, 6)), expected, atol=1e-5)


def test_the_gradient_passes_the_sign_unchanged() -> None:
    linear = bd.nn.BinaryLinear(6, 2, bias=False)
    x = X.view(-1, 6)
    incoming = torch.linspace(-1, 1, 32).view(-1, 2)
    linear(x).backward(incoming)
    assert torch.allclose(linear.weight.grad, incoming.T @ x, atol=1e-5)


def test_latent_weights_are_clipped_in_training_only() -> None:
    linear = bd.nn.BinaryLinear(4, 2)
    linear.weight.data.fill_(3.0)
    linear.eval()(torch.ones(1, 4))
    assert linear.weight.max() == 3
    linear.train()(torch.ones(1, 4))
    assert linear.weight.max() == 1
    linear.weight.data.fill_(-2.0)
    bd.nn.clip_latent_weights(nn.Sequential(linear))
    assert linear.weight.min() == -1


def test_they_are_torchs_own_layers() -> None:
    assert issubclass(bd.nn.BinaryConv2d, nn.Conv2d)
    assert issubclass(bd.nn.BinaryLinear, nn.Linear)
    conv = bd.nn.BinaryConv2d(4, 8, (3, 1), stride=2, padding="valid", dilation=2, groups=2, bias=False)
    assert (
        conv(torch.rand(1, 4, 9, 9)).shape
        == nn.Conv2d(4, 8, (3, 1), 2, "valid", 2, 2, False)(torch.rand(1, 4, 9, 9)).shape
    )


def test_levels_none_is_a_relu() -> None:
    x = X.clone().requires_grad_()
    bd.nn.QuantAct(None)(x).sum().backward()
    assert torch.equal(bd.nn.QuantAct(None)(X), X.relu())
    assert torch.equal(x.grad, (X > 0).float())


def test_soft_activations_are_the_ste_in_training_and_the_staircase_in_evaluation() -> None:
    act = bd.nn.QuantAct(3, ste="sigmoid", slope=2.0, soft=True)
    assert torch.equal(act.train()(X), bd.ste.function("sigmoid", X, 3, 2.0))
    assert torch.equal(act.eval()(X), bd.nn.QuantAct(3)(X))
    assert repr(act) == "QuantAct(levels=3, ste='sigmoid', slope=2.0, soft=True)"


def test_a_slope_may_be_raised_while_training() -> None:
    act = bd.nn.QuantAct(2, ste="piecewise-linear", slope=1.0)
    x = torch.tensor([0.1, 0.45], requires_grad=True)
    act(x).sum().backward()
    act.slope = 4.0
    y = torch.tensor([0.1, 0.45], requires_grad=True)
    act(y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 1.0], [0.0, 4.0])


def test_deepcopy_and_state_dict(tmp_path: Path) -> None:
    model = net().eval()
    clone = copy.deepcopy(model)
    assert torch.equal(model(X), clone(X))
    assert (clone[1].levels, clone[1].ste) == (3, "steep2")
    save_file(model.state_dict(), tmp_path / "net.safetensors")
    other = bd.nn.initialise(net()).eval()
    assert not torch.equal(model(X), other(X))
    other.load_state_dict(load_file(tmp_path / "net.safetensors"))
    assert torch.equal(model(X), other(X))
    assert set(model.state_dict()) == {f"{i}.{p}" for i in (0, 2, 5) for p in ("weight", "bias")}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler gives them
@pytest.mark.parametrize("name", ["relu1", "swishsign"])
def test_compile_gives_the_same_values_and_gradients(name: str) -> None:
    torch._dynamo.reset()
    model = net()
    for act in (model[1], model[3]):
        act.ste = name
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert torch.allclose(model(X), compiled(X), atol=1e-6)
    for eager, other in zip(gradients(model, X), gradients(compiled, X), strict=True):
        assert torch.allclose(eager, other, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    model = net()
    with torch.autocast("cpu", dtype=dtype):
        out = model(X)
        out.float().sum().backward()
    assert out.dtype == dtype
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
    levels = bd.nn.QuantAct(4)(X.to(dtype))
    assert levels.dtype == dtype
    assert torch.equal((levels * 3).round().unique(), torch.arange(4, dtype=dtype))


def test_channels_last() -> None:
    model = net()
    last = X.to(memory_format=torch.channels_last)
    out = model[1](last)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(out, model[1](X))
    for plain, other in zip(
        gradients(model, X), gradients(model.to(memory_format=torch.channels_last), last), strict=True
    ):
        assert torch.allclose(plain, other, atol=1e-5)


def test_inputs_that_are_not_contiguous() -> None:
    act = bd.nn.QuantAct(3)
    for x in (X.transpose(1, 3), X[:, :, ::2], X[:1].expand(4, -1, -1, -1)):
        assert torch.equal(act(x), act(x.contiguous()))


def test_fx_with_the_default_tracer() -> None:
    model = net()
    traced: Any = fx.symbolic_trace(model)
    for eager, other in zip(gradients(model, X), gradients(traced, X), strict=True):
        assert torch.equal(eager, other)
    called = {node.target for node in traced.graph.nodes if node.op == "call_function"}
    assert {bd.nn.quantize, bd.nn.binarize_weight} <= called


def test_gradients_of_gradients_and_frozen_inputs_do_no_harm() -> None:
    with torch.no_grad():
        assert not bd.nn.QuantAct()(X).requires_grad
    with torch.inference_mode():
        assert bd.nn.QuantAct(5)(X).unique().tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_initialise_gives_every_layer_fresh_values() -> None:
    model = nn.Sequential(nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64), nn.Linear(500, 400))
    for parameter in model.parameters():
        nn.init.constant_(parameter, 7.0)
    model[1].running_mean.fill_(3.0)
    bd.nn.initialise(model)
    assert model[0].weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.05)
    assert model[2].weight.std().item() == pytest.approx((2 / 500) ** 0.5, rel=0.05)
    assert model[1].weight.unique().tolist() == [1]
    assert not model[1].running_mean.any()
    assert not model[0].bias.any()
