"""How steep is the loss along the coarse gradient, when all weights of a layer move together?

The CDG moves one weight at a time, and a layer of a real network has too many: a sample of K of them gives a cosine
with an error of about 1/√K, more than most of the cosines themselves. Here the layer's weights move together by a step
of a given length. Let

    s(u) = (L(w + h·u) − L(w − h·u)) / 2h

be the slope of the loss along a unit vector u. Along the coarse gradient g it is s(g/|g|), where back-propagation
promises |g|: their ratio is what is *kept* of the promise. Along a random direction v, E[s(v)²] = |G|²/d for a gradient
G of d weights, so that K random directions give |G|, and

    cosine = s(g/|g|) / (√d · rms s(v)).

Where the slopes along random directions are about normal, as they are in large layers, its relative error is 1/√(2K),
however small the cosine is. Where the loss is smooth over the step it is the cosine of g and the gradient; where it is
not, it says how much steeper the loss is along g than along other steps of that length. A direction that has nothing to
do with the loss gives about ±1/√d.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo.errors import ArgumentError
from binaryduo.mismatch.parallel import OnProgress, generator
from binaryduo.mismatch.perturbation import effective_weight, kind_of_weights, response
from binaryduo.mismatch.prepared import Loss, Prepared, check_counts, chosen_stes, prepare, set_ste
from binaryduo.mismatch.shown import Bars, draw_bars, table
from binaryduo.ste import STE

STEP = 0.01
CHUNK = 8  # directions whose outputs are kept at once


@dataclass(frozen=True)
class LayerSlopes:
    """One layer: the cosine and its 95 % interval over random directions, and what is kept of |g|, the promise.

    The interval is of |G| alone: on these images the slope along g is known. The ratio may be above 1, by chance or
    where the step is too long for the loss to be near its tangent; it is NaN where g or all slopes are zero.
    """

    name: str
    cosine: float
    interval: tuple[float, float]
    kept: float
    parameters: int
    weights: str  # "latent": moved as stored; "effective": sign(w)·mean|w| of a one-bit layer
    step: float  # the length of the step in this layer
    seconds: float

    @property
    def decided(self) -> bool:
        """Whether the cosine is more than twice what a direction gives that has nothing to do with the loss."""
        return abs(self.cosine) > 2 / math.sqrt(self.parameters)


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
        if undecided := [layer.name for layer in self.layers if not layer.decided]:
            lines.append(
                f"Nothing is decided in {', '.join(undecided)}: the cosine is no larger than that of a direction which "
                "has nothing to do with the loss, or there is no gradient."
            )
        if long := [layer.name for layer in self.layers if layer.interval[0] > 1 or layer.interval[1] < -1]:
            lines.append(f"The step is too long for a cosine in {', '.join(long)}: take a shorter one.")
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
    step: float = STEP,
    directions: int = 32,
    seed: int = 0,
    *,
    ste: "str | STE | None" = None,
    layers: Sequence[str] | None = None,
    batch_size: int = 100,
    progress: OnProgress | None = None,
) -> Slopes:
    """How much steeper the loss is along the coarse gradient than along random directions, layer by layer.

    `step` is the length of a step as a share of that of the layer's weights (where these are zero, the length itself).
    `directions` are drawn at random in each layer; in one with no more weights than that they are as many as it has
    weights, at right angles to each other. Everything else is as in `profile`.

    >>> from binaryduo.nn import QuantAct
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1), QuantAct(levels=256), nn.Linear(1, 1))
    >>> x, y = torch.randn(500, 4), torch.randn(500, 1)
    >>> found = slopes(net, nn.functional.mse_loss, x, y, directions=64).layers[-1]
    >>> round(found.cosine, 3), round(found.kept, 3)
    (1.0, 1.0)
    """
    (found,) = compare_slopes(
        model,
        loss_fn,
        inputs,
        targets,
        [] if ste is None else [ste],
        step,
        directions,
        seed,
        layers=layers,
        batch_size=batch_size,
        progress=progress,
    )
    return found


def compare_slopes(
    model: nn.Module,
    loss_fn: Loss,
    inputs: Tensor,
    targets: Tensor,
    stes_: "Sequence[str | STE]",
    step: float = STEP,
    directions: int = 32,
    seed: int = 0,
    *,
    layers: Sequence[str] | None = None,
    batch_size: int = 100,
    progress: OnProgress | None = None,
) -> list[Slopes]:
    """The slopes for each STE. Random directions know none, so that those of a layer are measured once for all.

    An empty list takes the STEs that the network has.
    """
    if not (isinstance(step, int | float) and 0 < step < float("inf")):
        raise ArgumentError(
            f"step must be a positive share of the length of the weights, e.g. 0.01, not {step!r}"
        )
    check_counts(directions=directions)
    chosen = chosen_stes(stes_)
    given = prepare(model, loss_fn, inputs, targets, layers, batch_size, stacklevel=5)
    return slopes_of(given, chosen, step, directions, seed, progress)


def slopes_of(
    given: Prepared,
    chosen: "Sequence[STE | None]",
    step: float,
    directions: int,
    seed: int,
    progress: OnProgress | None = None,
) -> list[Slopes]:
    """The slopes for each STE, None being those that the network has."""
    labels, coarse = [], []
    for ste in chosen:
        labels.append(set_ste(given.net, ste))
        coarse.append(given.coarse())
    by_ste: list[list[LayerSlopes]] = [[] for _ in chosen]
    for number, name in enumerate(given.names):
        gradients = [one[name] for one in coarse]
        for mine, layer in zip(
            by_ste, _layer(given, name, gradients, step, directions, generator(seed, number)), strict=True
        ):
            mine.append(layer)
        if progress is not None:
            progress(number + 1, len(given.names))
    count, seconds = len(given.samples.inputs), time.perf_counter() - given.began
    return [
        Slopes(found, given.loss, step, directions, label, count, seconds, given.left_out)
        for label, found in zip(labels, by_ste, strict=True)
    ]


def _layer(
    given: Prepared,
    name: str,
    gradients: list[Tensor],
    step: float,
    directions: int,
    random: torch.Generator,
) -> list[LayerSlopes]:
    """One layer with each of its coarse gradients."""
    begin = time.perf_counter()
    module = given.net.get_submodule(name)
    weight = effective_weight(module)
    whole, size = directions >= weight.numel(), float(weight.double().norm())
    length = step * size if size > 0 else step
    promised = [float(gradient.norm()) for gradient in gradients]
    own = [g / p for g, p in zip(gradients, promised, strict=True) if p > 0]
    found = _slopes(given, name, chain(own, unit_vectors(weight.shape, directions, random)), length)
    along = [next(found) if p > 0 else math.nan for p in promised]
    others = torch.tensor(list(found), dtype=torch.float64)
    gradient = math.sqrt(float(others.square().mean()) * weight.numel())
    seconds = (time.perf_counter() - begin) / len(gradients)
    out = []
    for slope, promise in zip(along, promised, strict=True):
        cosine, interval = from_slopes(slope, gradient, len(others), whole)
        kept = slope / promise if promise > 0 else math.nan
        kind = kind_of_weights(module)
        out.append(LayerSlopes(name, cosine, interval, kept, weight.numel(), kind, length, seconds))
    return out


def from_slopes(
    along: float, gradient: float, directions: int, whole: bool = False
) -> tuple[float, tuple[float, float]]:
    """The cosine and its 95 % interval, from the slope along g and the |G| that so many directions have given.

    The squares of the slopes along random directions add up to a χ² variable; its quantiles are Wilson and Hilferty's.

    >>> from_slopes(0.5, 2.0, 32, whole=True)
    (0.25, (0.25, 0.25))
    """
    if not gradient or math.isnan(along):
        return math.nan, (math.nan, math.nan)
    cosine = along / gradient
    spread = 0.0 if whole else 2 / (9 * directions)
    low, high = sorted(cosine * max(0.0, 1 - spread + z * math.sqrt(spread)) ** 1.5 for z in (-1.96, 1.96))
    return cosine, (low, high)


def _slopes(given: Prepared, name: str, units: Iterator[Tensor], length: float) -> Iterator[float]:
    """The slope of the loss along each of the unit vectors."""
    module, samples = given.net.get_submodule(name), given.samples
    while chunk := list(islice(units, CHUNK)):
        parts: list[tuple[list[Tensor], list[Tensor]]] = [([], []) for _ in chunk]
        for batch in torch.split(samples.inputs, samples.batch_size):
            layer = given.evaluator.at(name, batch)
            for unit, both in zip(chunk, parts, strict=True):
                change = length * response(module, layer.given, unit.to(layer.given))
                for outputs, sign in zip(both, (1, -1), strict=True):
                    outputs.append(layer.outputs_after(sign * change))
        for both in parts:
            up, down = (float(samples.loss(torch.cat(some).double(), samples.targets)) for some in both)
            yield (up - down) / (2 * length)


def unit_vectors(shape: torch.Size, count: int, random: torch.Generator) -> Iterator[Tensor]:
    """Unit vectors in random directions; no more than there are dimensions, and then at right angles."""
    size = shape.numel()
    if count >= size:
        square = torch.randn(size, size, generator=random, dtype=torch.float64, device="cpu")
        yield from torch.linalg.qr(square).Q.T.reshape(size, *shape)
        return
    for _ in range(count):
        v = torch.randn(shape, generator=random, device="cpu")
        yield v / v.norm()
