"""Evaluate a network again from one layer on, for many small changes of that layer, and only where needed.

The network is traced once with torch.fx. Its unchanged values are kept for a batch of images. Then

1. changes of different output channels share one pass through the channel-wise modules that follow the
   layer (batch normalisation, pooling, activation): channels do not meet there;
2. an image whose activations are all as before gives the same output as before and is dropped;
3. the first layer behind gets only the one changed channel, as an addition to its known output;
4. from there on the remaining (change, image) rows run through the rest of the network together, and are
   dropped again at every activation that swallows the change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryduo.graph.analysis import analyse_graph
from binaryduo.graph.canonical import canonicalise
from binaryduo.graph.operations import Kind
from binaryduo.graph.tracing import modules_out_of_place, trace
from binaryduo.mismatch.outputs import flatten_graph
from binaryduo.mismatch.perturbation import Coordinate, can_spread, is_weighted, shift, spread

# What treats every channel by itself; pooling counts where there is something to pool over.
_CHANNELWISE = (Kind.QUANT, Kind.NORM, Kind.ELEMENTWISE)
_POOLING = (Kind.POOL, Kind.WEIGHTED)
_ROW_BYTES = 1 << 26  # values of one node that are computed together


@dataclass
class Rows:
    """Outputs (R, …) of the rows that changed: perturbation `variant[r]` on image `image[r]`."""

    variant: Tensor
    image: Tensor
    output: Tensor


class Suffix:
    """A model in evaluation mode that answers: what if this layer's output were a little different?

    The model is the caller's copy: its graph is made canonical, and its modules work out of place from now on, so that
    what is kept stays as it is. `example` are a few inputs.
    """

    def __init__(self, model: nn.Module, example: Tensor) -> None:
        self.model = model
        self.graph = trace(model, (example.clone(),))
        flatten_graph(self.graph)
        shapes = canonicalise(self.graph, model, (example.clone(),))
        modules_out_of_place(model)
        self.info = analyse_graph(model, self.graph, shapes).info
        self.nodes = list(self.graph.nodes)
        self.position = {node: i for i, node in enumerate(self.nodes)}
        self.modules = dict(model.named_modules())
        self.batched = self._behind_the_input()
        self.evaluated = 0  # rows that were run through the rest of the network

    def _behind_the_input(self) -> set[fx.Node]:
        """The nodes whose values have one entry for each image."""
        found: set[fx.Node] = set()
        for node in self.nodes:
            if node is self.nodes[0] or any(n in found for n in node.all_input_nodes):
                found.add(node)
        return found

    def uses(self, name: str) -> list[fx.Node]:
        """The places where the module of that name is called."""
        return [n for n in self.nodes if n.op == "call_module" and n.target == name]

    def clean(self, batch: Tensor) -> dict[fx.Node, Any]:
        """All values of an unchanged forward pass over a batch of images."""
        values: dict[fx.Node, Any] = {}
        for node in self.nodes:
            if node.op == "placeholder":  # the first is the input, the others keep their defaults
                values[node] = batch if node is self.nodes[0] else next(iter(node.args), None)
            elif node.op == "output":
                values[node] = fx.node.map_arg(node.args[0], lambda n: values[n])
            else:
                values[node] = self._call(node, lambda n: values[n])
        return values

    def _call(self, node: fx.Node, value: Any) -> Any:
        args: Any = fx.node.map_arg(node.args, value)
        kwargs: Any = fx.node.map_arg(node.kwargs, value)
        if node.op == "call_module":
            return self.modules[str(node.target)](*args, **kwargs)
        if node.op == "get_attr":
            target: Any = self.model
            for part in str(node.target).split("."):
                target = getattr(target, part)
            return target
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        assert callable(node.target)
        return node.target(*args, **kwargs)

    # --- a layer and its perturbations ----------------------------------------------------------------

    def changes(
        self, node: fx.Node, clean: dict[fx.Node, Any], at: Sequence[Coordinate], steps: Sequence[float]
    ) -> list[Rows]:
        """Outputs for weight[at[v]] + steps[v] of every variant v, where they differ from the clean ones."""
        module = self.modules[str(node.target)]
        x, y = clean[node.all_input_nodes[0]], clean[node]
        dense = isinstance(module, nn.Linear)
        last = node if dense and y.dim() > 2 else self._channelwise_end(node, pooling=not dense)
        channel_dim = y.dim() - 1 if dense else 1
        out: list[Rows] = []
        for pack in _packs(at):
            moved = y.clone()
            for v in pack:
                moved.select(channel_dim, at[v].channel).add_(shift(module, x, at[v]), alpha=steps[v])
            for inner in self._between(node, last):
                moved = self._call(inner, lambda n, moved=moved: moved)
            out.extend(self._spread_pack(last, moved, clean, pack, at, channel_dim))
        return out

    def added(self, node: fx.Node, clean: dict[fx.Node, Any], change: Tensor) -> Rows:
        """Outputs with `change` added to the layer's whole output, where they differ from the clean ones."""
        image = torch.arange(len(change), device=change.device)
        return self._run(node, clean[node] + change, image, torch.zeros_like(image), clean)

    def _spread_pack(
        self,
        last: fx.Node,
        moved: Tensor,
        clean: dict[fx.Node, Any],
        pack: list[int],
        at: Sequence[Coordinate],
        channel_dim: int,
    ) -> list[Rows]:
        """Cut the shared pass into rows (variant, image), drop those without a change, and run the rest."""
        channels = torch.tensor([at[v].channel for v in pack], device=moved.device)
        before = clean[last].movedim(channel_dim, 1)[:, channels]  # (B, variants of the pack, …)
        after = moved.movedim(channel_dim, 1)[:, channels]
        differs = (before != after).flatten(2).any(2) if before.dim() > 2 else before != after
        image, place = differs.nonzero(as_tuple=True)
        variant = torch.tensor(pack, device=moved.device)[place]
        following = list(last.users)
        out = []
        size = max(1, _ROW_BYTES // _row_bytes(clean, len(moved)))
        for first in range(0, len(image), size):
            part = slice(first, first + size)
            rows, spot = image[part], place[part]
            self.evaluated += len(rows)
            if len(following) == 1 and channel_dim == 1 and self._spreads(following[0], clean[last]):
                target = self.modules[str(following[0].target)]
                change = after[rows, spot] - before[rows, spot]
                value = clean[following[0]][rows] + spread(target, change, channels[spot])
                start = following[0]
            else:
                value = clean[last][rows].clone()
                value.movedim(channel_dim, 1)[torch.arange(len(rows)), channels[spot]] = after[rows, spot]
                start = last
            out.append(self._run(start, value, rows, variant[part], clean))
        return out

    def _run(
        self, start: fx.Node, value: Tensor, image: Tensor, variant: Tensor, clean: dict[fx.Node, Any]
    ) -> Rows:
        """Run rows from `start` (whose values are given) to the output."""
        values: dict[fx.Node, Any] = {start: value}
        if start.op == "output" or any(user.op == "output" for user in start.users):
            return Rows(variant, image, value)
        pending = {start: len(start.users)}

        def lookup(n: fx.Node) -> Any:
            if n in values:
                return values[n]
            kept = clean[n]
            if n not in self.batched:
                return kept
            # A size taken from the input must be that of the rows, not of the batch.
            return kept[image] if isinstance(kept, Tensor) and kept.dim() else self._call(n, lookup)

        for node in self.nodes[self.position[start] + 1 :]:
            sources = [n for n in node.all_input_nodes if n in values]
            if not sources:
                continue
            if node.op == "output":
                return Rows(variant, image, values[sources[0]])
            values[node] = self._call(node, lookup)
            pending[node] = len(node.users)
            for n in sources:
                pending[n] -= 1
                if pending[n] == 0:
                    del values[n]
            if len(values) == 1 and self.info[node].kind is Kind.QUANT:
                moved = values[node] != clean[node][image]
                differs = moved.flatten(1).any(1) if moved.dim() > 1 else moved
                if not bool(differs.all()):
                    values[node], image, variant = values[node][differs], image[differs], variant[differs]
                if len(image) == 0:
                    break
        return Rows(variant[:0], image[:0], clean[self.nodes[-1]][:0])  # no row reaches the output

    def _spreads(self, node: fx.Node, given: Tensor) -> bool:
        if node.op != "call_module" or len(node.all_input_nodes) != 1:
            return False
        module = self.modules[str(node.target)]
        return is_weighted(module) and can_spread(module, given.dim())

    def _channelwise_end(self, node: fx.Node, pooling: bool) -> fx.Node:
        """The last of the channel-wise modules that follow the layer in a chain."""
        kinds = _CHANNELWISE + (_POOLING if pooling else ())
        while len(node.users) == 1:
            (user,) = node.users
            if (
                self.info[user].kind not in kinds
                or self.info[user].dim != 1
                or len(user.all_input_nodes) != 1
            ):
                break
            node = user
        return node

    def _between(self, first: fx.Node, last: fx.Node) -> list[fx.Node]:
        chain = []
        while first is not last:
            (first,) = first.users
            chain.append(first)
        return chain


def _packs(at: Sequence[Coordinate]) -> list[list[int]]:
    """Variants in groups without a channel twice.

    >>> _packs([Coordinate((0, 0)), Coordinate((0, 1)), Coordinate((2, 0))])
    [[0, 2], [1]]
    """
    packs: list[list[int]] = []
    seen: dict[int, int] = {}
    for v, coordinate in enumerate(at):
        index = seen.get(coordinate.channel, 0)
        seen[coordinate.channel] = index + 1
        if index == len(packs):
            packs.append([])
        packs[index].append(v)
    return packs


def _row_bytes(clean: dict[fx.Node, Any], images: int) -> int:
    """The size of the largest value of one image."""
    sizes = [v.numel() * v.element_size() for v in clean.values() if isinstance(v, Tensor)]
    return max(1, max(sizes) // images)
