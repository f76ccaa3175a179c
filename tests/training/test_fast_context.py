"""`with fast(model):` changes what a step computes, and nothing else for longer than it lasts."""

import copy
import dataclasses
import io
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from binaryduo.nn import BinaryConv2d, QuantAct
from binaryduo.training import Stage, checkpoint, fit
from binaryduo.training.fast import convolution, fast, norm
from tests.training import tiny

pytestmark = pytest.mark.skipif(
    not (convolution.available() and norm.available()), reason="installed without the native part"
)

LAYERS = {
    "plain": lambda: nn.Conv2d(16, 16, 3, padding=1),
    "binary": lambda: BinaryConv2d(16, 16, 3, padding=1, bias=False),
    "strided": lambda: nn.Conv2d(16, 16, 3, padding=1, stride=1, groups=2),
    "norm": lambda: nn.BatchNorm2d(16),
    "act": lambda: QuantAct(3),
    "relu": nn.ReLU,
}


def attributes(model: nn.Module) -> list[dict[str, object]]:
    return [dict(vars(module)) for module in model.modules()]


class Broken(nn.Module):
    """Fails in the middle of a forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("the middle")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=6), st.booleans())
def test_no_trace_is_left_also_after_an_exception(names: list[str], fails: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(LAYERS[name]() for name in names), *([Broken()] if fails else [])).train()
    before, layers = attributes(model), fast(model)
    for _ in range(2):
        try:
            with layers:
                model(torch.randn(2, 16, 5, 5, requires_grad=True)).sum().backward()
        except KeyError:
            assert fails
        assert attributes(model) == before
    pickled = io.BytesIO()
    torch.save(model, pickled)
    assert b"binaryduo.training.fast" not in pickled.getvalue()


def test_a_tensor_carries_no_mark() -> None:
    model = nn.Sequential(nn.BatchNorm2d(16), QuantAct())
    with fast(model) as layers:
        out = model(torch.randn(4, 16, 5, 5))
        assert layers.pairs[0].quantized is None
    assert not vars(out)


def test_a_way_of_the_users_own_is_never_touched() -> None:
    class Own(nn.Conv2d):
        def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            return super()._conv_forward(input, weight, bias) + 1

    def doubled(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return 2 * nn.functional.conv2d(input, weight, bias, padding=1)

    torch.manual_seed(0)
    by_class, by_instance = Own(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
    by_instance._conv_forward = doubled  # type: ignore[method-assign]
    x = torch.randn(2, 16, 5, 5)
    for module in (by_class, by_instance):
        wanted = module(x)
        with fast(module) as layers:
            assert len(layers) == 0
            assert torch.equal(module(x), wanted)
        assert torch.equal(module(x), wanted)
    assert vars(by_instance)["_conv_forward"] is doubled
    # One that comes while the context lasts, or between two times, stays too.
    later = nn.Conv2d(16, 16, 3, padding=1)
    layers = fast(later)
    with layers:
        later._conv_forward = doubled  # type: ignore[method-assign]
    assert vars(later)["_conv_forward"] is doubled
    with layers:
        assert vars(later)["_conv_forward"] is doubled


def test_auto_considers_it_where_only_the_norm_applies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINARYDUO_ISA", "scalar")  # without tiles, which take narrow layers too
    loop = dataclasses.replace(tiny.LOOP, engine="auto")
    fit(tiny.network(), tiny.split(), None, Stage(epochs=1), loop, tmp_path)
    assert not any(convolution.suits(module) for module in tiny.network().modules())
    found = checkpoint.newest(tmp_path / "checkpoints")
    assert found is not None
    assert set(found.state["chosen"]["measured"]) == {"eager", "fast"}


def test_a_copy_made_between_steps_is_plain(tmp_path: Path) -> None:
    model = tiny.network()
    fit(model, tiny.split(), None, Stage(epochs=1), dataclasses.replace(tiny.LOOP, engine="fast"), tmp_path)
    assert attributes(copy.deepcopy(model))[1].keys() == attributes(tiny.network())[1].keys()
