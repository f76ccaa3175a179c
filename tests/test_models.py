"""The paper's networks: widths, weights, and where the decoupled ResNet carries its shifts."""

from typing import Any

import pytest
import torch
from torch import nn

import binaryduo as bd
from binaryduo.nn.copies import CopiedBatchNorm2d

WIDTHS = {
    ("vgg7", "baseline"): [64, 64, 128, 128, 512, 512, 10],
    ("vgg7", "coupled"): [45, 45, 90, 90, 336, 512, 10],
    ("alexnet", "baseline"): [96, 256, 384, 384, 256, 4096, 4096, 1000],
    ("alexnet", "coupled"): [88, 192, 256, 256, 192, 2400, 4096, 1000],
}


def layers(model: nn.Module) -> list[Any]:
    return [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]


@pytest.mark.parametrize(("name", "variant"), WIDTHS)
def test_widths(name: str, variant: Any) -> None:
    with torch.device("meta" if name == "alexnet" else "cpu"):  # shapes are enough
        model = bd.models.build(name, variant)
    assert [layer.weight.shape[0] for layer in layers(model)] == WIDTHS[name, variant]
    assert all(layer.bias is None for layer in layers(model))
    binary = [bd.nn.is_binary_weight(layer) for layer in layers(model)]
    assert binary == [name == "alexnet"] * len(binary) if name == "vgg7" else [False, *[True] * 6, False]
    acts = [m for m in model.modules() if isinstance(m, bd.nn.QuantAct)]
    assert {m.levels for m in acts} == {2 if variant == "baseline" else 3}
    assert len(acts) == len(layers(model)) - 2  # the last hidden activation is a ReLU


@pytest.mark.parametrize(
    ("variant", "stages", "last"),
    [("baseline", (64, 128, 256, 512), 512), ("coupled", (64, 90, 180, 360), 512)],
)
def test_resnet_widths(variant: Any, stages: tuple[int, ...], last: int) -> None:
    with torch.device("meta"):
        model: Any = bd.models.build("resnet18", variant)
    expected = [64]
    for stage, width in enumerate(stages):
        expected += [width, width, width] if stage else [width, width]  # conv1, conv2, shortcut
        expected += [width, last if stage == 3 else width]
    assert [layer.weight.shape[0] for layer in layers(model)] == [*expected, 1000]
    assert model.classifier.bias is not None


def test_vgg7_weights() -> None:
    def weights(variant: Any) -> int:
        return sum(layer.weight.numel() for layer in layers(bd.models.build("vgg7", variant)))

    assert weights("baseline") == 1_575_616
    assert weights("decoupled") == 1_573_229


@pytest.mark.parametrize("extra", [False, True])
def test_where_a_decoupled_resnet_carries_the_shift(extra: bool) -> None:
    name = "resnet18-sc" if extra else "resnet18"
    size = {"width": 0.25, "image_size": 32, "num_classes": 10}
    coupled = bd.models.build(name, "coupled", **size).eval()
    for module in coupled.modules():  # a bias of 0 behind each BN, so that what is there is the shift
        if isinstance(module, nn.BatchNorm2d):
            nn.init.zeros_(module.bias)
    x = bd.models.example_input(name, image_size=32)
    binary: Any = bd.decouple(coupled, x)

    def shift(norm: nn.Module) -> float:
        """+0.25 where the first copy carries the shift, 0 where the BN is doubled without one."""
        assert isinstance(norm, CopiedBatchNorm2d)
        first, second = norm.bias.detach().chunk(2)
        assert torch.equal(first, -second)
        assert first.unique().numel() == 1
        return first[0].item()

    assert type(binary.bn) is nn.BatchNorm2d  # in front of the ReLU: not doubled
    assert shift(binary.bn_stream) == 0.25
    for number, block in enumerate(binary.blocks):
        starts_a_stage = number in (2, 4, 6)  # the shortcut averages the copies there
        if extra:
            assert shift(block.bn1) == (0.25 if starts_a_stage else 0)
            expected: float | None = 0
        else:
            assert shift(block.bn1) == 0.25
            expected = 0.25 if starts_a_stage else 0
        if number == 7:
            assert type(block.bn2) is nn.BatchNorm2d  # the last BN is not doubled
        else:
            assert shift(block.bn2) == expected
    assert binary.classifier.in_features == coupled.classifier.in_features
    # Only the layers behind an activation have doubled inputs.
    for old, new in zip(layers(coupled), layers(binary), strict=True):
        doubled = old.weight.shape[2:] == (3, 3)
        assert new.weight.shape[1] == old.weight.shape[1] * (2 if doubled else 1)
        assert new.weight.shape[0] == old.weight.shape[0]


@pytest.mark.parametrize("name", bd.models.names())
@pytest.mark.parametrize("variant", ["baseline", "coupled", "decoupled"])
def test_every_network_runs_and_decouples_exactly(name: str, variant: Any) -> None:
    size: dict[str, Any] = {"width": 0.125, "num_classes": 7}
    size["image_size"] = {"alexnet": 67, "mlp": 28}.get(name, 32)
    torch.manual_seed(0)
    model = bd.models.build(name, variant, **size).double().eval()
    x = bd.models.example_input(name, image_size=size["image_size"], batch=2).double()
    assert model(x).shape == (2, 7)
    if variant == "coupled":
        binary = bd.decouple(model, x)
        with torch.no_grad():
            assert (model(x) - binary(x)).abs().max() < 1e-10 * model(x).abs().max()
    levels = {m.levels for m in model.modules() if isinstance(m, bd.nn.QuantAct)}
    assert levels == {3 if variant == "coupled" else 2}


def test_options() -> None:
    full = bd.models.build("vgg7", levels=None)
    assert {m.levels for m in full.modules() if isinstance(m, bd.nn.QuantAct)} == {None}
    one_bit = bd.models.build("vgg7", weight_bits=1)
    assert [bd.nn.is_binary_weight(m) for m in layers(one_bit)] == [False, *[True] * 5, False]
    for arguments, message in [
        ({"name": "vgg8"}, "unknown network 'vgg8'"),
        ({"name": "mlp", "variant": "binary"}, "unknown variant 'binary'"),
        ({"name": "mlp", "levels": 1}, "levels must be"),
        ({"name": "mlp", "variant": "coupled", "levels": 2}, "3 or more"),
        ({"name": "mlp", "weight_bits": 8}, "weight_bits must be 1 or 32"),
        ({"name": "mlp", "width": 0}, "width must be a positive number"),
        ({"name": "vgg7", "image_size": 4}, "image_size must be 8 or more"),
    ]:
        with pytest.raises(bd.BinaryDuoError, match=message):
            bd.models.build(**arguments)


@pytest.mark.parametrize("name", ["vgg7", "resnet18"])
def test_quad_gives_the_architecture_of_the_baseline_back(name: str) -> None:
    options = {"width": 0.125, "image_size": 32, "num_classes": 5}
    binary = bd.models.build(name, "decoupled", topology="quad", **options)  # type: ignore[arg-type]
    baseline = bd.models.build(name, **options)  # type: ignore[arg-type]
    shapes = {key: value.shape for key, value in baseline.state_dict().items()}
    assert {key: value.shape for key, value in binary.state_dict().items()} == shapes


def test_the_decoupled_network_from_scratch_has_weights_of_its_own() -> None:
    torch.manual_seed(0)
    net = bd.models.build("vgg7", "decoupled", width=0.5)
    derived = bd.models.build("vgg7", "decoupled", width=0.5, start="derived")
    for (name, fresh), (_, same) in zip(net.named_parameters(), derived.named_parameters(), strict=True):
        assert fresh.shape == same.shape
        if fresh.dim() > 1:
            he = (2 / fresh[0].numel()) ** 0.5
            assert fresh.std().item() == pytest.approx(he, rel=0.1), name
        else:
            assert torch.equal(fresh, same), name  # BN starts with its shifts either way
    layer = "features.3.weight"
    for state, identical in ((net.state_dict(), False), (derived.state_dict(), True)):
        one, two = state[layer].chunk(2, 1)
        assert torch.equal(one, two) == identical


def test_a_shifted_baseline_has_the_biases_of_a_decoupled_one() -> None:
    net = bd.models.build("vgg7", width=0.25, start="shifted")
    biases = {
        n: m.bias for n, m in net.named_modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)
    }
    *shifted, last = biases.values()
    assert all(b.abs().eq(0.25).all() and b.sum() == 0 for b in shifted)
    assert not last.any()  # in front of a plain ReLU


@pytest.mark.parametrize(
    ("variant", "start"), [("baseline", "derived"), ("coupled", "shifted"), ("decoupled", "x")]
)
def test_a_start_that_a_variant_does_not_have_is_refused(variant: str, start: str) -> None:
    with pytest.raises(bd.BinaryDuoError, match="start of a"):
        bd.models.build("mlp", variant, start=start)
