"""Half an hour each on real CIFAR-10: the two-stage run and the baseline, under the recipe `budget`.

Claim tested: in the same time on the same machine, coupled training, decoupling and fine-tuning gives a binary VGG-7
that is at least as accurate as the baseline. Paper (200 epochs and a grid of settings): baseline 89.07 %, coupled
89.69 %, decoupled and fine-tuned 90.44 %. Ours: results/cifar10_budget/metrics.json, one run each; the settings that
differ are in it (recipe, threads, measured throughput).

    binaryduo reproduce cifar10-budget run --minutes 30     both runs, one after the other; resumable
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from binaryduo._common.files import write_synced
from binaryduo.paper.experiment import Records, Workspace
from binaryduo.paper_values import CIFAR10
from binaryduo.training import duo, from_yaml, named, train
from binaryduo.training.curves import Curve, draw_curves
from binaryduo.training.recipe import to_dict, with_minutes
from binaryduo.training.runlog import read_metrics

PAPER = ", ".join(f"{CIFAR10[case]:.1f}" for case in ("baseline", "coupled", "decoupled")) + " %"
MINUTES = 30.0  # for each of the two runs


def run(results: Path, place: Workspace, minutes: float | None) -> bool:
    """Train both, `minutes` each; what is complete is not trained again. Their records go to metrics.json."""
    recipe, runs = named("budget"), place.runs / "cifar10_budget"
    budget = MINUTES if minutes is None else minutes
    duo(with_minutes(recipe, budget, two_stages=True), runs / "duo", resume=(runs / "duo").exists())
    baseline = replace(with_minutes(recipe, budget, two_stages=False), finetune=None)
    train(baseline, runs / "baseline", resume=(runs / "baseline").exists())
    results.mkdir(parents=True, exist_ok=True)
    write_synced(results / "metrics.json", (json.dumps(records(runs), indent=1) + "\n").encode())
    return True


def stage(folder: Path) -> dict[str, Any]:
    """What a stage recorded, without the lines of single steps; and what was chosen by measuring."""
    lines = [line for line in read_metrics(folder) if line["kind"] == "epoch"]
    newest = max((folder / "checkpoints").glob("step-*.json"), default=None)
    state = {} if newest is None else json.loads(newest.read_text())["state"]
    kept = ("step", "images", "seconds", "best", "last", "chosen")
    return {"epochs": lines, "state": {key: state.get(key) for key in kept}}


def records(runs: Path) -> dict[str, Any]:
    """All that the picture and a reader need, as one JSON file."""
    found: dict[str, Any] = {}
    for name in ("duo", "baseline"):
        folder = runs / name
        if not (folder / "recipe.yaml").exists():
            found[name] = "not run"
            continue
        starts = json.loads((folder / "environment.json").read_text())
        for start in starts:
            start.pop("command")  # it holds paths of one machine
        summary = folder / "summary.json"
        parts = ("coupled", "decoupled") if name == "duo" else (".",)
        found[name] = {
            "recipe": to_dict(from_yaml(folder / "recipe.yaml")),
            "starts": starts,
            "stages": {
                "baseline" if part == "." else part: stage(folder / part)
                for part in parts
                if (folder / part / "metrics.jsonl").exists()
            },
            "summary": json.loads(summary.read_text()) if summary.exists() else "not complete",
        }
    return found


def collect(results: Path) -> list[str]:
    """Last and best accuracy of each stage; unfinished runs say so."""
    parts = []
    for run in json.loads((results / "metrics.json").read_text()).values():
        if not isinstance(run, dict):
            continue
        for name, part in run["stages"].items():
            tested = [line for line in part["epochs"] if "test_top1" in line]
            if tested:
                best = max(line["test_top1"] for line in tested)
                epoch = f"epoch {tested[-1]['epoch']}"
                parts.append(f"{name} last {tested[-1]['test_top1']:.2f}, best {best:.2f} ({epoch})")
        if not isinstance(run["summary"], dict):
            parts.append("this run is not complete")
    return parts


def curve(
    name: str, lines: list[dict[str, Any]], per_epoch: float, offset: float, begins: float | None
) -> Curve:
    """The tested epochs of a stage."""
    tested = [line for line in lines if "test_top1" in line]
    xs = tuple(offset + line["step"] / per_epoch for line in tested)
    return Curve(
        name, xs, tuple(line["test_top1"] for line in tested), None if begins is None else (offset, begins)
    )


def plot(results: Path) -> list[Path]:
    """Draw the curves from the committed numbers; nothing is trained."""
    found = json.loads((results / "metrics.json").read_text())
    curves, per_epoch = [], 50_000 // 256
    if found["baseline"] != "not run":
        lines = found["baseline"]["stages"]["baseline"]["epochs"]
        curves.append(curve("binary baseline", lines, per_epoch, 0.0, None))
    stages, summary = found["duo"]["stages"], found["duo"]["summary"]
    curves.append(curve("coupled, three levels", stages["coupled"]["epochs"], per_epoch, 0.0, None))
    if "decoupled" in stages and stages["decoupled"]["epochs"]:
        offset = stages["coupled"]["epochs"][-1]["step"] / per_epoch
        before = summary["decoupled_before"]["top1"] if isinstance(summary, dict) else None
        lines = stages["decoupled"]["epochs"]
        curves.append(curve("decoupled, fine-tuned", lines, per_epoch, offset, before))
    draw_curves(
        results / "curves.png",
        [c for c in curves if c.epochs],
        f"VGG-7 on CIFAR-10, a budget of minutes (paper, 200 epochs: {PAPER})",
    )
    return [results / "curves.png"]


RECORDS = Records("cifar10_budget", "CIFAR-10, half an hour each", run, collect, plot)
