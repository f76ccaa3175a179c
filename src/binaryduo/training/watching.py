"""The mismatch over a training (`loop.profile_every`): what is measured between two steps, within a budget of time.

It looks at a copy of the network, draws from generators of its own and writes lines of kind "profile", so that the
training is bit for bit what it is without. What it must remember (the signs of the weights, and how much it measures)
goes into the checkpoints, so that a run that was killed continues its lines too.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo._common.progress import say
from binaryduo.errors import BinaryDuoError
from binaryduo.mismatch.over_time import SIZES, Size, disagreements, snapshot
from binaryduo.mismatch.perturbation import is_weighted
from binaryduo.training.task import Task

MARK = "watch/"
ASKED = f"{MARK}asked"

OnProfile = Callable[[dict[str, Any]], None]


def in_stage(on_profile: OnProfile | None, stage: str, before: float = 0.0) -> OnProfile | None:
    """The callback of one of two stages: its lines say which one, and the epoch from the beginning of the first on.

    >>> call = in_stage(print, "decoupled", before=5.0)
    >>> call({"kind": "profile", "epoch": 1.5})
    {'kind': 'profile', 'epoch': 1.5, 'stage': 'decoupled', 'total_epoch': 6.5}
    """
    if on_profile is None:
        return None
    return lambda line: on_profile({**line, "stage": stage, "total_epoch": before + line["epoch"]})


def mark_decoupling(on_profile: OnProfile | None, epochs: float, measured: dict[str, Any]) -> None:
    """Tell the callback that the network is decoupled now: a line of kind "decoupling", with what was measured then."""
    marked = in_stage(on_profile, "decoupled", epochs)
    if marked is not None:
        marked({"kind": "decoupling", "epoch": 0.0, **measured})


class Watch:
    """Measures every so many steps; `settled` is None until the first time has shown what can be afforded."""

    def __init__(self, model: nn.Module, task: Task, every: int | None, budget: float, seed: int) -> None:
        self.model, self.task, self.budget, self.seed = model, task, budget, seed
        self.every = every
        # What is asked for, as a checkpoint keeps it: with another wish, what is measured is settled anew.
        self.asked = None if every is None else torch.tensor([every, budget], dtype=torch.float64)
        self.settled: dict[str, int] | None = None
        self.signs: dict[str, Tensor] = {}
        self.flipped: dict[str, Tensor] = {}
        if every is not None:
            for name, weight in self._weights():
                self.signs[name] = weight >= 0
                self.flipped[name] = torch.zeros_like(self.signs[name])

    def _weights(self) -> list[tuple[str, Tensor]]:
        modules = self.model.named_modules()
        return [(name, m.get_parameter("weight").detach()) for name, m in modules if is_weighted(m)]

    # -- what a checkpoint keeps

    def tensors(self) -> dict[str, Tensor]:
        """What is asked for, the signs, and which of them have flipped, by name."""
        kept = {} if self.asked is None else {ASKED: self.asked}
        kept |= {f"{MARK}signs/{name}": value for name, value in self.signs.items()}
        return kept | {f"{MARK}flipped/{name}": value for name, value in self.flipped.items()}

    def restore(self, tensors: dict[str, Tensor], settled: dict[str, int] | None) -> None:
        """Go on from a checkpoint; from one without these tensors, signs count from now on.

        What is measured stays as it was settled unless something else is asked for now.
        """
        kept_wish = tensors.get(ASKED, self.asked)  # earlier versions did not keep it
        same = kept_wish is not None and self.asked is not None and torch.equal(kept_wish, self.asked)
        self.settled = settled if same else None
        for name, weight in self._weights() if self.every is not None else []:
            for key, place in (("signs", self.signs), ("flipped", self.flipped)):
                kept = tensors.get(f"{MARK}{key}/{name}")
                if kept is not None and kept.shape == weight.shape and kept.dtype == torch.bool:
                    place[name] = kept.to(weight.device)
                else:
                    place[name] = (
                        weight >= 0 if key == "signs" else torch.zeros_like(weight, dtype=torch.bool)
                    )

    # -- measuring

    def due(self, step: int) -> bool:
        """Whether it is time."""
        if self.every is None:
            return False
        return step % (self.every if self.settled is None else self.settled["every"]) == 0

    def look(self, step: int, inputs: Any, target: Any, seconds: float) -> dict[str, Any] | None:
        """The line of this moment; `seconds` is what training has taken so far. None where nothing can be measured."""
        assert self.every is not None
        if not isinstance(inputs, Tensor) or not isinstance(target, Tensor):
            self._give_up("it needs inputs and targets that are one tensor each")
            return None
        try:
            if self.settled is None:
                self.settled = self._settle(inputs, target, seconds / max(1, step))
            size = Size(*(self.settled[key] for key in ("coordinates", "images", "directions")))
            began = time.monotonic()
            line: dict[str, Any] = {
                "kind": "profile",
                "step": step,
                **self._snapshot(inputs, target, size, step),
            }
        except (BinaryDuoError, RuntimeError) as error:
            self._give_up(str(error).splitlines()[0])
            return None
        line |= self._flips()
        apart = disagreements(line)
        line |= {**self.settled, "disagree": apart, "profile_seconds": time.monotonic() - began}
        if apart:
            say(
                f"step {step}: the two estimators of the mismatch disagree beyond their intervals in "
                f"{', '.join(apart)}; see docs/mismatch.md for what that means"
            )
        # Where no sampled weight has a gradient there is no cosine: null, as JSON has no NaN.
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()}

    def _give_up(self, why: str) -> None:
        say(f"the mismatch cannot be followed in this training: {why}")
        self.every = None

    def _snapshot(self, inputs: Tensor, target: Tensor, size: Size, seed: int) -> dict[str, float]:
        images, labels = inputs[: size.images], target[: size.images]

        def loss(output: Tensor, wanted: Tensor) -> Tensor:
            return self.task.training_loss(output, self.task.targets(output, wanted))

        return snapshot(self.model, loss, images, labels, size, self.seed + seed)

    def _settle(self, inputs: Tensor, target: Tensor, per_step: float) -> dict[str, int]:
        """Choose how much to measure, and how seldom if even the least is too much, by measuring the least once."""
        assert self.every is not None
        least = SIZES[0]
        self._snapshot(inputs, target, least, 0)  # the first of its kind is slower
        began = time.monotonic()
        self._snapshot(inputs, target, least, 0)
        taken = time.monotonic() - began
        allowed = self.budget * self.every * per_step
        size = least
        for other in SIZES[1:]:
            # Never more than in proportion: unchanged images are not run to the end.
            work = [(one.coordinates + one.directions) * one.images for one in (other, least)]
            growth = work[0] / work[1]
            if taken * growth <= allowed and other.images <= len(inputs):
                size = other
        every = self.every * max(1, math.ceil(taken / max(allowed, 1e-9)))
        if every != self.every:
            say(
                f"profiling takes {taken:.2f} s, so that every {every} steps (not {self.every}) keeps it within "
                f"{100 * self.budget:g} % of the time"
            )
        return {
            "every": every,
            "coordinates": size.coordinates,
            "images": size.images,
            "directions": size.directions,
        }

    def _flips(self) -> dict[str, float]:
        """The share of signs that flipped since the last time, and of those that never have."""
        found = {}
        for name, weight in self._weights():
            now = weight >= 0
            changed = now != self.signs[name]
            self.flipped[name] = self.flipped[name] | changed
            self.signs[name] = now
            found[f"flipped/{name}"] = float(changed.double().mean())
            found[f"never_flipped/{name}"] = float((~self.flipped[name]).double().mean())
        return found
