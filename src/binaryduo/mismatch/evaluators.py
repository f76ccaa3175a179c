"""What a network returns after a change of one layer: losses after many steps along single weights, or outputs."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, fx, nn

from binaryduo._common.float64 import AllFloat64
from binaryduo.errors import ArgumentError
from binaryduo.mismatch.outputs import flat
from binaryduo.mismatch.perturbation import Coordinate, draw_coordinates, effective_weight, response, shift
from binaryduo.mismatch.suffix import Rows, Suffix

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Samples:
    """What the loss is taken on: inputs, targets, the unchanged network's outputs, and how many go together."""

    inputs: Tensor
    targets: Tensor
    clean: Tensor
    loss: Loss
    batch_size: int

    def first(self, count: int) -> "Samples":
        """The first few of them."""
        parts = (self.inputs[:count], self.targets[:count], self.clean[:count])
        return Samples(*parts, self.loss, self.batch_size)


class Evaluator(Protocol):
    """Two ways to get the same numbers; `method` names the way."""

    method: str

    def losses(
        self, name: str, at: Sequence[Coordinate], steps: Sequence[float], samples: Samples
    ) -> tuple[Tensor, int]:
        """The loss (V,), float64, for weight[at[v]] + steps[v] of layer `name`, and the rows it took."""

    def at(self, name: str, batch: Tensor) -> "LayerInBatch":
        """Layer `name` in a forward pass over a batch, ready to be changed."""


class LayerInBatch(Protocol):
    """A layer, what goes into it, and what the network returns if something is added to what comes out of it."""

    @property
    def given(self) -> Tensor:
        """The layer's input."""

    def outputs_after(self, change: Tensor) -> Tensor:
        """The network's outputs, flat, with `change` added to the layer's output."""


class SuffixEvaluator:
    """Runs the network again from the layer on, and only for samples that notice the step."""

    method = "suffix"

    def __init__(self, net: nn.Module, names: Sequence[str], example: Tensor) -> None:
        self.suffix = Suffix(copy.deepcopy(net), example)
        for name in names:
            _refuse_unless_once(name, len(self.suffix.uses(name)))

    @torch.no_grad()
    def losses(
        self, name: str, at: Sequence[Coordinate], steps: Sequence[float], samples: Samples
    ) -> tuple[Tensor, int]:
        """See Evaluator."""
        (node,) = self.suffix.uses(name)
        before = self.suffix.evaluated
        changed: list[Rows] = []
        size = samples.batch_size
        for first in range(0, len(samples.inputs), size):
            values = self.suffix.clean(samples.inputs[first : first + size].clone())
            for rows in self.suffix.changes(node, values, at, steps):
                changed.append(Rows(rows.variant, rows.image + first, rows.output))
        return _losses(len(at), changed, samples), self.suffix.evaluated - before

    @torch.no_grad()
    def at(self, name: str, batch: Tensor) -> LayerInBatch:
        """See Evaluator."""
        (node,) = self.suffix.uses(name)
        return _InSuffix(self.suffix, node, self.suffix.clean(batch.clone()))


@dataclass(frozen=True)
class _InSuffix:
    suffix: Suffix
    node: fx.Node
    values: dict[fx.Node, Any]

    @property
    def given(self) -> Tensor:
        found: Tensor = self.values[self.node.all_input_nodes[0]]
        return found

    @torch.no_grad()
    def outputs_after(self, change: Tensor) -> Tensor:
        rows = self.suffix.added(self.node, self.values, change)
        outputs: Tensor = self.values[self.suffix.nodes[-1]].clone()
        outputs[rows.image] = rows.output
        return outputs


class WholeEvaluator:
    """Runs the whole network for every step: for models that torch.fx cannot trace."""

    method = "whole"

    def __init__(self, net: nn.Module) -> None:
        self.net = net

    @torch.no_grad()
    def losses(
        self, name: str, at: Sequence[Coordinate], steps: Sequence[float], samples: Samples
    ) -> tuple[Tensor, int]:
        """See Evaluator."""
        module = self.net.get_submodule(name)
        out = []
        for coordinate, step in zip(at, steps, strict=True):

            def move(
                layer: nn.Module,
                args: tuple[Tensor, ...],
                y: Tensor,
                coordinate: Coordinate = coordinate,
                step: float = step,
            ) -> Tensor:
                y = y.clone()
                dim = y.dim() - 1 if isinstance(layer, nn.Linear) else 1
                y.select(dim, coordinate.channel).add_(shift(layer, args[0], coordinate), alpha=step)
                return y

            with _hooked(module, move):
                batches = torch.split(samples.inputs, samples.batch_size)
                outputs = torch.cat([flat(self.net(batch.clone())) for batch in batches])
            out.append(float(samples.loss(outputs.double(), samples.targets)))
        return torch.tensor(out, dtype=torch.float64), len(at) * len(samples.inputs)

    @torch.no_grad()
    def at(self, name: str, batch: Tensor) -> LayerInBatch:
        """See Evaluator."""
        seen: list[Tensor] = []
        module = self.net.get_submodule(name)
        with _hooked(module, lambda _, args, __: seen.append(args[0].clone())):
            self.net(batch.clone())
        _refuse_unless_once(name, len(seen))
        return _InWhole(self.net, module, batch, seen[0])


@dataclass(frozen=True)
class _InWhole:
    net: nn.Module
    module: nn.Module
    batch: Tensor
    given: Tensor

    @torch.no_grad()
    def outputs_after(self, change: Tensor) -> Tensor:
        with _hooked(self.module, lambda _, __, y: y + change):
            return flat(self.net(self.batch.clone()))


def _refuse_unless_once(name: str, uses: int) -> None:
    if uses != 1:
        raise ArgumentError(
            f"layer {name!r} is used {uses} times in a forward pass, once is needed: leave it out by listing the "
            "others in `layers`"
        )


@contextmanager
def _hooked(module: nn.Module, hook: Callable[..., Any]) -> Iterator[None]:
    """A forward hook for as long as this lasts."""
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def disagreement(net: nn.Module, names: Sequence[str], inputs: Tensor) -> str | None:
    """The first layer for which the suffix gives other values than whole forward passes.

    In float64, with large and small steps of a few weights, so that all images or some of them notice. What a graph
    cannot show is seen here: a tensor changed in place under two names, samples that look at each other or do not
    come first.
    """
    wide = copy.deepcopy(net).double()
    few = inputs.double() if inputs.is_floating_point() else inputs
    with AllFloat64():
        clean = flat(wide(few.clone()))
        random = torch.Generator().manual_seed(0)
        view = torch.randn(clean.shape, generator=random, dtype=torch.float64, device="cpu").to(clean.device)
        samples = Samples(few, few, clean, lambda out, _: (out * view).sum(), len(few))
        ways: list[Evaluator] = [SuffixEvaluator(wide, names, few), WholeEvaluator(wide)]
        for name in names:
            weight = effective_weight(wide.get_submodule(name))
            at = draw_coordinates(weight, 5, random)
            size = float(weight.abs().max()) + 1e-3
            steps = [size * factor for factor in (1, -0.3, 0.1) for _ in at]
            a, b = (way.losses(name, at * 3, steps, samples)[0] for way in ways)
            scale = float(view.abs().sum() * (1 + clean.abs().max()))
            if not torch.allclose(a, b, rtol=1e-8, atol=1e-8 * scale):
                return name
            layers = [way.at(name, few) for way in ways]
            move = (
                torch.randn(weight.shape, generator=random, dtype=torch.float64, device="cpu").to(
                    weight.device
                )
                * size
            )
            module = wide.get_submodule(name)
            c, d = (layer.outputs_after(response(module, layer.given, move)) for layer in layers)
            if not torch.allclose(c, d, rtol=1e-8, atol=1e-8 * (1 + float(c.abs().max()))):
                return name
    return None


def _losses(count: int, changed: list[Rows], samples: Samples) -> Tensor:
    """The loss for each variant: the clean outputs with its changed rows put in."""
    base = samples.clean.double()
    if changed:
        variant = torch.cat([rows.variant for rows in changed])
        image = torch.cat([rows.image for rows in changed])
        output = torch.cat([rows.output.double() for rows in changed])
        order = variant.argsort(stable=True)
        sizes = torch.bincount(variant, minlength=count).tolist()
        image_parts = torch.split(image[order], sizes)
        output_parts = torch.split(output[order], sizes)
    unchanged = float(samples.loss(base, samples.targets))
    out = []
    for v in range(count):
        if not changed or len(image_parts[v]) == 0:
            out.append(unchanged)
            continue
        moved = base.clone()
        moved[image_parts[v]] = output_parts[v]
        out.append(float(samples.loss(moved, samples.targets)))
    return torch.tensor(out, dtype=torch.float64)
