"""`couple(widths="fill")`: what the floor leaves of the budget is used, and no more than that."""

from typing import Any

import pytest
import torch
from torch import nn

import binaryduo as bd
from binaryduo.errors import ArgumentError
from binaryduo.graph.analysis import analyse
from binaryduo.transform.widths import Widths
from tests.architectures import ARCHITECTURES
from tests.random_nets import RandomNet

NETWORKS = {
    f"random {seed}": lambda seed=seed: (RandomNet(seed, 2), torch.randn(2, 3, 16, 16)) for seed in range(8)
}
# Grouped, zero-padded, depthwise, gated, concatenated, dense, transposed: each has a rule of its own for widths.
NAMES = (
    "ResNet-20 for CIFAR",
    "DoReFa-Net AlexNet",
    "MobileNetV2",
    "SE-ResNet",
    "GoogLeNet",
    "VGG-Small",
    "U-Net",
)
NETWORKS |= {name: ARCHITECTURES[name].make for name in NAMES}


def weights(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.dim() > 1)


def layers(model: nn.Module) -> dict[str, int]:
    """How many outputs every layer has."""
    return {
        name: module.weight.shape[1 if module._get_name().startswith("ConvTranspose") else 0]
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd)
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_no_layer_can_grow_by_a_step(name: str) -> None:
    torch.manual_seed(0)
    model, x = NETWORKS[name]()
    plain, filled = bd.couple(model, x), bd.couple(model, x, widths="fill")
    before, after, rule = layers(model), layers(filled), layers(plain)
    assert all(rule[layer] <= after[layer] <= before[layer] for layer in before)
    coupling = filled.coupling
    assert plain.coupling.decoupled_weights <= coupling.decoupled_weights <= coupling.baseline_weights
    binary = bd.decouple(filled.eval(), x)  # and what it says is what comes out
    assert weights(binary) == coupling.decoupled_weights <= weights(model)
    # One step more in any group of channels is one too many.
    widths = Widths(analyse(model, x), 3, "duo")
    widths.fill()
    budget = widths.total(decoupled=False)
    for group in widths.narrowed:
        widths.new[id(group)] += group.divisor
        wider = widths.new[id(group)] > group.size
        assert wider or widths.total(decoupled=True) > budget or not widths.pads_fit(), group.name
        widths.new[id(group)] -= group.divisor


def test_vgg7_keeps_the_papers_widths_by_default_and_fills_up_on_request() -> None:
    x = torch.rand(1, 3, 32, 32)
    model = bd.models.build("vgg7", width=0.25)
    rule, filled = bd.couple(model, x).coupling, bd.couple(model, x, widths="fill").coupling
    assert rule.decoupled_weights < filled.decoupled_weights <= rule.baseline_weights
    assert filled.decoupled_weights > 0.99 * filled.baseline_weights
    assert "widened" in str(filled)


def test_quad_never_exceeds_the_baselines_architecture() -> None:
    model, x = RandomNet(3, 2), torch.randn(2, 3, 16, 16)
    coupled = bd.couple(model, x, topology="quad", widths="fill")
    binary = bd.decouple(coupled.eval(), x, topology="quad")
    assert weights(binary) <= weights(model)


@pytest.mark.parametrize("widths", ["full", 3, ["fill"]])
def test_other_widths_are_refused(widths: Any) -> None:
    model, x = RandomNet(3, 2), torch.randn(2, 3, 16, 16)
    with pytest.raises(ArgumentError, match="widths must be None, 'fill' or a mapping of layers to channels"):
        bd.couple(model, x, widths=widths)


class Added(nn.Module):
    """Two layers whose outputs are added, and so are as wide as each other."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.act, self.fc = (
            nn.Linear(8, 12),
            nn.Linear(8, 12),
            bd.nn.QuantAct(),
            nn.Linear(12, 3),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.act(self.a(x) + self.b(x)))


def test_widths_that_contradict_each_other_are_refused() -> None:
    x = torch.randn(2, 8)
    assert bd.couple(Added(), x, widths={"a": 7, "b": 7}).b.out_features == 7
    with pytest.raises(
        ArgumentError, match="'a' and 'b' have the same channels, so that they cannot be 7 and 8"
    ):
        bd.couple(Added(), x, widths={"a": 7, "b": 8})
