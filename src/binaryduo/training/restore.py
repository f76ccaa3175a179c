"""Bring a trained network back from its run's folder."""

from pathlib import Path

import torch
from torch import nn

from binaryduo._common.progress import say
from binaryduo.data import DataSet
from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.training import checkpoint
from binaryduo.training.duo import build_model, load_data
from binaryduo.training.identity import check_network
from binaryduo.training.recipe import Recipe, from_yaml, refuse_own
from binaryduo.transform.decoupling import decouple


def load_run(folder: "str | Path", which: str = "last") -> tuple[nn.Module, Recipe, DataSet, Path]:
    """The trained network of a run, its recipe and data; of a `duo` run the binary network if it has one."""
    if which not in ("last", "best"):
        raise ArgumentError(f"which must be last or best, not {which!r}")
    stage = Path(folder)
    root = stage if (stage / "recipe.yaml").exists() else stage.parent
    if not (root / "recipe.yaml").exists():
        raise ArgumentError(f"{folder} is not the folder of a run: it has no recipe.yaml")
    if stage == root and (root / "coupled").is_dir():
        begun = any((root / "decoupled" / "checkpoints").glob("step-*.json"))
        stage = root / ("decoupled" if begun else "coupled")
    recipe = from_yaml(root / "recipe.yaml")
    data = load_data(recipe)
    if stage == root:
        model = build_model(recipe, data)
    else:
        model = build_model(recipe, data, "coupled")
        if stage.name == "decoupled":
            model = decouple(model, torch.zeros(1, *data.shape), recipe.model.topology)
    kept = (
        checkpoint.newest(stage / "checkpoints", say)
        if which == "last"
        else checkpoint.best(stage / "checkpoints")
    )
    if kept is None:
        raise CheckpointError(f"{stage} holds no checkpoint yet")
    if (
        kept.run is not None and kept.run.get("verb") == "fit"
    ):  # of an earlier version, which recorded a network
        refuse_own({"model": {"class": "trained by fit"}}, stage)
    if kept.run is not None:
        check_network(kept.run, recipe, kept.path)
    checkpoint.unpack_state(kept.tensors, model, None, str(kept.path))
    return model.eval(), recipe, data, kept.path
