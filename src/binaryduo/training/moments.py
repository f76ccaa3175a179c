"""The moments of Adam, carried from a coupled network to the decoupled one: every copy of a weight takes over its own.

A decoupled weight reads one of the copies whose mean the coupled weight has read, so the gradients of the copies of a
weight have the coupled weight's gradient as their mean: their moments are copied as they are, and not divided as the
weights are. What makes copies (BN, and layers whose outputs are copied) is read by half of each weight, so there the
gradients of the copies add up to the coupled one: each copy has 1/copies of the gradient, and 1/copies² of its square.
An ablation (`moments: copied` in a recipe): fine-tuning usually begins with none.
"""

import copy

import torch
from torch import Tensor, nn

from binaryduo.errors import ArgumentError
from binaryduo.training.checkpoint import Moments
from binaryduo.training.recipe import Recipe
from binaryduo.transform.carrying import Topology
from binaryduo.transform.decoupling import decouple
from binaryduo.transform.equality import Decoupling


def check(recipe: Recipe) -> None:
    """Refuse settings with which there are no moments to carry over."""
    assert recipe.finetune is not None
    first, second = recipe.train.optimizer, recipe.finetune.optimizer
    if first != second:
        raise ArgumentError(
            f"moments: copied needs one optimizer for both stages, not {first} and {second}: they keep other moments"
        )
    if recipe.loop.decouple_from == "best":
        raise ArgumentError(
            "moments: copied needs loop.decouple_from last: of the best network no moments are kept"
        )


def check_network(coupled: nn.Module, example: Tensor, topology: Topology) -> None:
    """Refuse a network whose moments cannot be followed, before it is trained."""
    binary = decouple(copy.deepcopy(coupled).eval(), example, topology)
    carried({name: {} for name, _ in coupled.named_parameters()}, coupled, binary)


@torch.no_grad()
def carried(moments: Moments, coupled: nn.Module, binary: nn.Module) -> Moments:
    """The moments of a coupled network as those of the network that was decoupled from it.

    >>> from binaryduo import decouple
    >>> from binaryduo.nn import QuantAct
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), QuantAct(3), nn.Linear(3, 1)).eval()
    >>> moment = torch.tensor([[1.0, 2.0, 3.0]])
    >>> carried({"3.weight": {"exp_avg": moment}}, net, decouple(net, torch.rand(4, 2)))
    {'3.weight': {'exp_avg': tensor([[1., 2., 3., 1., 2., 3.]])}}
    """
    decoupling = binary.decoupling
    assert isinstance(decoupling, Decoupling)
    before, after = dict(coupled.named_parameters()), dict(binary.named_parameters())
    out: Moments = {}
    for name, own in moments.items():
        if name in decoupling.names:  # a learned threshold is no parameter any more
            new = decoupling.names[name]
            times = _times(before[name], after[new], new)
            made = times[_outputs(coupled, name)]  # copies that this parameter makes
            out[new] = {
                key: moment.repeat(times) / made ** (2 if key.endswith("_sq") else 1)
                if moment.dim()
                else moment
                for key, moment in own.items()
            }
    return out


def _outputs(model: nn.Module, name: str) -> int:
    """The dimension of a parameter along which its outputs lie."""
    path, _, attribute = name.rpartition(".")
    return int(attribute == "weight" and getattr(model.get_submodule(path), "transposed", False))


def _times(old: Tensor, new: Tensor, name: str) -> list[int]:
    """How often a parameter stands in its decoupled form, along each dimension."""
    times = [n // max(1, o) for n, o in zip(new.shape, old.shape, strict=True)]
    if [o * t for o, t in zip(old.shape, times, strict=True)] == list(new.shape):
        wide = old.repeat(times)
        # The weights show whether the copies stand one after the other: they are the old ones, divided by a number.
        scale = new.norm() / wide.norm().clamp_min(1e-30)
        if old.dim() <= 1 or torch.allclose(new, wide * scale, rtol=1e-5, atol=1e-7):
            return times
    raise ArgumentError(
        f"moments: copied cannot follow the weights of {name}, which reads copies beside single channels: leave "
        "moments out"
    )
