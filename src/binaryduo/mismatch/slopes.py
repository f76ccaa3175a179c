"""How steep is the loss along the coarse gradient, when all weights of a layer move together?

The CDG moves one weight at a time, and a layer of a real network has too many: a sample of K of them gives a cosine
with an error of about 1/√K, more than most of the cosines themselves. Here the layer's weights move together by a step
of a given length. Let

    s(u) = (L(w + h·u) − L(w − h·u)) / 2h

be the slope of the loss along a unit vector u. Along the coarse gradient g it is s(g/|g|), where back-propagation
promises |g|: their ratio is what is *kept* of the promise. Along a random direction v, E[s(v)²] = |G|²/d for a gradient
G of d weights, so that K random directions give |G|, and

    cosine = s(g/|g|) / (√d · rms s(v)).

Its relative error is 1/√(2K), however small the cosine is. Where the loss is smooth over the step it is the cosine of g
and the gradient; where it is not, it says how much steeper the loss is along g than along other steps of that length.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo.errors import ArgumentError
from binaryduo.mismatch.parallel import OnProgress, generator
from binaryduo.mismatch.perturbation import effective_weight, kind_of_weights, response
from binaryduo.mismatch.prepared import Loss, Prepared, check_counts, prepare, set_ste
from binaryduo.mismatch.shown import Bars, draw_bars, table
from binaryduo.ste import STE


@dataclass(frozen=True)
class LayerSlopes:
    """One layer: the cosine and its 95 % interval over random directions, and what is kept of |g|, the promise."""

    name: str
    cosine: float
    interval: tuple[float, float]
    kept: float
    parameters: int
    weights: str  # "latent": moved as stored; "effective": sign(w)·mean|w| of a one-bit layer
    step: float  # the length of the step in this layer
    seconds: float


@dataclass(frozen=True)
class Slopes:
    """The slopes of a network's loss, layer by layer from the input to the output."""

    layers: list[LayerSlopes]
    loss: float
    step: float  # as a share of the length of each layer's weights
    directions: int
    ste: str
    images: int
    seconds: float
    left_out: tuple[str, ...] = ()  # layers whose weights are used without calling them, as attention does

    def __str__(self) -> str:
        rows = [("layer", "cosine", "95 % interval", "kept", "weights", "s")]
        for layer in self.layers:
            low, high = layer.interval
            cells = (f"{layer.cosine:.4f}", f"{low:.3f} … {high:.3f}", f"{layer.kept:.2f}")
            rows.append((layer.name, *cells, f"{layer.parameters} {layer.weights}", f"{layer.seconds:.1f}"))
        lines = [
            *table(rows),
            f"loss {self.loss:.6g}, steps of {100 * self.step:g} % of each layer's weights, {self.directions} "
            f"random directions, STE {self.ste}, {self.images} samples",
            "kept: the slope along the coarse gradient, as a share of what back-propagation promises",
        ]
        if self.left_out:
            lines.append(f"Not measured, because forward() never calls them: {', '.join(self.left_out)}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Numbers for JSON."""
        return {
            "loss": self.loss,
            "step": self.step,
            "directions": self.directions,
            "ste": self.ste,
            "images": self.images,
            "seconds": self.seconds,
            "left_out": list(self.left_out),
            "layers": [{**vars(layer), "interval": list(layer.interval)} for layer in self.layers],
        }

    def plot(self, path: str | Path) -> Path:
        """Draw the cosines with their intervals as a picture file; returns its path."""
        return plot_slopes([self], path)


def plot_slopes(found: list[Slopes], path: str | Path) -> Path:
    """Bars of one or more STEs on the same network beside each other."""
    series = [
        Bars(one.ste, [layer.cosine for layer in one.layers], [layer.interval for layer in one.layers])
        for one in found
    ]
    first = found[0]
    title = f"Slopes, steps of {100 * first.step:g} % of the weights, {first.images} samples"
    names = [layer.name for layer in first.layers]
    return draw_bars(series, names, "slope along the coarse gradient (cosine)", title, path)


def slopes(
    model: nn.Module,
    loss_fn: Loss,
    inputs: Tensor,
    targets: Tensor,
    step: float = 0.01,
    directions: int = 32,
    seed: int = 0,
    *,
    ste: "str | STE | None" = None,
    layers: Sequence[str] | None = None,
    batch_size: int = 256,
    progress: OnProgress | None = None,
) -> Slopes:
    """How much steeper the loss is along the coarse gradient than along random directions, layer by layer.

    `step` is the length of a step as a share of that of the layer's weights; `directions` are drawn at random in each
    layer (in one with no more weights than that, all axes are taken instead). Everything else is as in `profile`.

    >>> from binaryduo.nn import QuantAct
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1), QuantAct(levels=256), nn.Linear(1, 1))
    >>> x, y = torch.randn(500, 4), torch.randn(500, 1)
    >>> found = slopes(net, nn.functional.mse_loss, x, y, directions=64).layers[-1]
    >>> round(found.cosine, 3), round(found.kept, 3)
    (1.0, 1.0)
    """
    if not (isinstance(step, int | float) and 0 < step < float("inf")):
        raise ArgumentError(
            f"step must be a positive share of the length of the weights, e.g. 0.01, not {step!r}"
        )
    check_counts(directions=directions)
    begin = time.perf_counter()
    given = prepare(model, loss_fn, inputs, targets, layers, batch_size)
    label = set_ste(given.net, ste)
    coarse, found = given.coarse(), []
    for number, name in enumerate(given.names):
        found.append(slopes_of_layer(given, name, coarse[name], step, directions, seed + number))
        if progress is not None:
            progress(number + 1, len(given.names))
    seconds = time.perf_counter() - begin
    return Slopes(found, given.loss, step, directions, label, len(inputs), seconds, given.left_out)


def slopes_of_layer(
    given: Prepared, name: str, coarse: Tensor, step: float, directions: int, seed: int
) -> LayerSlopes:
    """The slopes of one layer, whose coarse gradient is known."""
    begin = time.perf_counter()
    module = given.net.get_submodule(name)
    weight = effective_weight(module)
    length = step * float(weight.double().norm()) or step
    size = float(coarse.norm())
    own = coarse / size if size else torch.zeros_like(coarse)
    along, *others = _slopes(given, name, [own], length, directions, seed)
    squares = torch.tensor(others, dtype=torch.float64).square().mean()
    whole = directions >= weight.numel()
    cosine, interval = from_slopes(along, math.sqrt(float(squares) * weight.numel()), len(others), whole)
    kept = along / size if size else math.nan
    seconds = time.perf_counter() - begin
    return LayerSlopes(name, cosine, interval, kept, weight.numel(), kind_of_weights(module), length, seconds)


def from_slopes(
    along: float, gradient: float, directions: int, whole: bool = False
) -> tuple[float, tuple[float, float]]:
    """The cosine and its 95 % interval, from the slope along g and the |G| that so many directions have given.

    The squares of the slopes along random directions add up to a χ² variable; its quantiles are Wilson and Hilferty's.

    >>> from_slopes(0.5, 2.0, 32, whole=True)
    (0.25, (0.25, 0.25))
    """
    if not gradient:
        return math.nan, (math.nan, math.nan)
    cosine = along / gradient
    spread = 0.0 if whole else 2 / (9 * directions)
    ends = sorted(cosine * (1 - spread + z * math.sqrt(spread)) ** 1.5 for z in (-1.96, 1.96))
    low, high, middle = (max(-1.0, min(1.0, value)) for value in (*ends, cosine))
    return middle, (low, high)


def _slopes(
    given: Prepared, name: str, first: list[Tensor], length: float, directions: int, seed: int
) -> list[float]:
    """The slope of the loss along the given unit vectors, then along those that are drawn."""
    module, samples = given.net.get_submodule(name), given.samples
    shape = module.get_parameter("weight").shape
    parts: list[tuple[list[Tensor], list[Tensor]]] = []
    for batch in torch.split(samples.inputs, samples.batch_size):
        layer = given.evaluator.at(name, batch)
        for number, unit in enumerate((*first, *_draw(shape, directions, seed))):
            if number == len(parts):
                parts.append(([], []))
            change = length * response(module, layer.given, unit.to(layer.given))
            for outputs, sign in zip(parts[number], (1, -1), strict=True):
                outputs.append(layer.outputs_after(sign * change))
    out = []
    for both in parts:
        up, down = (float(samples.loss(torch.cat(some).double(), samples.targets)) for some in both)
        out.append((up - down) / (2 * length))
    return out


def _draw(shape: torch.Size, count: int, seed: int) -> Iterator[Tensor]:
    """Unit vectors in random directions, the same for each batch; all axes where there are no more of them."""
    size = shape.numel()
    if count >= size:
        yield from torch.eye(size, dtype=torch.float64).view(size, *shape)
        return
    random = generator(seed, 1)
    for _ in range(count):
        v = torch.randn(shape, generator=random)
        yield v / v.norm()
