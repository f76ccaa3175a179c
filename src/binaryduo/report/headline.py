"""What a run is and what came of it, in a sentence each, and the few numbers worth a tile."""

from binaryduo.report import checked
from binaryduo.report.page import Fact
from binaryduo.report.runs import RunView, StageView
from binaryduo.search.results import ranked

NETWORKS = {
    "vgg7": "VGG-7",
    "alexnet": "AlexNet",
    "resnet18": "ResNet-18",
    "resnet18-sc": "ResNet-18 with a shortcut around each convolution",
    "resnet18-sc-small": "ResNet-18 for small images with a shortcut around each convolution",
    "mlp": "MLP",
}
DATA = {
    "fashion-mnist-small": "Fashion-MNIST (10,000 images)",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "imagenet": "ImageNet",
}
NAMES = {"fine-tuning": "binary network", "coupled": "coupled network", "baseline": "baseline"}
STATES = {
    "missing": "There is no such run.",
    "empty": "This folder holds no run.",
    "unfinished": "This run is not finished: what it has measured so far is shown. It continues with --resume.",
}


def what(run: RunView) -> str:
    """What was trained on what.

    >>> from pathlib import Path
    >>> run = RunView(Path("a"), recipe={"model": {"network": "vgg7", "width": 0.5}, "data": {"name": "cifar10"}})
    >>> what(run), what(RunView(Path("runs/a")))
    ('VGG-7 at width 0.5 on CIFAR-10', 'a')
    """
    model, data = run.section("model"), str(run.section("data").get("name", ""))
    if run.own_class is not None:
        return f"{run.own_class}, a model of your own" + (f", on {DATA.get(data, data)}" if data else "")
    if run.search is not None and not run.stages:
        return "Search for weight decay and learning rate"
    if "network" not in model:
        return run.name
    network = str(model["network"])
    width = checked.number(model.get("width"))
    narrow = "" if width in (None, 1) else f" at width {width:g}"
    return f"{NETWORKS.get(network, network)}{narrow} on {DATA.get(data, data)}"


def result(run: RunView) -> str:
    """The result in a sentence or two."""
    if run.state in ("missing", "empty"):
        return STATES[run.state]
    if run.search is not None and not run.stages:
        return _of_search(run.search)
    measured = [stage for stage in run.stages if stage.last() is not None]
    if not measured:
        return _beside(run)
    last = measured[-1]
    epochs = " + ".join(f"{stage.epochs[-1]['epoch']:g}" for stage in measured)
    done = "epoch" if epochs == "1" else "epochs"
    accuracy = _accuracy(last)
    if accuracy is None:
        return f"After {epochs} {done}, {_name(last)}: {_tested(last)}."
    text = f"The {_name(last)} classifies {accuracy:.2f} % of {_images(run)} correctly after {epochs} {done}"
    text += _on_the_test(run) + "."
    if len(measured) == 2 and (before := _accuracy(measured[0])) is not None:
        text += f" The coupled network reached {before:.2f} %"
        changed = checked.number(run.summary.get("changed_predictions"))
        images = checked.number(run.summary.get("test_images"))
        if changed is not None and images is not None:
            text += f"; decoupling changed {changed:,} of {images:,} predictions"
        if run.decoupled_before is not None:
            more = accuracy - run.decoupled_before
            text += f", and fine-tuning {'added' if more >= 0 else 'cost'} {abs(more):.2f} points"
        text += "."
    return text


def facts(run: RunView, paper: float | None) -> list[Fact]:
    """The numbers worth a tile; `paper` is the paper's accuracy for the last stage."""
    out: list[Fact] = []
    measured = [stage for stage in run.stages if stage.last() is not None]
    for stage in reversed(measured):
        accuracy = _accuracy(stage)
        if accuracy is not None:
            out.append(Fact(f"{accuracy:.2f} %", f"{_name(stage)}, after the last epoch"))
        if stage is measured[-1] and paper is not None:
            out.append(Fact(f"{paper:.2f} %", "in the paper, best epoch at its full setting"))
    changed = checked.number(run.summary.get("changed_predictions"))
    if changed is not None:
        out.append(Fact(f"{changed:,}", "predictions changed by decoupling"))
    seconds = [checked.number(stage.epochs[-1].get("seconds")) for stage in measured]
    known = [s for s in seconds if s is not None and 0 <= s < 1e9]
    if known:
        out.append(Fact(duration(sum(known)), "spent training"))
    for packed in run.packed[:1]:
        if (size := checked.number(packed.get("bytes"))) is not None:
            out.append(Fact(f"{size / 1000:,.1f} kB", f"packed: {packed['file']}"))
    return out


def duration(seconds: float) -> str:
    """A time as a person says it.

    >>> duration(51.2), duration(1900), duration(90000)
    ('51 s', '32 min', '25.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _name(stage: StageView) -> str:
    return NAMES.get(stage.title, stage.title)


def _accuracy(stage: StageView) -> float | None:
    last = stage.last()
    found = None if last is None else checked.number(last.get("test_top1"))
    return None if found is None else float(found)


def _tested(stage: StageView) -> str:
    """Everything that the last test has measured."""
    line = stage.last() or {}
    found = {k.removeprefix("test_"): checked.number(v) for k, v in line.items() if k.startswith("test_")}
    return ", ".join(f"{name} {value:.4g}" for name, value in found.items() if value is not None)


def _held_out(run: RunView) -> bool:
    share = checked.number(run.section("data").get("validation"))
    return share is not None and share > 0


def _images(run: RunView) -> str:
    if _held_out(run):
        return "the held-out training images"
    count = checked.number(run.summary.get("test_images"))
    return "the test images" if count is None else f"the {count:,} test images"


def _on_the_test(run: RunView) -> str:
    """The accuracy on the test images, of a run that was watched on held-out ones."""
    places = [run.summary, *(checked.mapping(run.summary.get(key)) for key in ("finetuned", "single"))]
    found = [checked.number(checked.mapping(place.get("test")).get("top1")) for place in places]
    known = [value for value in found if value is not None]
    return f", and {known[0]:.2f} % of the test images" if _held_out(run) and known else ""


def _of_search(search: checked.Json) -> str:
    """How many settings were tried, and the best of each case."""
    tried = sum(len(case["settings"]) for case in search["cases"].values())
    best = [
        f"{case['title']}: {top['mean']:.2f} % at weight decay {top['weight_decay']:g} and learning rate {top['lr']:g}"
        for case in search["cases"].values()
        if (top := best_setting(case)) is not None
    ]
    settings = "setting was" if tried == 1 else "settings were"
    measured = any(s.get("mean") is not None for case in search["cases"].values() for s in case["settings"])
    none = "None has all of its repeats." if measured else "None is finished yet."
    return f"{tried:,} {settings} tried. " + (f"The best: {'; '.join(best)}." if best else none)


def best_setting(case: checked.Json) -> checked.Json | None:
    """The setting that the search itself calls the best; None where none has all of its repeats."""
    settings = [{"mean": None, "n": 1, "failed": 0, **setting} for setting in case["settings"]]
    return next(iter(ranked(settings, 1)), None)


def _beside(run: RunView) -> str:
    """What a folder without a tested epoch holds."""
    if run.stages or run.recipe:
        return "Nothing was tested yet."
    kinds = (
        ("a mismatch profile", run.mismatch),
        ("measured speeds", run.speeds),
        ("packed models", run.packed),
    )
    return f"This folder holds {', '.join(name for name, there in kinds if there) or 'nothing to show'}."
