"""`binaryduo report RUN…`: what happened in one or more runs, as one HTML file.

The headline says what was trained on what and the result in a sentence; pictures follow, then tables and the record.
"""

from pathlib import Path

from binaryduo.paper_values import CIFAR10, IMAGENET
from binaryduo.report import costs as cost_sections
from binaryduo.report import figures, headline
from binaryduo.report.checked import Json, mapping, number
from binaryduo.report.mismatch_over_time import QUANTITIES, heat_map
from binaryduo.report.page import Page, escape
from binaryduo.report.runs import RunView, StageView, read_run

# The paper's accuracies for VGG-7 by what a run calls its stage: 200 epochs, best epoch, best of its grid.
PAPER_VGG7 = {
    "baseline": CIFAR10["baseline"],
    "coupled": CIFAR10["coupled"],
    "fine-tuning": CIFAR10["decoupled"],
    "decoupled": CIFAR10["scratch"],
}


def build(paths: list[Path], costs: bool = True) -> str:
    """The report's HTML. A folder that is missing or half-finished is shown as such."""
    runs = [read_run(path) for path in paths]
    if len(runs) == 1:
        page = Page(headline.what(runs[0]), headline.result(runs[0]))
        _run(page, runs[0], "run0", costs, 2)
        return page.render()
    page = Page(f"{len(runs)} runs")
    page.section("Overview", "overview")
    sentences = "".join(
        f'<li><a href="#run{place}">{escape(run.name)}</a>: {escape(headline.what(run))}. '
        f"{escape(headline.result(run))}</li>"
        for place, run in enumerate(runs)
    )
    page.raw(f"<ul>{sentences}</ul>")
    _accuracies(page, runs)
    for place, run in enumerate(runs):
        page.section(run.name, f"run{place}")
        page.text(f"{headline.what(run)}. {headline.result(run)}")
        _run(page, run, f"run{place}", costs, 3)
    return page.render()


def paper_accuracy(run: RunView, stage: StageView) -> float | None:
    """What the paper reports for this network and stage, at its full setting; None where it prints nothing."""
    model = run.section("model")
    network, data = model.get("network"), run.section("data").get("name")
    if data == "imagenet":
        return IMAGENET.get(str(network)) if stage.title == "fine-tuning" else None
    if network != "vgg7" or data != "cifar10" or model.get("topology") == "quad":
        return None
    usual = {"baseline": ("default", 2), "coupled": ("default", 3), "fine-tuning": ("default", 3)}
    if model.get("levels", "default") not in usual.get(stage.title, ("default", 3)):
        return None
    return PAPER_VGG7.get(stage.title)


def _accuracies(page: Page, runs: list[RunView]) -> None:
    """A row for each stage of each run; columns in which every row would be empty or the same are left out."""
    rows = [_row(run, stage) for run in runs for stage in run.stages]
    if not rows:
        return
    if all(row["best (%)"] == row["accuracy (%)"] for row in rows):
        for row in rows:
            row["best (%)"] = row["best at epoch"] = None
    for name, usual in (("state", "complete"), ("run", runs[0].name)):
        if all(row[name] == usual for row in rows):
            for row in rows:
                row[name] = None
    head = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    page.table(
        head, [[row[name] for name in head] for row in rows], "Accuracy after the last epoch", stacked=True
    )
    if "paper (%)" in head:
        page.text(
            "The paper's number is the best epoch of the best setting of its grid, on the test images; here the "
            "accuracy is that after the last epoch, which needs no choice.",
            "note",
        )


def _row(run: RunView, stage: StageView) -> Json:
    best, last = stage.best(), stage.last()
    done = stage.epochs[-1]["epoch"] if stage.epochs else 0
    short = stage.planned is not None and done < stage.planned
    result = run.summary.get("finetuned" if stage.name == "decoupled" else stage.name, run.summary)
    rate = number(mapping(result).get("images_per_second")) if stage.epochs else None
    return {
        "run": run.name,
        "network": stage.title,
        "accuracy (%)": None if last is None or "test_top1" not in last else float(last["test_top1"]),
        "best (%)": None if best is None else float(best["test_top1"]),
        "best at epoch": None if best is None else int(best["epoch"]),
        "paper (%)": paper_accuracy(run, stage),
        "epochs": f"{done:g} of {stage.planned:g}" if short else int(done),
        "images/s": None if rate is None else round(float(rate)),
        "state": run.state,
    }


def _run(page: Page, run: RunView, key: str, costs: bool, level: int) -> None:
    """All sections of one run; its headline is above."""
    page.facts(headline.facts(run, paper_accuracy(run, run.stages[-1]) if run.stages else None))
    if run.state == "unfinished":
        page.text(headline.STATES[run.state], "problem")
    for problem in run.problems:
        page.text(problem, "problem")
    curves = [(kind, figures.learning_curves(run, kind)) for kind in ("top1", "loss")]
    if any(figure is not None for _, figure in curves):
        page.section("Learning curves", f"{key}-curves", level)
    for quantity, figure in curves:
        if figure is not None:
            name = "Accuracy" if quantity == "top1" else "Loss"
            two = "; the dotted line marks the moment of decoupling" if len(run.stages) > 1 else ""
            page.figure(figure, f"{name} on training and test images by epoch{two}.", log=quantity == "loss")
    if len(run.stages) > 1 and level == 2:
        _accuracies(page, [run])
    if run.own_class is not None:
        _own(page, run)
        cost_sections.recorded(page, run, key, level)
    elif costs and run.recipe:
        cost_sections.from_recipe(page, run, key, level)
    if run.mismatch:
        page.section("Gradient mismatch", f"{key}-mismatch", level)
        page.figure(
            figures.mismatch_bars(run.mismatch),
            "Cosine between the coarse gradient and CDG, layer by layer; 1 means that training follows the loss.",
        )
    maps = [(heat_map(run, quantity), caption) for quantity, (_, caption) in QUANTITIES.items()]
    if any(figure is not None for figure, _ in maps):
        page.section("The mismatch over the training", f"{key}-mismatch-over-time", level)
        for figure, caption in maps:
            if figure is not None:
                page.figure(figure, caption)
    if run.search is not None:
        _search(page, run.search, key, level)
    _deployment(page, run, key, level)
    _record(page, run, key, level)


def _own(page: Page, run: RunView) -> None:
    """What the folder says of a user's own model: what was measured."""
    page.text(
        f"This is a model of your own ({run.own_class}), which this report cannot build: it shows what the run has "
        "recorded. In Python, bd.training.load_weights(model, folder) brings its weights back, to evaluate or to pack."
    )
    rows: list[list[object]] = [
        [stage.title, key.removeprefix("test_"), int(line["epoch"]), value]
        for stage in run.stages
        for line in stage.tested()[-1:]
        for key, value in ((key, number(line[key])) for key in line if key.startswith("test_"))
        if value is not None
    ]
    if rows:
        page.table(("network", "measured", "epoch", "value"), rows, "The last test of each stage")


def _search(page: Page, search: Json, key: str, level: int) -> None:
    page.section("Search", f"{key}-search", level)
    for name, case in search["cases"].items():
        figure = figures.settings(case)
        if figure is None:
            page.text(f"{name}: no setting is finished yet.", "problem")
            continue
        page.figure(
            figure,
            f"{case['title']}: accuracy over weight decay and learning rate; the ring marks the best setting.",
        )
    rows = [
        [name, s["weight_decay"], s["lr"], s.get("mean"), s.get("std"), s.get("n"), s.get("failed", 0)]
        for name, case in search["cases"].items()
        for s in case["settings"]
    ]
    head = ("case", "weight decay", "learning rate", "mean (%)", "std", "n", "failed")
    page.table(head, rows, "Every setting of the search")


def _deployment(page: Page, run: RunView, key: str, level: int) -> None:
    """Packed files, and tables of measured speed."""
    if run.packed:
        page.section("Packed", f"{key}-packed", level)
        rows = [[p["file"], p["bytes"], p.get("operations"), p.get("array bytes")] for p in run.packed]
        page.table(("file", "bytes", "operations", "array bytes"), rows, "Packed files of this run")
    for name, rows_ in run.speeds:
        page.section(f"Measured speed: {name}", f"{key}-speed-{name}", level)
        head = list(
            dict.fromkeys(k for row in rows_ for k, v in row.items() if not isinstance(v, dict | list))
        )
        page.table(head, [[row.get(column) for column in head] for row in rows_], f"As measured: {name}")


def _record(page: Page, run: RunView, key: str, level: int) -> None:
    """The recipe and every start's environment, folded away."""
    import yaml

    if not run.recipe and not run.starts:
        return
    page.section("Record", f"{key}-record", level)
    if run.recipe:
        text = yaml.safe_dump(run.recipe, sort_keys=False)
        page.raw(
            f'<details><summary>Recipe: every setting</summary><pre tabindex="0">{escape(text)}</pre></details>'
        )
    if run.starts:
        names = list(dict.fromkeys(name for start in run.starts for name in start if name != "command"))
        head = ["what", *[f"start {place + 1}" for place in range(len(run.starts))]]
        rows = [[name, *[_plain(start.get(name)) for start in run.starts]] for name in names]
        page.raw("<details><summary>Environment: where and with what it ran</summary>")
        page.table(head, rows, "One column for each start")
        page.raw("</details>")


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return value
