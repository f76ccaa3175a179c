"""decouple: the same function on random networks, what it refuses and how, and what it leaves alone."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, fx, nn
from torch.nn import functional as F

import binaryduo as bd
from binaryduo.graph.tracing import Tracer, tensors_in
from binaryduo.nn.copies import CopiedBatchNorm2d, shifts
from tests.random_nets import RandomNet, randomise
from tests.zoo import Forward, conv, head, image, stem

BOUNDED = settings(max_examples=15, derandomize=True, deadline=None)


def difference(a: Any, b: Any) -> float:
    pairs = list(zip(tensors_in(a), tensors_in(b), strict=True))
    return max(((u - v).abs().max() / u.abs().max().clamp_min(1e-30)).item() for u, v in pairs)


def small(levels: int = 3) -> nn.Sequential:
    body = [conv(6, 6), nn.BatchNorm2d(6), bd.nn.QuantAct(levels)]
    model = nn.Sequential(*stem(6, levels), *body, *head(6)).eval()
    randomise(model, torch.Generator().manual_seed(1))
    return model


# --- the law --------------------------------------------------------------------------------------------------


@BOUNDED
@given(seed=st.integers(0, 10**6), levels=st.integers(3, 6), topology=st.sampled_from(["duo", "quad"]))
def test_random_networks_keep_their_function(seed: int, levels: int, topology: Any) -> None:
    model = RandomNet(seed, levels).double().eval()
    x = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(seed)).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    binary = bd.decouple(model, x, topology)
    other = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(seed + 1)).double()
    with torch.no_grad():
        assert difference(model(x), binary(x)) < 1e-10
        assert difference(model(other), binary(other)) < 1e-10  # another batch size, too
    assert all(m.levels in (2, None) for m in binary.modules() if isinstance(m, bd.nn.QuantAct))
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    old, new = dict(model.named_parameters()), dict(binary.named_parameters())
    assert binary.decoupling.names.keys() == old.keys()
    assert set(binary.decoupling.names.values()) <= new.keys()


@BOUNDED
@given(seed=st.integers(0, 10**6), levels=st.integers(3, 6))
def test_in_float32_flips_start_within_rounding(seed: int, levels: int) -> None:
    model = RandomNet(seed, levels).eval()
    x = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    comparison = bd.decouple(model, x).decoupling.comparison
    assert comparison.images == 8
    assert comparison.farthest <= 1
    assert comparison.started <= comparison.flips <= comparison.activations
    if comparison.flips == 0:
        assert comparison.largest_difference < 1e-4


@pytest.mark.parametrize("levels", [3, 4, 5, 6])
def test_the_shifts_bring_every_threshold_to_one_half(levels: int) -> None:
    thresholds = [(i - 0.5) / (levels - 1) for i in range(1, levels)]
    assert shifts(levels - 1) == pytest.approx([0.5 - t for t in thresholds])
    bn = nn.BatchNorm2d(3)
    randomise(bn, torch.Generator().manual_seed(0))
    copied = CopiedBatchNorm2d.of(bn, levels - 1)
    assert torch.allclose(
        copied.bias.view(levels - 1, 3), torch.stack([bn.bias + s for s in shifts(levels - 1)])
    )


def test_training_mode_gives_the_same_values_as_the_coupled_network() -> None:
    model = small().double().train()
    binary = bd.decouple(model, image().double())
    x = image().double()
    assert difference(model(x), binary(x)) < 1e-10
    for was, now in (("1.running_mean", "1.running_mean"), ("4.running_var", "4.running_var")):
        assert torch.allclose(model.state_dict()[was], binary.state_dict()[now])
    assert model[1].num_batches_tracked == binary[1].num_batches_tracked == 1


# --- what is left as it was -----------------------------------------------------------------------------------


def test_modes_and_frozen_parameters_survive() -> None:
    model = small().train()
    model[1].eval().requires_grad_(False)
    model[3].weight.requires_grad_(False)
    binary = bd.decouple(model, image())
    assert model.training
    assert model[3].training
    assert binary.training
    assert not binary[1].training
    assert not binary[1].weight.requires_grad
    assert not binary[1].bias.requires_grad
    assert binary[4].training
    assert binary[4].weight.requires_grad
    assert not binary[3].weight.requires_grad


def test_a_frozen_bias_stays_frozen() -> None:
    model = nn.Sequential(nn.Conv2d(3, 6, 3), bd.nn.QuantAct(3), *head(6))
    model[0].requires_grad_(False)
    binary = bd.decouple(model, image())
    assert binary.decoupling.names["0.bias"] == "0.1.bias"
    assert not binary[0][1].bias.requires_grad


def test_gamma_of_any_sign_and_zero() -> None:
    model = small(4).double()
    model[1].weight.data[:] = torch.tensor([-2.0, 0.0, 1.0, -0.5, 0.0, 3.0])
    x = image().double()
    assert difference(model(x), bd.decouple(model, x)(x)) < 1e-10


def test_batch_norm_without_a_bias() -> None:
    norms = [nn.BatchNorm2d(6, bias=False), nn.BatchNorm2d(6, bias=False)]
    model = nn.Sequential(
        conv(3, 6), norms[0], bd.nn.QuantAct(3), conv(6, 6), norms[1], bd.nn.QuantAct(3), *head(6)
    )
    x = image().double()
    for topology in ("duo", "quad"):
        binary = bd.decouple(model.double().eval(), x, topology)
        assert difference(model(x), binary(x)) < 1e-10


def test_hooks_on_kept_modules_still_run() -> None:
    model, seen = small(), []
    model[3].register_forward_hook(lambda module, args, out: seen.append(tuple(args[0].shape)))
    binary = bd.decouple(model, image())
    seen.clear()
    binary(image())
    assert seen == [(4, 12, 8, 8)]


def test_inputs_of_any_memory_format_and_batch_size() -> None:
    model = small().to(memory_format=torch.channels_last)
    x = image().to(memory_format=torch.channels_last)
    assert difference(model(x), bd.decouple(model, x)(x)) < 1e-4
    binary = bd.decouple(small(), image(batch=1))
    for batch in (0, 3):
        assert binary(image(batch=batch)).shape == (batch, 5)
    with pytest.raises(
        bd.BinaryDuoError, match="example_input is empty"
    ):  # equality would be checked on nothing
        bd.decouple(small(), image(batch=0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    model = small().to(dtype)
    binary = bd.decouple(model, image().to(dtype))
    assert {p.dtype for p in binary.parameters()} == {dtype}
    assert binary.decoupling.comparison.largest_difference_float64 < 1e-10


# --- wrapped models -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler gives them
def test_compiled_and_traced_and_parallel_models() -> None:
    model, x = small().double(), image().double()
    expected = model(x)
    traced = fx.GraphModule(model, Tracer().trace(model))
    for wrapped in (torch.compile(model), traced, nn.DataParallel(model)):
        binary = bd.decouple(wrapped, x)
        assert difference(expected, binary(x)) < 1e-10
        assert bd.cost(wrapped, x).macs == bd.cost(model, x).macs


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_result_whose_forward_was_rewritten_is_still_the_users_class() -> None:
    class Net(nn.Module):
        """Mine."""

        def __init__(self) -> None:
            super().__init__()
            self.body, self.fc, self.unused = nn.Sequential(*stem(6, 3)), nn.Linear(96, 5), nn.Linear(2, 2)
            self.note = "kept"

        def helper(self) -> str:
            return self.note

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(F.dropout(self.body(x).view(-1, 96), 0.5, self.training))

    model, x = Net().eval(), image(size=4)
    binary = copy.deepcopy(bd.decouple(model, x))
    assert isinstance(binary, Net)
    assert (binary.helper(), type(binary).__name__, type(binary.body)) == ("kept", "Net", nn.Sequential)
    assert binary.fc.in_features == 192
    assert binary.decoupling.names["unused.weight"] == "unused.weight"
    assert torch.equal(binary(x), binary(x))
    binary.train()
    assert not torch.equal(binary(x), binary(x))  # dropout follows the mode again
    compiled = torch.compile(binary.eval(), backend="eager")
    assert difference(binary(x), compiled(x)) < 1e-6


# --- refusals -------------------------------------------------------------------------------------------------


def shared() -> nn.Module:
    def run(m: nn.Module, x: Tensor) -> Tensor:
        x = m.a(m.bn1(m.first(x)))
        return m.a(m.bn3(m.mid(m.a(m.bn2(m.mid(x))))))

    norms = {f"bn{i}": nn.BatchNorm2d(6) for i in (1, 2, 3)}
    return Forward(run, first=conv(3, 6), mid=conv(6, 6), a=bd.nn.QuantAct(3), **norms)


def tied() -> nn.Module:
    model = small()
    model[3].weight = nn.Parameter(torch.randn(6, 6, 3, 3))
    model.append(nn.Linear(5, 5))
    extra = nn.Sequential(model, nn.Unflatten(1, (5, 1, 1)), nn.Conv2d(5, 6, 1), conv(6, 6))
    extra[3].weight = model[3].weight
    return extra


def branching() -> nn.Module:
    def run(m: nn.Module, x: Tensor) -> Tensor:
        x = m.body(x)
        return x if x.sum() > 0 else -x

    return Forward(run, body=small())


def weight_norm() -> nn.Module:
    model = small()
    nn.utils.parametrizations.weight_norm(model[3])
    return model


def old_weight_norm() -> nn.Module:
    model = small()
    nn.utils.spectral_norm(model[3])
    model.train()(image())
    return model


def functional() -> nn.Module:
    def run(m: nn.Module, x: Tensor) -> Tensor:
        x = m.body[:3](x)
        return F.conv2d(m.body[3](x), m.body[3].weight)

    return Forward(run, body=small())


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "shared": (shared, "module 'mid' is used more than once.*Give each use a module of its own"),
    "tied": (tied, "parameters '0.3.weight' and '3.weight' are one and the same"),
    "branching": (branching, "cannot be traced by torch.fx: symbolically traced variables.*Control flow"),
    "weight_norm": (weight_norm, "module '3' computes its weight from other parameters"),
    "old weight_norm": (old_weight_norm, "module '3' computes its .weight.*remove that first"),
    "functional": (functional, "reads 'body.3.weight' besides calling module 'body.3'"),
    "traced": (
        lambda: fx.symbolic_trace(small()),
        "calls bd.nn.quantize: use a bd.nn.QuantAct module instead",
    ),
    "binary already": (lambda: bd.decouple(small(), image()), "no activation to decouple.*found levels 2"),
    "no activation": (lambda: nn.Sequential(conv(3, 5), nn.ReLU()), "found no QuantAct at all"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
def test_what_cannot_be_handled_is_refused_by_name(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(bd.BinaryDuoError, match=message):
        bd.decouple(make(), image())


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(bd.BinaryDuoError, match="topology must be one of duo, quad, not 'four'"):
        bd.decouple(small(), image(), "four")  # type: ignore[arg-type]
    with pytest.raises(bd.BinaryDuoError, match="example_input must be a tensor"):
        bd.decouple(small(), "image")
    with pytest.raises(bd.BinaryDuoError, match="does not go through module '0'"):
        bd.decouple(small(), image(channels=4))


def test_flips_are_counted_in_channels_last_too() -> None:
    """Values placed within rounding of the threshold 1/4, in the memory format that training uses."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm2d(4), bd.nn.QuantAct(3), nn.Flatten(), nn.Linear(64, 2)).eval()
    norm = net[0]
    with torch.no_grad():
        norm.running_mean.fill_(7.3)
        norm.weight.fill_(0.01)
        norm.bias.fill_(0.013)
        slope = norm.weight[0].double() * torch.rsqrt(norm.running_var[0].double() + norm.eps)
        at = (0.25 - 0.013) / slope + 7.3
        x = (at * (1 + torch.randn(64, 4, 4, 4).double() * 1e-7)).float()
    binary = bd.decouple(net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last))
    comparison = binary.decoupling.comparison
    assert 0 < comparison.started <= comparison.flips


def test_a_model_that_casts_by_itself() -> None:
    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), bd.nn.QuantAct(3))
            self.two = nn.Sequential(nn.Conv2d(6, 5, 3), nn.BatchNorm2d(5), bd.nn.QuantAct(3))
            self.last = nn.Linear(5 * 16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.one(x.float() / 255).to(torch.float32)
            return self.last(self.two(x).flatten(1)).float()

    torch.manual_seed(0)
    x = torch.randint(256, (4, 3, 8, 8))
    model = Casting().eval()
    binary = bd.decouple(model, x)
    assert binary.decoupling.comparison.largest_difference_float64 < 1e-10  # type: ignore[union-attr]
    assert torch.allclose(binary(x), model(x), atol=1e-5)
    with torch.inference_mode():
        assert torch.equal(bd.decouple(model, x)(x), binary(x))


@pytest.mark.parametrize("layer", [bd.nn.BinaryConv2d, nn.Conv2d])
def test_different_levels_side_by_side(layer: Any) -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            branches = [(6, 3), (5, 4), (4, 2)]
            self.branches = nn.ModuleList(
                nn.Sequential(nn.Conv2d(3, size, 3), nn.BatchNorm2d(size), bd.nn.QuantAct(levels))
                for size, levels in branches
            )
            self.behind = nn.Sequential(layer(15, 8, 3, bias=False), nn.BatchNorm2d(8), bd.nn.QuantAct(3))
            self.last = nn.Linear(8 * 16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.behind(torch.cat([b(x) for b in self.branches], 1)).flatten(1))

    torch.manual_seed(0)
    x = torch.randn(16, 3, 8, 8)
    model = Joined().eval()
    binary = bd.decouple(model, x)
    assert {m.levels for m in binary.modules() if isinstance(m, bd.nn.QuantAct)} == {2}
    assert binary.decoupling.comparison.largest_difference_float64 < 1e-10  # type: ignore[union-attr]


def test_values_that_lie_on_thresholds_by_construction_are_warned_of() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        bd.nn.QuantAct(),
        nn.AvgPool2d(2),
        bd.nn.QuantAct(),
        nn.Flatten(),
        nn.Linear(256, 4),
    ).double()
    x = torch.rand(20, 3, 8, 8).double()
    coupled = bd.couple(net, x, levels=4).eval()
    coupled[1].bias.data.fill_(0.5)  # type: ignore[index, union-attr]
    with pytest.warns(UserWarning, match="lie exactly on thresholds"):
        bd.decouple(coupled, x)
