"""couple: the paper's widths, the weight budget on random networks, and the reasons it gives."""

import copy
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import binaryduo as bd
from tests.random_nets import RandomNet
from tests.zoo import conv, head, image, stem

LAYERS = (nn.Conv1d, nn.Conv2d, nn.Linear)


def layers(model: nn.Module) -> list[nn.Module]:
    return [m for m in model.modules() if isinstance(m, LAYERS)]


def weights(model: nn.Module) -> int:
    return sum(layer.weight.numel() for layer in layers(model))


@pytest.mark.parametrize("levels", [3, 4, 5, 6, 10])
def test_coupled_width_is_the_floor_of_the_quotient(levels: int) -> None:
    for n in range(1, 2049):
        width = bd.coupled_width(n, levels)
        assert width == 1 or width**2 * (levels - 1) <= n**2  # exactly, where floats would round
        assert (width + 1) ** 2 * (levels - 1) > n**2
        assert width == max(1, math.floor(n / math.sqrt(levels - 1) + 1e-9))


@settings(max_examples=15, derandomize=True, deadline=None)
@given(seed=st.integers(0, 10**6), levels=st.integers(3, 6), topology=st.sampled_from(["duo", "quad"]))
def test_random_networks_stay_in_the_budget(seed: int, levels: int, topology: Any) -> None:
    baseline = RandomNet(seed, 2).eval()
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    before = copy.deepcopy(baseline.state_dict())
    coupled = None
    refusal = ""
    try:
        coupled = bd.couple(baseline, x, levels, topology)
    except bd.BinaryDuoError as error:
        refusal = str(error)
    after = baseline.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    if coupled is None:  # a network of 3 to 9 channels may have nothing left to narrow
        assert "nothing is left to narrow" in refusal
        return
    assert {m.levels for m in coupled.modules() if isinstance(m, bd.nn.QuantAct)} == {levels}
    binary = bd.decouple(coupled, x, topology)
    assert weights(binary) <= weights(baseline)
    assert coupled.coupling.baseline_weights == weights(baseline)
    if topology == "duo":
        assert coupled.coupling.decoupled_weights == weights(binary)
    else:
        assert coupled.coupling.decoupled_weights >= weights(binary)
    assert coupled(x).shape == baseline(x).shape
    assert all(p.isfinite().all() for p in coupled.parameters())


def test_vgg7_gets_the_papers_widths_by_itself() -> None:
    baseline = bd.models.build("vgg7")
    x = bd.models.example_input("vgg7")
    coupled = bd.couple(baseline, x)
    assert [layer.weight.shape[0] for layer in layers(coupled)] == [45, 45, 90, 90, 336, 512, 10]
    assert (weights(baseline), coupled.coupling.decoupled_weights) == (1_575_616, 1_573_229)
    # 336 is the largest: one more would not fit. Written out, with every input behind an activation doubled:
    assert _vgg7_decoupled_weights(336) == 1_573_229 <= 1_575_616 < _vgg7_decoupled_weights(337)
    story = str(coupled.coupling)
    assert "dense.0: narrowed further, 362 -> 336" in story
    assert "the layer behind it is not narrowed" in story


def _vgg7_decoupled_weights(dense: int) -> int:
    convs = 27 * 45 + 2 * 45 * 9 * 45 + 2 * 45 * 9 * 90 + 2 * 90 * 9 * 90
    return convs + 2 * 90 * 16 * dense + 2 * dense * 512 + 512 * 10


def test_quad_gives_the_baselines_own_architecture() -> None:
    baseline = bd.models.build("vgg7", width=0.25)
    x = bd.models.example_input("vgg7")
    coupled = bd.couple(baseline, x, topology="quad")
    binary = bd.decouple(coupled.eval(), x, "quad")
    assert [layer.weight.shape for layer in layers(binary)] == [
        layer.weight.shape for layer in layers(baseline)
    ]
    assert [type(m) for m in binary.modules()] == [type(m) for m in baseline.modules()]


def test_a_residual_network_in_quad_has_the_baselines_layers() -> None:
    baseline = bd.models.build("resnet18", width=0.125, num_classes=10, image_size=32)
    x = bd.models.example_input("resnet18", image_size=32)
    binary = bd.decouple(bd.couple(baseline, x, topology="quad").eval(), x, "quad")
    assert [layer.weight.shape for layer in layers(binary)] == [
        layer.weight.shape for layer in layers(baseline)
    ]


def test_initialisation_is_fresh_and_follows_the_seed() -> None:
    baseline = bd.models.build("mlp")
    x = bd.models.example_input("mlp")
    torch.manual_seed(1)
    first = bd.couple(baseline, x)
    torch.manual_seed(1)
    again = bd.couple(baseline, x)
    other = bd.couple(baseline, x)
    name, weight = next(iter(first.named_parameters()))
    assert torch.equal(weight, dict(again.named_parameters())[name])
    assert not torch.equal(weight, dict(other.named_parameters())[name])


def test_the_boundary_that_costs_most_is_narrowed_first() -> None:
    wide, thin = nn.Linear(40 * 16, 400), nn.Linear(40, 4)

    class Two(nn.Module):
        """Two boundaries: the activations of `a` and of `b` are read by layers that keep their width."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Sequential(*stem(40, 2)), nn.Sequential(*stem(40, 2))
            self.wide, self.thin, self.relu = wide, thin, nn.ReLU()

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.relu(self.wide(self.a(x).flatten(1))), self.thin(self.b(x).mean((2, 3)))

    coupled = bd.couple(Two(), image(size=4))
    assert coupled.coupling.widths["a.0"][1] < coupled.coupling.widths["b.0"][1] == bd.coupled_width(40)
    assert any(reason.startswith("a.0: narrowed further") for reason in coupled.coupling.reasons)


def test_a_parametrized_layer_that_is_not_called_is_left_as_it_is() -> None:
    """Its weight is computed, so that it has no parameter of that name."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *stem(16, 2), conv(16, 16), *stem(16, 2)[1:], nn.Flatten(), nn.Linear(1024, 4)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.body(x)
            return out

    net, x = Net(), torch.rand(2, 3, 8, 8)
    without: Any = bd.couple(net, x).coupling
    net.spare = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    coupled = bd.couple(net, x)
    found: Any = coupled.coupling
    assert found.widths == without.widths
    assert found.baseline_weights - without.baseline_weights == 4 * 4 + 4  # directions and lengths
    bd.decouple(coupled.eval(), x)


def test_what_cannot_be_coupled_is_refused() -> None:
    net = nn.Sequential(*stem(6, 2), conv(6, 6), nn.BatchNorm2d(6), bd.nn.QuantAct(), *head(6))
    with pytest.raises(bd.BinaryDuoError, match="3 or more levels"):
        bd.couple(net, image(), levels=2)
    with pytest.raises(bd.BinaryDuoError, match="coupled already: couple the binary baseline"):
        bd.couple(bd.couple(net, image()), image())
    with pytest.raises(bd.BinaryDuoError, match="no quantized activation to couple"):
        bd.couple(nn.Sequential(conv(3, 4), nn.ReLU()), image())
    fixed = nn.Sequential(
        *stem(6, 2),
        nn.LocalResponseNorm(2),
        conv(6, 6),
        nn.LocalResponseNorm(2),
        bd.nn.QuantAct(),
        conv(6, 6),
    )
    with pytest.raises(bd.BinaryDuoError, match=r"nothing is left to narrow: '0' keeps its width because"):
        bd.couple(fixed, image())
