"""What one worker keeps from trial to trial: the data, the network, its first weights, the chosen engine.

A network is built once and its first weights are copied back for each trial, so data are decoded once,
coupling and decoupling are traced once, and torch.compile, which keeps its code by the module, finds what it compiled
for the first trial. The weights are those that `binaryduo train` would start from, bit for bit.
"""

import dataclasses
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from binaryduo.data import DataSet
from binaryduo.training import checkpoint, runlog
from binaryduo.training.devices import make_fabric
from binaryduo.training.duo import build_model, load_data
from binaryduo.training.recipe import Data, Loop, Recipe
from binaryduo.transform.decoupling import decouple

State = dict[str, Tensor]


class WorkerCache:
    """The things that stay; `forget` lets go of them, as after running out of memory."""

    def __init__(self) -> None:
        self.engine: str | None = None
        self._environment: dict[str, Any] | None = None
        self._fabric: dict[tuple[str, str], Fabric] = {}
        self._data: dict[Data, DataSet] = {}
        self._models: dict[object, nn.Module] = {}
        self._states: dict[object, State] = {}

    def forget(self) -> None:
        self._data.clear()
        self._models.clear()
        self._states.clear()

    def fabric(self, loop: Loop) -> Fabric:
        key = (loop.accelerator, loop.precision)
        if key not in self._fabric:
            self._fabric[key] = make_fabric(loop)
        return self._fabric[key]

    def environment(self) -> dict[str, Any]:
        """Versions, machine and commit, as in every run folder."""
        if self._environment is None:
            self._environment = runlog.environment(0)
        return self._environment

    def data(self, recipe: Recipe) -> DataSet:
        """The recipe's data, on the device already where they fit into memory."""
        if recipe.data not in self._data:
            found = load_data(recipe)
            device = self.fabric(recipe.loop).device
            self._data[recipe.data] = dataclasses.replace(
                found, train=found.train.to(device), test=found.test.to(device)
            )
        return self._data[recipe.data]

    def model(self, recipe: Recipe, fixed: Path | None = None) -> nn.Module:
        """The recipe's network with its first weights: from its seed, or derived from a fixed network."""
        network = (recipe.model, recipe.data, fixed)
        seeded = (network, recipe.loop.seed if fixed is None else None)
        if seeded not in self._states:
            data = self.data(recipe)
            fresh = build_model(recipe, data) if fixed is None else decoupled_from(fixed, recipe, data)
            self._states[seeded] = {name: t.detach().clone() for name, t in fresh.state_dict().items()}
            self._models.setdefault(network, fresh)
        model = self._models[network]
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                tensor.copy_(self._states[seeded][name])
        return model


def decoupled_from(fixed: Path, recipe: Recipe, data: DataSet) -> nn.Module:
    """The binary network of the coupled one that lies in that checkpoint."""
    coupled = build_model(recipe, data, "coupled")
    kept = checkpoint.read(fixed)
    checkpoint.unpack_state(kept.tensors, coupled, None, str(fixed))
    like = next(coupled.parameters())
    example = torch.zeros(1, *data.shape, dtype=like.dtype, device=like.device)
    return decouple(coupled.eval(), example, recipe.model.topology)
