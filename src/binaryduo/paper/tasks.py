"""The two tasks beyond images, as the examples have them: keywords in speech, and a detector with two outputs.

The scripts examples/keywords.py and examples/detector.py are the one definition of data, network, loss and metrics;
they are read from the source checkout. A unit names a task, a way and its settings; `held_out` units see training data
only: the networks are tested on speakers, or garments, that are left out of their training.
"""

import importlib
import subprocess
import sys
import time
from functools import cache
from types import ModuleType
from typing import Any

import torch

from binaryduo._common.progress import say
from binaryduo.errors import ArgumentError
from binaryduo.paper.experiment import Row, Unit, Workspace
from binaryduo.paper.results import checkout

TASKS = ("keywords", "detector")
WAYS = ("baseline", "scratch", "duo")
METRIC = {"keywords": "top1", "detector": "found"}  # what decides
METRICS = {
    "keywords": {"top1": "accuracy"},
    "detector": {
        "found": "right class and a box that overlaps by half",
        "top1": "right class",
        "iou": "mean overlap",
    },
}
WORDS = {
    "keywords": "right word (%)",
    "detector": "right class, and a box that overlaps by half (%)",
}
SETTINGS_OF = {
    "keywords": "ten words of espeak-ng in noise, other speakers in the test, a one-dimensional network",
    "detector": "scenes from Fashion-MNIST's small set, class and box",
}
EPOCHS = {"keywords": 8, "detector": 8}  # in total, both stages of duo added
SIZES = {  # utterances of each word, or scenes: to train with, held out, to test with
    "keywords": (800, 300, 500),
    "detector": (4_000, 2_000, 2_000),
}
SMALL = {"keywords": (4, 2, 2), "detector": (40, 20, 20)}
HELD_OUT_SPEAKERS = 4  # every fourth speaker of the training


def unit(task: str, way: str, seed: int, lr: float, held_out: bool, **settings: Any) -> Unit:
    """One training; `hold` and `finetune` are those of examples/three_ways.py, `small` is of the smoke profile."""
    second = {"finetune": 1.0} if way == "duo" else {"hold": False}
    part = "held-out" if held_out else "test"
    return {
        "task": task,
        "way": way,
        "part": part,
        "epochs": EPOCHS[task],
        "lr": lr,
        **second,
        **settings,
        "seed": seed,
    }


def example(name: str) -> ModuleType:
    """A script of the folder examples, as a module."""
    source = checkout()
    if source is None or not (source / "examples" / f"{name}.py").is_file():
        raise ArgumentError(
            f"this experiment trains what examples/{name}.py defines: run it in a source checkout of binaryduo"
        )
    folder = str(source / "examples")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


def measure(work: Unit, place: Workspace) -> list[Row]:
    """Train one way of one task, and say what the test after its last epoch measured."""
    task = work["task"]
    script, ways = example(task), example("three_ways")
    train, test = split(task, work["part"], bool(work.get("small")))
    setting = ways.Setting(work["lr"], work.get("hold", False), work.get("finetune", 1.0))
    say(f"{task}, {work['part']}: {work['way']}, seed {work['seed']}, {setting}")
    began = time.process_time()
    options: dict[str, Any] = {}
    make = script.Detector if task == "detector" else lambda: script.network(len(script.WORDS))
    if task == "detector":
        options = {"loss": script.loss, "metrics": script.METRICS}
    last = ways.train_way(work["way"], make, train, test, work["epochs"], work["seed"], setting, **options)
    row: Row = {**work, "trained_on": len(train[0]), "tested_on": len(test[0])}
    row |= {name: round(value, 4) for name, value in last.items()}
    row |= {"processor_seconds": round(time.process_time() - began, 2), "torch": torch.__version__}
    return [row | ({"espeak": espeak_version()} if task == "keywords" else {})]


@cache
def split(task: str, part: str, small: bool) -> tuple[Any, Any]:
    """The tensors to train and to test with; of held-out units both are of the training set."""
    train, held, test = (SMALL if small else SIZES)[task]
    script = example(task)
    if task == "keywords":
        speakers: list[str] = script.SPEAKERS
        if part == "test":
            return script.synthesised(speakers, train, 0), script.synthesised(script.OTHERS, test, 11)
        others = speakers[::HELD_OUT_SPEAKERS]
        kept = [name for name in speakers if name not in others]
        return script.synthesised(kept, train, 2), script.synthesised(others, held, 3)
    from binaryduo import data

    garments = data.load("fashion-mnist-small")
    if part == "test":
        return script.scenes(garments.train, 0, train, 0), script.scenes(garments.test, 0, test, 11)
    return script.scenes(garments.train, 0, train, 2), script.scenes(garments.train, train, train + held, 3)


@cache
def espeak_version() -> str:
    """Which espeak-ng has spoken."""
    said = subprocess.run(["espeak-ng", "--version"], check=True, capture_output=True, text=True).stdout
    return said.split("Data at")[0].strip()
