"""What decides a run: one table of all settings, and the record of them in every checkpoint.

A checkpoint says by which verb, in which stage and with which settings it came about. A run is continued only where
these are the same, or where a difference was asked for and is recorded in the run's changes.json.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from binaryduo.errors import CheckpointError
from binaryduo.training.recipe import Recipe, Stage, to_dict

Verb = Literal["train", "duo", "fit", "trial"]
Settings = dict[str, Any]
Changes = dict[str, tuple[Any, Any]]

# May differ at any time: no number of the run depends on them.
FREE = frozenset(
    {
        "data.root",
        "data.workers",
        "loop.checkpoint_minutes",
        "loop.checkpoint_steps",
        "loop.tensorboard",
        "loop.profile_every",
        "loop.profile_budget",
    }
)

# May be changed on purpose while a run is under way: what is still to come depends on them.
CHANGEABLE = frozenset(
    {f"{stage}.{key}" for stage in ("train", "finetune") for key in Stage.__annotations__}
    - {"train.minutes", "finetune.minutes", "train.optimizer"}
    | {
        "name",
        "data.pad",
        "data.flip",
        "loop.test_batch",
        "loop.accelerator",
        "loop.engine",
        "loop.test_every",
        "loop.log_steps",
        "loop.decouple_from",
        "loop.sync_bn",
    }
)

# Of these, what the second stage of `duo` begins with: fixed as soon as it has begun.
BEGINS_SECOND = frozenset({"finetune.optimizer", "loop.decouple_from"})

LATER = ("model.quantized",)

# Everything else is fixed when the run begins: with another value it would be another run from its first step on.


def settings_of(recipe: Recipe) -> Settings:
    """Every setting by its dotted name; a stage that is not there has null for each of its own.

    >>> settings_of(Recipe())["train.lr"], settings_of(Recipe())["finetune.lr"]
    (0.001, None)
    """
    found: Settings = {}
    for name, value in to_dict(recipe).items():
        if name == "finetune" and value is None:
            value = dict.fromkeys(Stage.__annotations__)
        if isinstance(value, dict):
            found |= {f"{name}.{key}": below for key, below in value.items()}
        else:
            found[name] = value
    return found


def decisive(recipe: Recipe, verb: Verb) -> Settings:
    """The settings that decide a run of that verb: `duo` trains the coupled variant, the others one stage.

    >>> "finetune.lr" in decisive(Recipe(), "train"), "data.root" in decisive(Recipe(), "duo")
    (False, False)
    """
    unused = ("model.variant",) if verb == "duo" else ("finetune.", "anneals", "moments")
    return {
        key: value
        for key, value in settings_of(recipe).items()
        if key not in FREE and not key.startswith(unused)
    }


def differences(before: Settings, after: Settings) -> Changes:
    """The settings that differ, each with its two values.

    >>> differences({"train.lr": 0.1, "loop.seed": 0}, {"train.lr": 0.2, "loop.seed": 0})
    {'train.lr': (0.1, 0.2)}
    """
    return {
        key: (before.get(key), after.get(key))
        for key in [*before, *(key for key in after if key not in before)]
        if before.get(key) != after.get(key)
    }


def with_later(before: Settings, now: Settings) -> Settings:
    """What a run began with, and of what is recorded only since then the values of now: it is not refused for these.

    >>> with_later({"model.class": "Net"}, {"model.class": "Net", "model.quantized": "QuantAct(levels=2)"})
    {'model.quantized': 'QuantAct(levels=2)', 'model.class': 'Net'}
    """
    return {key: now[key] for key in LATER if key in now} | before


def digest_of(content: Any) -> str:
    """SHA-256 of what JSON holds, whatever the order of its keys and its spaces.

    >>> digest_of({"a": 1, "b": [2.0]}) == digest_of({"b": [2.0], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class Identity:
    """Which run this is; `earlier` are the settings that it had before deliberate changes."""

    verb: Verb
    stage: int
    settings: Settings
    earlier: tuple[Settings, ...] = ()

    def record(self) -> dict[str, Any]:
        """What goes into a checkpoint."""
        return {"verb": self.verb, "stage": self.stage, "settings": self.settings}

    def check(self, record: Any, origin: object) -> bool:
        """Whether the checkpoint's settings are those of now; False where they were changed on purpose.

        Anything else is refused by name.
        """
        if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
            raise CheckpointError(f"{origin} does not say which run it belongs to")
        if (record.get("verb"), record.get("stage")) != (self.verb, self.stage):
            raise CheckpointError(
                f"{origin} was written by {record.get('verb')}, stage {record.get('stage')}, and cannot be "
                f"continued by {self.verb}, stage {self.stage}"
            )
        before = with_later(record["settings"], self.settings)
        if "model.class" in self.settings and "model.class" not in before:
            # Earlier versions recorded, of a user's own model, also what nobody had said.
            before = self.settings | {key: value for key, value in before.items() if key in self.settings}
        found = differences(before, self.settings)
        if not found:
            return True
        if any(not differences(record["settings"], settings) for settings in self.earlier):
            return False
        key, (there, here) = next(iter(found.items()))
        more = f" ({len(found)} settings differ)" if len(found) > 1 else ""
        # A model of one's own is trained from Python, where no setting can be changed on the way.
        how = "" if "model.class" in self.settings else f", and change a setting with --resume --set {key}=…"
        raise CheckpointError(
            f"recipe.yaml says {key} = {here!r}, and {origin} was trained with {there!r}{more}: recipe.yaml was "
            f"edited after the run had begun; put it back{how}"
        )


def check_network(record: dict[str, Any], recipe: Recipe, origin: object) -> None:
    """Refuse a recipe with another network or other images than the checkpoint's run had: its weights may fit both."""
    kept = record.get("settings")
    now = settings_of(recipe)
    known = {key: value for key, value in (kept if isinstance(kept, dict) else {}).items() if key in now}
    for key, (there, here) in differences(known, {key: now[key] for key in known}).items():
        if key.startswith(("model.", "data.")) and key not in CHANGEABLE:
            raise CheckpointError(
                f"recipe.yaml says {key} = {here!r}, and {origin} was trained with {there!r}: it was edited"
            )
