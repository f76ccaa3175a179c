"""A trained network by its name, or from what a verb has written: a run folder, a checkpoint, a file of weights.

    found = open_source("runs/demo-duo")                                        # what `train` and `duo` write
    found = open_source("runs/demo-duo/decoupled/checkpoints/step-000000200.json")
    found = open_source("binary.safetensors")                                   # what `decouple` writes
    found = open_source("vgg7-cifar10-duo-w1")                                  # a pretrained network
    found.model, found.example(), found.options

A checkpoint says by itself which network it is of, so it can be taken out of its folder. A plain file of weights
(.safetensors) says so in its metadata, or is told by build options.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo import models
from binaryduo._common.hostile import read_json
from binaryduo._common.weight_files import load_weights, read_weights
from binaryduo.data import DataSet
from binaryduo.data.sets import KINDS
from binaryduo.errors import ArgumentError, CheckpointError
from binaryduo.training import checkpoint
from binaryduo.training.duo import build_model, load_data
from binaryduo.training.recipe import Data, Recipe, from_dict, from_yaml, refuse_own
from binaryduo.training.restore import load_run

MODEL = "model/"  # how a checkpoint marks the network's tensors, beside those of the optimizer
OPTIONS = frozenset(
    [
        "name",
        "variant",
        "num_classes",
        "levels",
        "ste",
        "weight_bits",
        "width",
        "in_channels",
        "image_size",
        "topology",
        "interval",
    ]
)
WHAT = "a run folder, a checkpoint (step-….json), a file of weights (.safetensors) or a pretrained network's name"


@dataclass(frozen=True)
class Source:
    """A network in evaluation mode, the file that its weights came from, and what is known about it.

    `options` are those of `models.build`; `recipe` and `data` are None for a plain file of weights. Of a pretrained
    network, and of what `binaryduo decouple` wrote, the recipe names the data set, which is not loaded yet.
    """

    model: nn.Module
    path: Path
    options: dict[str, Any]
    shape: tuple[int, int, int]  # (C, H, W) of one image
    recipe: Recipe | None = None
    data: DataSet | None = None

    @property
    def title(self) -> str:
        """What to call it, in a table's title."""
        return f"{self.options['name']}, {self.options['variant']}"

    def example(self, batch: int = 1) -> Tensor:
        """Random images of the network's own shape: (batch, C, H, W)."""
        return torch.rand(batch, *self.shape, generator=torch.Generator().manual_seed(0))


def open_source(
    path: "str | Path", which: str = "last", given: dict[str, Any] | None = None, usual: str = "baseline"
) -> Source:
    """The network at a path. `which` chooses the last or the best checkpoint of a run folder.

    `given` are build options for a file of weights that does not hold them, and `usual` is the variant that such a
    file is taken for; a run and a checkpoint say it themselves.

    >>> open_source("runs/there-is-no-such-run")
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: runs/there-is-no-such-run does not exist: give a run folder, a checkpoint \
(step-….json), a file of weights (.safetensors) or a pretrained network's name
    """
    path, given = Path(path), {k: v for k, v in (given or {}).items() if v is not None}
    if not path.exists() and str(path) in models.pretrained_names():
        return _pretrained(str(path), given)
    if not path.exists():
        raise ArgumentError(f"{path} does not exist: give {WHAT}")
    if path.is_file() and path.suffix not in (".json", ".safetensors"):
        raise ArgumentError(f"{path} cannot be read as a network: give {WHAT}")
    header = path.with_suffix(".json")
    if path.is_file() and path != header and not _is_checkpoint(header):
        return _from_weights(path, {"variant": usual}, given)
    _refuse_options(path, given)
    if path.is_file():
        return _from_checkpoint(checkpoint.read(header))
    for found in sorted(path.rglob("step-*.json"))[-1:]:
        _refuse_own_model(read_json(found, "the checkpoint", CheckpointError, finite=False), path)
    model, recipe, data, kept = load_run(path, which)
    stage = kept.parent.parent
    return _source(model, kept, recipe, data, None if (stage / "recipe.yaml").exists() else stage.name)


def _is_checkpoint(header: Path) -> bool:
    """Whether a JSON file is a checkpoint's; the card of a published network lies beside its weights too."""
    found = read_json(header, "the checkpoint", CheckpointError, finite=False) if header.exists() else None
    return isinstance(found, dict) and "state" in found


def _refuse_options(path: Path, given: dict[str, Any]) -> None:
    if given:
        names = ", ".join(f"{key} = {value!r}" for key, value in given.items())
        raise ArgumentError(f"{path} says itself which network it is of: leave out {names}")


def _pretrained(name: str, given: dict[str, Any]) -> Source:
    _refuse_options(Path(name), given)
    about = models.card(name)
    options = about["build"]
    recipe = Recipe(name=name, data=Data(name=about["data"]))
    return Source(models.pretrained(name), Path(name), options, _image_shape(options), recipe)


def _image_shape(options: dict[str, Any]) -> tuple[int, int, int]:
    """(C, H, W) of the images that a network with these build options takes."""
    example = models.example_input(options["name"], options.get("in_channels"), options.get("image_size"))
    _, channels, height, width = example.shape
    return channels, height, width


def run_folder(path: "str | Path") -> Path:
    """The folder of the run that a path belongs to: of a checkpoint, of one of a `duo` run's stages, or itself.

    >>> run_folder("runs/there-is-no-such-run")
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: runs/there-is-no-such-run does not exist: give the folder of a run
    """
    path = Path(path)
    if not path.exists():
        raise ArgumentError(f"{path} does not exist: give the folder of a run")
    for folder in [path, *path.absolute().parents][: 4 if path.is_file() else 2]:
        if (folder / "recipe.yaml").exists():
            return folder
    if path.is_file():
        raise ArgumentError(f"{path} is not inside the folder of a run: give that folder")
    return path


def model_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The network's own tensors under their own names, whether they stand alone or in a checkpoint.

    >>> sorted(model_tensors({"model/weight": torch.ones(1), "optimizer/weight/step": torch.ones(1)}))
    ['weight']
    """
    marked = {name.removeprefix(MODEL): t for name, t in tensors.items() if name.startswith(MODEL)}
    return marked if marked else tensors


def _source(
    model: nn.Module, path: Path, recipe: Recipe, data: DataSet, variant: str | None = None
) -> Source:
    wanted = recipe.model
    options = {
        "name": wanted.network,
        "variant": wanted.variant if variant is None else variant,
        "num_classes": data.num_classes,
        "levels": wanted.levels,
        "ste": wanted.ste,
        "weight_bits": wanted.weight_bits,
        "width": wanted.width,
        "in_channels": data.shape[0],
        "image_size": data.shape[1],
        "topology": wanted.topology,
        "interval": wanted.interval,
    }
    return Source(model.eval(), path, options, data.shape, recipe, data)


def _from_checkpoint(kept: checkpoint.Checkpoint) -> Source:
    """By what the checkpoint says of its run; the recipe beside it adds what decides nothing, such as data.root."""
    near = [folder / "recipe.yaml" for folder in kept.path.absolute().parents[1:3]]
    beside = next((from_yaml(path) for path in near if path.exists()), None)
    run = kept.run
    if run is None and beside is None:
        raise CheckpointError(f"{kept.path} does not say which network it is of: give the folder of its run")
    _refuse_own_model({"run": run}, kept.path)
    recipe = beside if run is None else _recorded(run, beside, kept.path)
    assert recipe is not None
    two_stages = kept.path.absolute().parent.parent.name if run is None else None
    if run is not None and run.get("verb") == "duo":
        two_stages = "decoupled" if run.get("stage") else "coupled"
    variant = two_stages if two_stages in ("coupled", "decoupled") else None
    data = load_data(recipe)
    model = build_model(recipe, data, variant)
    checkpoint.unpack_state(kept.tensors, model, None, str(kept.path))
    return _source(model, kept.path, recipe, data, variant)


def _refuse_own_model(header: Any, path: Path) -> None:
    """A network that was defined in Python cannot be built by its name."""
    run = header.get("run") if isinstance(header, dict) else None
    settings = run.get("settings") if isinstance(run, dict) else None
    own = settings.get("model.class") if isinstance(settings, dict) else None
    if own is not None or (isinstance(run, dict) and run.get("verb") == "fit"):
        refuse_own({"model": {"class": "trained by fit" if own is None else own}}, path)


def _recorded(run: dict[str, Any], beside: Recipe | None, path: Path) -> Recipe:
    """The recipe of a checkpoint's record of dotted settings."""
    settings = run.get("settings")
    if not isinstance(settings, dict):
        raise CheckpointError(f"the checkpoint {path} does not say which run it belongs to")
    values: dict[str, Any] = {}
    for key, value in settings.items():
        section, dot, name = str(key).partition(".")
        if not dot:
            values[section] = value
        elif isinstance(values.setdefault(section, {}), dict):
            values[section][name] = value
    values.pop("finetune", None)  # how a network was trained is not asked here
    try:
        recipe = from_dict(Recipe, values)
    except (ArgumentError, TypeError) as error:
        raise CheckpointError(f"the checkpoint {path} has settings that cannot be used: {error}") from None
    if beside is None:
        return recipe
    data = dataclasses.replace(recipe.data, root=beside.data.root, workers=beside.data.workers)
    return dataclasses.replace(recipe, name=beside.name, data=data)


def _from_weights(path: Path, usual: dict[str, Any], given: dict[str, Any]) -> Source:
    tensors, stored = read_weights(path)
    options = usual | {key: value for key, value in stored.items() if key in OPTIONS} | given
    if "name" not in options:
        raise ArgumentError(
            f"{path} does not say which network it is of: add --network, and --variant, --width, --levels … where "
            "they are not the usual ones"
        )
    try:
        model = models.build(**options)
    except TypeError as error:
        raise CheckpointError(f"{path} has build options that cannot be used: {error}") from None
    load_weights(model, model_tensors(tensors), path, cast=True)
    return Source(model.eval(), path, options, _image_shape(options), _named_in(stored))


def _named_in(stored: dict[str, Any]) -> Recipe | None:
    """The recipe and the images that `binaryduo decouple` has noted; None where a file names no data set."""
    name, data = stored.get("recipe"), stored.get("data")
    if not isinstance(name, str) or not isinstance(data, str) or data not in KINDS:
        return None
    return Recipe(name=name, data=Data(data, image_size=stored.get("image_size")))
