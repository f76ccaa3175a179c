"""What the profiler returns: numbers for each layer, a table, a picture, a dictionary for JSON."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from binaryduo.mismatch.shown import Bars, draw_bars, table


@dataclass(frozen=True)
class LayerCost:
    """What one layer took: seconds, and (perturbation, image) pairs that had to be run to the end."""

    seconds: float
    evaluated: int  # of `possible`
    possible: int
    forward_passes: float  # the seconds, divided by those of one forward pass over all images


@dataclass(frozen=True)
class LayerProfile:
    """One layer: the cosine between coarse gradient and CDG on the drawn coordinates.

    `interval` is a 95 % bootstrap interval over coordinates; where all were drawn nothing is left to
    chance and it is the cosine itself. `coordinates` lists indices into the weight; `cdg` and `coarse`
    are the gradients there, in that order.
    """

    name: str
    cosine: float
    interval: tuple[float, float]
    coordinates: list[tuple[int, ...]]
    parameters: int
    weights: str  # "latent": perturbed as stored; "effective": sign(w)·mean|w| of a one-bit layer
    cost: LayerCost
    cdg: Tensor = field(repr=False)
    coarse: Tensor = field(repr=False)
    step: float = math.nan  # the step ε taken in this layer

    @property
    def decided(self) -> bool:
        """Whether the interval tells the cosine's sign."""
        low, high = self.interval
        return low > 0 or high < 0


@dataclass(frozen=True)
class Profile:
    """The gradient mismatch of a network, layer by layer from the input to the output."""

    layers: list[LayerProfile]
    total: float
    loss: float
    step: "float | Literal['auto']"
    ste: str
    images: int
    method: str  # "suffix": from each layer on; "whole": whole forward passes
    seconds: float
    forward_pass_seconds: float
    left_out: tuple[str, ...] = ()  # layers whose weights are used without calling them, as attention does

    @property
    def forward_passes(self) -> float:
        """The whole cost in forward passes over all images."""
        return self.seconds / self.forward_pass_seconds

    @property
    def brute_force_passes(self) -> int:
        """How many forward passes brute force would need for the same coordinates."""
        return 2 * sum(len(layer.coordinates) for layer in self.layers)

    def __str__(self) -> str:
        rows = [("layer", "cosine", "95 % interval", "coordinates", "weights", "step", "re-run", "s")]
        for layer in self.layers:
            low, high = layer.interval
            rows.append(
                (
                    layer.name,
                    f"{layer.cosine:.4f}",
                    f"{low:.2f} … {high:.2f}",
                    f"{len(layer.coordinates)} of {layer.parameters}",
                    layer.weights,
                    f"{layer.step:.2g}",
                    f"{layer.cost.evaluated / max(1, layer.cost.possible):.0%}",
                    f"{layer.cost.seconds:.1f}",
                )
            )
        rows.append(("total", f"{self.total:.4f}", "", "", "", "", "", f"{self.seconds:.1f}"))
        lines = table(rows)
        lines.append(
            f"loss {self.loss:.6g}, {self._step()}, STE {self.ste}, {self.images} samples; cost "
            f"{self.forward_passes:.0f} forward passes, brute force {self.brute_force_passes}"
        )
        undecided = [layer.name for layer in self.layers if not layer.decided]
        if undecided:
            wider = "" if self.step == "auto" else ", or step='auto'"
            lines.append(
                f"Nothing is decided in {', '.join(undecided)}: the interval holds 0, or no drawn weight changes "
                f"the loss. Take more images or coordinates{wider}."
            )
        if self.left_out:
            lines.append(f"Not profiled, because forward() never calls them: {', '.join(self.left_out)}.")
        return "\n".join(lines)

    def _step(self) -> str:
        return "steps chosen for each layer" if self.step == "auto" else f"step {self.step:g}"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the raw gradients, ready for JSON."""
        return {
            "ste": self.ste,
            "step": self.step,
            "images": self.images,
            "loss": self.loss,
            "total": self.total,
            "method": self.method,
            "seconds": self.seconds,
            "forward_passes": self.forward_passes,
            "brute_force_passes": self.brute_force_passes,
            "layers": [
                {
                    "name": layer.name,
                    "cosine": layer.cosine,
                    "interval": list(layer.interval),
                    "coordinates": len(layer.coordinates),
                    "parameters": layer.parameters,
                    "weights": layer.weights,
                    "step": layer.step,
                    "seconds": layer.cost.seconds,
                    "evaluated": layer.cost.evaluated,
                    "possible": layer.cost.possible,
                }
                for layer in self.layers
            ],
        }

    def plot(self, path: str | Path) -> Path:
        """Draw the cosines with their intervals as a picture file; returns its path."""
        return plot_profiles([self], path)


def plot_profiles(profiles: list[Profile], path: str | Path) -> Path:
    """Bars of one or more profiles of the same network beside each other, one colour for each STE."""
    series = [
        Bars(
            profile.ste,
            [*(layer.cosine for layer in profile.layers), profile.total],
            [*(layer.interval for layer in profile.layers), (profile.total, profile.total)],
        )
        for profile in profiles
    ]
    names = [*(layer.name for layer in profiles[0].layers), "total"]
    title = f"Gradient mismatch, {profiles[0]._step()}, {profiles[0].images} samples"
    return draw_bars(series, names, "cosine (coarse gradient, CDG)", title, path)
