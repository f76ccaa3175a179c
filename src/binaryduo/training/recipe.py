"""A recipe: everything that decides a run, as frozen dataclasses; on disk as YAML.

    data:   which images, how they are augmented
    model:  which network, how wide, how many levels, which STE
    train:  the first (or only) stage: epochs, optimizer, schedule
    finetune: the second stage of a two-stage run
    loop:   batch, seed, precision, when to test and to save

`--set train.lr=0.01` changes one entry. Types and choices are checked, whether a setting comes from a file, the command
line or Python; unknown keys are refused by name.
"""

import dataclasses
import functools
import math
import numbers
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from binaryduo._common.yaml_files import parse_yaml, read_keys
from binaryduo.errors import ArgumentError
from binaryduo.nn.activation import check_interval
from binaryduo.ste import check_levels

R = TypeVar("R")

LARGEST = 2**53  # of a whole number: every one below it is exact wherever it goes


def _check_types(place: str, values: Any) -> None:
    """Refuse, by its dotted name, a value that is not of its annotated type or not among its choices."""
    for name, kind in _hints(typing.cast(Any, type(values))).items():
        object.__setattr__(values, name, _convert(getattr(values, name), kind, f"{place}.{name}"))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _at_least(place: str, values: Any, **lowest: int) -> None:
    """Refuse numbers that are too small, by their dotted names; None is no number."""
    for name, low in lowest.items():
        value = getattr(values, name)
        if isinstance(value, int | float) and value < low:
            raise ArgumentError(f"{place}.{name} must be at least {low}, not {value}")


@dataclass(frozen=True)
class Data:
    """Which images; None leaves the data set's own usual value.

    `validation` is the share of the training images that is held out: the run is then tested on these after
    each epoch, and on the test images once, after the last.
    """

    name: str = "fashion-mnist-small"
    root: str | None = None
    pad: int | None = None
    flip: bool | None = None
    image_size: int | None = None
    workers: int = 4
    validation: float = 0.0

    def __post_init__(self) -> None:
        _check_types("data", self)
        _at_least("data", self, pad=0, image_size=1, workers=0)
        if not 0 <= self.validation < 1:
            raise ArgumentError(f"data.validation must be a share from 0 to below 1, not {self.validation!r}")


@dataclass(frozen=True)
class Model:
    """Which network. levels null: full precision. weight_bits null: as the network is usually built.

    `start` is how its weights and biases begin: see `models.build`. `interval` lets the activations of a layer, or
    each channel, learn their thresholds.
    """

    network: str = "vgg7"
    variant: Literal["baseline", "coupled", "decoupled"] = "baseline"
    levels: int | Literal["default"] | None = "default"
    ste: str = "relu1"
    weight_bits: int | None = None
    width: float = 1.0
    topology: Literal["duo", "quad"] = "duo"
    start: Literal["fresh", "derived", "shifted"] = "fresh"
    interval: Literal["layer", "channel"] | None = None

    def __post_init__(self) -> None:
        _check_types("model", self)
        check_interval(self.interval, self.levels)
        if isinstance(self.levels, int):
            check_levels(self.levels)
        if not 0 < self.width < 1e3:
            raise ArgumentError(f"model.width must be above 0 and below 1000, not {self.width!r}")


@dataclass(frozen=True)
class Stage:
    """One training: optimizer and schedule. With `minutes`, epochs are fitted to that time instead.

    `drops` are the 1-based epochs at whose beginning the rate is multiplied by `gamma` (schedule step).
    "adam" and "sgd" (momentum 0.9) decay weights through the gradient (L2), "adamw" directly. Biases and BN are not
    decayed.

    >>> Stage(optimizer="lion")
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: stage.optimizer = 'lion' is not 'adamw' or 'adam' or 'sgd'
    """

    epochs: int = 10
    minutes: float | None = None
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.0
    schedule: Literal["constant", "step", "cosine", "onecycle"] = "cosine"
    drops: tuple[int, ...] = ()
    gamma: float = 0.1
    warmup: float = 0.0
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        _check_types("stage", self)


@dataclass(frozen=True)
class Loop:
    """How the run is carried out. "auto" settings are chosen by measuring, and the choice is kept.

    `monitor` names what decides which network is the best: null is top1, or the loss where no accuracy is counted.
    `direction` says whether more of it is better (max) or less (min); loss, top1 and top5 need none. `profile_every`
    measures the gradient mismatch every so many steps, in at most the share `profile_budget` of the training's time.
    """

    batch: int = 256
    test_batch: int = 500
    seed: int = 0
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["32", "64", "bf16"] = "32"
    engine: Literal["auto", "eager", "fast", "compile"] = "auto"
    test_every: int | None = None
    log_steps: int = 50
    checkpoint_minutes: float = 5.0
    checkpoint_steps: int | None = None
    decouple_from: Literal["last", "best"] = "last"
    sync_bn: bool = True
    tensorboard: bool = True
    monitor: str | None = None
    direction: Literal["max", "min"] | None = None
    profile_every: int | None = None
    profile_budget: float = 0.02

    def __post_init__(self) -> None:
        _check_types("loop", self)
        _at_least("loop", self, batch=1, test_batch=1, seed=0, log_steps=1, checkpoint_steps=1, test_every=1)
        _at_least("loop", self, profile_every=1, checkpoint_minutes=0)
        if not 0 < self.profile_budget <= 1:
            raise ArgumentError(
                f"loop.profile_budget must be a share above 0 and up to 1, not {self.profile_budget!r}"
            )


@dataclass(frozen=True)
class Recipe:
    """A complete, resolved description of a run.

    `anneals` 1: the rate falls once over the two stages of `duo`, and not once in each; see `one_anneal`.
    `moments` "copied": fine-tuning begins with the optimizer's moments of the coupled network, and not with none.
    """

    name: str = "custom"
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    train: Stage = field(default_factory=Stage)
    finetune: Stage | None = None
    loop: Loop = field(default_factory=Loop)
    anneals: Literal[1, 2] = 2
    moments: Literal["copied"] | None = None

    def __post_init__(self) -> None:
        _check_types("recipe", self)


def one_anneal(first: Stage, second: Stage) -> tuple[Stage, Stage]:
    """Two stages as one fall of the rate: the first keeps its rate after its warm-up, the second begins at its own.

    >>> first, second = one_anneal(Stage(lr=1e-2, schedule="onecycle", warmup=0.2), Stage(lr=1e-2, warmup=0.2))
    >>> first.schedule, first.warmup, second.schedule, second.warmup
    ('constant', 0.2, 'cosine', 0.0)
    """
    return dataclasses.replace(first, schedule="constant"), dataclasses.replace(second, warmup=0.0)


def stages_of(recipe: Recipe) -> tuple[Stage, Stage]:
    """The two trainings of a recipe with a second stage, as `duo` carries them out."""
    assert recipe.finetune is not None
    two = recipe.train, recipe.finetune
    return one_anneal(*two) if recipe.anneals == 1 else two


def _describe(kind: Any) -> str:
    """A type as a user would say it."""
    if typing.get_origin(kind) is Literal:
        return " or ".join(repr(value) for value in typing.get_args(kind))
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return " or ".join(_describe(part) for part in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return "a list of " + _describe(typing.get_args(kind)[0])
    return {int: "an integer", float: "a number", str: "text", bool: "true or false", type(None): "null"}.get(
        kind, getattr(kind, "__name__", str(kind))
    )


def _convert(value: Any, kind: Any, key: str) -> Any:
    """The value as that type, or an error that names the key, what was found and what would do."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if isinstance(kind, types.UnionType) or origin is typing.Union:
        for part in arguments:
            try:
                return _convert(value, part, key)
            except ArgumentError:
                if isinstance(value, dict) and dataclasses.is_dataclass(part):
                    raise
    elif origin is Literal:
        # YAML reads 32 as a number; the choice "32" is meant.
        for choice in arguments if not isinstance(value, bool) else ():
            if value == choice or (isinstance(choice, str) and str(value) == choice):
                return choice
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(item, arguments[0], key) for item in value)
    elif origin is dict and isinstance(value, dict):
        return {str(name): _convert(item, arguments[1], f"{key}.{name}") for name, item in value.items()}
    elif dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return from_dict(typing.cast(type[Any], kind), value, key)
    elif kind is float and (_is_number(value, numbers.Real) or isinstance(value, str)):
        try:  # YAML 1.1 reads 1e-3, without a point, as text
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    elif kind is int and _is_number(value, numbers.Integral):
        if abs(value) < LARGEST:
            return int(value)
    elif isinstance(kind, type) and type(value) is kind:
        return value
    raise ArgumentError(f"{key} = {_quoted(value)} is not {_describe(kind)}")


def _is_number(value: Any, kind: Any) -> bool:
    """Whether it is a number of that kind, Python's or NumPy's; true and false are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _quoted(value: Any) -> str:
    """The value as an error shows it: shortened, for a file may hold anything."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or lists without end
        return f"a value of the type {type(value).__name__}"
    return text if len(text) < 200 else f"{text[:200]}…"


def from_dict(kind: type[R], values: dict[str, Any], prefix: str = "") -> R:
    """A dataclass from nested dictionaries, each value checked against its annotation.

    >>> from_dict(Stage, {"lr": "1e-3", "epochs": 3}).lr
    0.001
    """
    hints = _hints(typing.cast(Any, kind))
    dotted = {name: f"{prefix}.{name}" if prefix else name for name in values}
    for name in values:
        if name not in hints:
            raise ArgumentError(f"unknown key {_quoted(dotted[name])}: choose one of {', '.join(hints)}")
    return kind(**{name: _convert(value, hints[name], dotted[name]) for name, value in values.items()})


def to_dict(recipe: Any) -> dict[str, Any]:
    """Plain nested dictionaries and lists, as YAML and JSON take them."""
    plain: dict[str, Any] = dataclasses.asdict(
        recipe, dict_factory=lambda items: {k: list(v) if isinstance(v, tuple) else v for k, v in items}
    )
    return plain


def to_yaml(recipe: Recipe) -> str:
    """The whole recipe, every key written out."""
    return yaml.safe_dump(to_dict(recipe), sort_keys=False)


def from_yaml(path: "str | Path") -> Recipe:
    """Read a recipe file; keys that are left out have their defaults."""
    values = read_keys(path, "the recipe")
    refuse_own(values, Path(path))
    return from_dict(Recipe, values)


def refuse_own(recipe: dict[str, Any], path: Path) -> None:
    """Refuse to build a network from the record of a user's own model."""
    part = recipe.get("model")
    if isinstance(part, dict) and "class" in part:
        raise ArgumentError(
            f"{path} is of a model of your own ({part['class']}), which only your code can build: build it in "
            "Python, fill it with bd.training.load_weights(model, folder), and use bd.training.evaluate or bd.pack"
        )


def with_settings(recipe: Recipe, settings: list[str]) -> Recipe:
    """The recipe with `key=value` entries changed, keys dotted, values as in YAML.

    >>> with_settings(Recipe(), ["train.lr=0.5", "model.levels=4"]).train.lr
    0.5
    """
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ArgumentError(f"{setting!r} is not of the form key=value, for example train.lr=0.01")
        value = parse_yaml(text, f"the value of {setting!r}")
        recipe = with_value(recipe, key.strip(), value)
    return recipe


def with_value(recipe: Recipe, key: str, value: Any) -> Recipe:
    """The recipe with one dotted key changed.

    >>> with_value(Recipe(), "data.root", "2012").data.root
    '2012'
    """
    *path, last = key.split(".")
    values = to_dict(recipe)
    place = values
    for depth, part in enumerate(path):
        if isinstance(place, dict) and part in place and place[part] is None:
            place[part] = {}  # a stage that was not there begins with its defaults
        if not isinstance(place, dict) or not isinstance(place.get(part), dict):
            known = ", ".join(name for name, below in place.items() if isinstance(below, dict))
            raise ArgumentError(f"unknown key {'.'.join(path[: depth + 1])!r}: choose one of {known}")
        place = place[part]
    place[last] = value
    return from_dict(Recipe, values)


def with_minutes(recipe: Recipe, minutes: float, two_stages: bool) -> Recipe:
    """The recipe with its epochs replaced by a time; of two stages each gets half of it."""
    first, second = (0.5 * minutes, 0.5 * minutes) if two_stages else (minutes, 0.0)
    train = dataclasses.replace(recipe.train, minutes=first)
    finetune = recipe.finetune
    if two_stages and finetune is not None:
        finetune = dataclasses.replace(finetune, minutes=second)
    return dataclasses.replace(recipe, train=train, finetune=finetune)
