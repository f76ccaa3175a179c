"""What `binaryduo demo` does: the method at work on real images, in about a minute.

1. A narrow VGG-7 with one-bit weights is coupled: narrower still, with three levels, and trained on 10,000 images.
2. That network is decoupled: the same function with bits only.
3. The binary network is fine-tuned.
4. It is packed into one small file and run without PyTorch.

What it is worth here was measured with eight seeds (experiments/results/demo), because one run says little.
"""

import json
import shutil
import statistics
import timeit
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import binaryduo as bd
from binaryduo._common.files import write_synced
from binaryduo.cli.pack import meta_of
from binaryduo.data import Plan
from binaryduo.training import Recipe, duo
from binaryduo.training.curves import draw_curves, read_curve
from binaryduo.training.duo import build_model, load_data
from binaryduo.training.restore import load_run

console = Console()

# Each way at the rates that were best on held-out images, test accuracies over eight seeds, paired differences with
# Student's 95 % intervals: experiments/results/demo/rates.json.
WORTH = (
    "One run says little about what the method is worth. Over eight seeds on 8,000 of these images, each way at its "
    "best rates, duo ends at 83.5 ± 1.1 %, the binary network trained directly at 82.1 ± 0.6 %: +1.42 ± 1.20 points. "
    "The same network from random weights ends at 83.0 ± 0.7 %, and duo is +0.50 ± 1.29 from that. Larger studies: "
    "binaryduo reproduce coupling-pays, other-tasks."
)


def run(recipe: Recipe, out: Path) -> dict[str, float]:
    """Both stages with one seed; the test accuracies (percent) along the way."""
    shutil.rmtree(out / "demo-runs", ignore_errors=True)
    console.rule("Coupled, decoupled, fine-tuned")
    found = duo(recipe, out / "demo-runs" / "duo")
    assert found.coupled.last is not None
    assert found.finetuned.last is not None
    assert found.changed_predictions is not None
    return {
        "coupled": found.coupled.last["top1"],
        "decoupled": found.decoupled_before["top1"],
        "fine-tuned": found.finetuned.last["top1"],
        "changed predictions": float(found.changed_predictions),
    }


def picture(recipe: Recipe, out: Path) -> Path:
    """The learning curves of the last run."""
    folder, first = out / "demo-runs" / "duo", recipe.train.epochs
    summary = json.loads((folder / "summary.json").read_text())
    curves = [
        read_curve("coupled, three levels", folder / "coupled"),
        read_curve("decoupled, fine-tuned", folder / "decoupled", first, summary["decoupled_before"]["top1"]),
    ]
    title = "Narrow VGG-7 with one-bit weights on 10,000 images of Fashion-MNIST, one seed"
    draw_curves(out / "curves.png", curves, title)
    return out / "curves.png"


def table(recipe: Recipe, found: dict[str, float]) -> Table:
    """Accuracy and cost of each network, beside the cost of the baseline that they stand for."""
    data = load_data(recipe)
    coupled = build_model(recipe, data, "coupled")
    x = torch.zeros(1, *data.shape)
    networks = [
        ("baseline, not trained", None, build_model(recipe, data, "baseline")),
        ("coupled, three levels", "coupled", coupled),
        ("decoupled, binary", "decoupled", bd.decouple(coupled, x)),
        ("decoupled, fine-tuned", "fine-tuned", bd.decouple(coupled, x)),
    ]
    rows = Table("network", "test accuracy", "parameters", "multiply-accumulates")
    for title, key, model in networks:
        cost = bd.cost(model, x)
        accuracy = "" if key is None else f"{found[key]:.2f} %"
        rows.add_row(title, accuracy, f"{cost.param_bits / 1e3:,.0f} Kbit", f"{cost.macs / 1e6:.2f} M")
    return rows


def packed(recipe: Recipe, out: Path) -> str:
    """Pack the fine-tuned network, run all test images through the file, and say what came of it."""
    model, _, data, _ = load_run(out / "demo-runs" / "duo")
    x = torch.cat([batch.images for batch in data.test.batches(Plan(500, train=False))])
    path = out / "net.duo"
    bd.pack(model, x[:1], path, verbose=False, meta=meta_of(recipe, data.classes))
    engine = bd.load(path, threads=1)
    with torch.no_grad():
        wanted = model(x).argmax(1).numpy()
    same = int((engine.predict(x.numpy()) == wanted).sum())
    one, threads = x[:1], torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        works = (lambda: model(one), lambda: engine(one.numpy()))
        theirs, ours = (min(timeit.repeat(work, number=1, repeat=30)) for work in works)
    torch.set_num_threads(threads)
    floats = 4 * sum(parameter.numel() for parameter in model.parameters())
    size = path.stat().st_size
    return (
        f"Packed: {path} has {size:,} bytes, where 32-bit weights take {floats:,} ({floats / size:.0f} times smaller). "
        f"Without PyTorch it classifies an image in {1e3 * ours:.2f} ms on one core ({theirs / ours:.0f} times faster "
        f"than the model in PyTorch), and {same:,} of {len(x):,} predictions are the same."
    )


def reading(found: dict[str, float], test_images: int) -> str:
    """What the numbers show, and what they do not."""
    gain = found["fine-tuned"] - found["decoupled"]
    return (
        f"Decoupling kept the function: {found['changed predictions']:.0f} of {test_images:,} predictions changed. Now "
        f"that its activations are bits, fine-tuning moved the accuracy by {gain:+.2f} points.\n{WORTH}"
    )


NEXT = """Where to go next
  binaryduo describe {out}/net.duo
      what is in the packed file, layer by layer
  binaryduo report {runs}/duo
      the run on one page
  binaryduo mismatch network {runs}/duo
      how far the gradients of this network are from the truth
  binaryduo duo --recipe budget --minutes 30
      the full VGG-7 on CIFAR-10 in half an hour"""


def main(seeds: list[int], out: Path, recipe: Recipe) -> list[dict[str, float]]:
    results = []
    for seed in seeds:
        seeded = replace(recipe, loop=replace(recipe.loop, seed=seed))
        results.append(run(seeded, out))
        console.rule(f"Result, seed {seed}" if len(seeds) > 1 else "Result")
        console.print(table(seeded, results[-1]))
        console.print(reading(results[-1], len(load_data(seeded).test)), highlight=False, soft_wrap=True)
    if len(seeds) > 1:
        for key in results[0]:
            values = [result[key] for result in results]
            mean, spread = statistics.mean(values), statistics.stdev(values)
            console.print(f"{key}: {mean:.2f} ± {spread:.2f} ({len(seeds)} seeds)", highlight=False)
        kept = json.dumps({"seeds": seeds, "results": results}, indent=1) + "\n"
        write_synced(out / "seeds.json", kept.encode())
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    say(packed(recipe, out))
    say(f"Learning curves: {picture(recipe, out)}; TensorBoard: tensorboard --logdir {out}/demo-runs")
    say(NEXT.format(runs=out / "demo-runs", out=out))
    return results
