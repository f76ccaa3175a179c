"""Make a pretrained network of a run: weights, and a card with what was measured on them.

    python -m binaryduo.training.publish runs/demo-duo vgg7-cifar10-duo folder

The card's accuracy is that of the file that was written, read back, on the test images; that of the run's last and best
epoch stands beside it.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors.torch

from binaryduo import models
from binaryduo._common.files import write_synced
from binaryduo._common.hostile import read_json
from binaryduo.errors import CheckpointError
from binaryduo.models.trained import compact, expanded
from binaryduo.training.duo import load_data
from binaryduo.training.evaluation import evaluate
from binaryduo.training.identity import decisive
from binaryduo.training.sources import open_source


def publish(run: "str | Path", name: str, folder: "str | Path", commit: str | None = None) -> dict[str, Any]:
    """Write NAME.safetensors and NAME.json for the last network of a run; returns the card.

    `commit` is that of the code which trained it, where the run could not see it (it was installed from a wheel).
    """
    found, folder = open_source(run), Path(folder)
    recipe = found.recipe
    if recipe is None:
        raise CheckpointError(f"{run} is not a run: how its network was trained is not known")
    data = load_data(recipe) if found.data is None else found.data
    content = safetensors.torch.save(compact(found.model))
    shipped = models.build(**found.options)
    shipped.load_state_dict(expanded(safetensors.torch.load(content), shipped, name))
    counts = evaluate(shipped.eval(), data.test, recipe.loop.test_batch)
    summary = read_json(Path(run) / "summary.json", "the summary", CheckpointError, finite=False)
    started = read_json(Path(run) / "environment.json", "the environment", CheckpointError)[-1]
    stage = summary.get("finetuned", summary)
    card = {
        "name": name,
        "build": found.options,
        "data": data.name,
        "top1": round(counts.means()["top1"], 4),
        "images": counts.images,
        "last_epoch": stage["last"]["top1"],
        "best_epoch": stage["best"]["top1"],
        "settings": decisive(recipe, "train" if recipe.finetune is None else "duo"),
        "seed": recipe.loop.seed,
        "commit": started["git"] if commit is None else commit,
        "processor": started["processor"],
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_synced(folder / f"{name}.safetensors", content)
    write_synced(folder / f"{name}.json", (json.dumps(card, indent=1) + "\n").encode())
    return card


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make a pretrained network of a run.")
    parser.add_argument("run", help="the folder of the run")
    parser.add_argument("name", help="what the network will be called")
    parser.add_argument("folder", help="where to write NAME.safetensors and NAME.json")
    parser.add_argument("--commit", help="of the code that trained it, if the run does not say so")
    given = parser.parse_args()
    print(json.dumps(publish(given.run, given.name, given.folder, given.commit), indent=1))
