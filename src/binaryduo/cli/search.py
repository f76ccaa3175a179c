"""`binaryduo search`: weight decays and learning rates, on one machine or many."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from binaryduo.cli import options as o
from binaryduo.cli.network_options import parse_levels
from binaryduo.cli.sources import next_step

Text = str | None
UNASKED = 20  # trainings that a search begins without --yes
BESIDE_RESUME = {
    *("--resume", "--out", "--name", "--storage", "--workers", "--threads", "--dashboard", "--port"),
    *("--retry-failed", "--results", "--yes", "--show"),
}


@o.stoppable
def search(
    context: typer.Context,
    recipe: o.RecipeName = "demo",
    file: Annotated[
        Path | None, typer.Option("--file", help="A search in YAML; options on the command line override it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The search's folder; default: runs/search-NAME.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the search in the folder with the settings it has.")
    ] = False,
    cases: Annotated[
        Text,
        typer.Option(
            help="What to search for, separated by commas: baseline, coupled, scratch (the decoupled network, "
            "trained from the start), decoupled (fine-tuned from one coupled network); `coupled:4` sets levels."
        ),
    ] = None,
    grid: Annotated[
        Text, typer.Option(help="Weight decays × learning rates, e.g. 5x4. The default is the paper's 13x10.")
    ] = None,
    sampler: Annotated[Text, typer.Option(help="grid, or tpe to try fewer settings.")] = None,
    pruner: Annotated[Text, typer.Option(help="With tpe: median, hyperband or none.")] = None,
    trials: Annotated[int | None, typer.Option(help="With tpe: how many settings.")] = None,
    weight_decay: Annotated[
        Text, typer.Option(help="Weight decays: low:high:count, or values separated by commas.")
    ] = None,
    lr: Annotated[
        Text, typer.Option(help="Learning rates: low:high:count, or values separated by commas.")
    ] = None,
    finetune_weight_decay: Annotated[Text, typer.Option(help="Weight decays of the case decoupled.")] = None,
    finetune_lr: Annotated[Text, typer.Option(help="Learning rates of the case decoupled.")] = None,
    network: o.Network = None,
    width: o.Width = None,
    levels: Annotated[
        Text, typer.Option(help="Activation levels of every case that names none; `none`: full precision.")
    ] = None,
    data: o.DataName = None,
    repeats: Annotated[
        int | None, typer.Option(help="How often each setting is trained, each time with another seed.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The seed of the first repeat; each further one adds 1.")
    ] = None,
    metric: Annotated[
        Text, typer.Option(help="Rank by the accuracy after the last epoch, or by the best epoch's.")
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            help="The share of the training images that is held out and that trials are ranked on (default 0.1); "
            "0 ranks them on the test images, as the paper does."
        ),
    ] = None,
    coupled: Annotated[
        Path | None, typer.Option(help="A trained coupled run to fine-tune from, in the case decoupled.")
    ] = None,
    name: Annotated[Text, typer.Option(help="The search's name in the database.")] = None,
    storage: Annotated[
        Text,
        typer.Option(
            envvar="BINARYDUO_STORAGE",
            help="A database URL that several machines share, e.g. postgresql://user@host/db. "
            "Default: SQLite in the folder.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine; default: one per core, or one per GPU.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of each worker.")] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Serve optuna-dashboard while the search runs.")
    ] = False,
    port: Annotated[int, typer.Option(help="The dashboard's port on 127.0.0.1.")] = 8080,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run the trials that have failed once more.")
    ] = False,
    only_results: Annotated[
        bool,
        typer.Option("--results", help="Write tables, pictures and recipes of what is finished, and stop."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help=f"Begin even if it means more than {UNASKED} trainings.")
    ] = False,
    settings: o.Settings = None,
    show: Annotated[bool, typer.Option("--show", help="Print the resolved search as YAML and stop.")] = False,
) -> None:
    """Find the best weight decay and learning rate; a crash loses nothing, the same command continues.

    The search's folder holds a run folder for each trial, results.json, contour pictures and the best
    settings as recipes for `train` and `duo`. Further machines join with the same command and
    the same --storage. A search of more than a few trainings says how many they are and asks for --yes.

    Example: `binaryduo search --recipe demo --grid 3x3 --repeats 1`
    """
    from rich.console import Console

    from binaryduo.search.local import SearchStopped, conclude, open_search, run_search
    from binaryduo.search.spec import check, search_from_yaml, search_to_yaml
    from binaryduo.search.tables import best_table

    shortcuts = {"model.network": network, "model.width": width, "data.name": data}
    given = {
        "cases": None if cases is None else tuple(part.strip() for part in cases.split(",")),
        "sampler": sampler,
        "pruner": pruner,
        "trials": trials,
        "weight_decay": weight_decay,
        "lr": lr,
        "finetune_weight_decay": finetune_weight_decay,
        "finetune_lr": finetune_lr,
        "repeats": repeats,
        "seed": seed,
        "metric": metric,
        "validation": validation,
        "coupled": None if coupled is None else str(coupled),
        "name": name,
    }
    if resume:
        _refuse(_given(context) - BESIDE_RESUME, "--resume continues the search with the settings it has")
        wanted = search_from_yaml((_default(name) if out is None else out) / "search.yaml")
        if name not in (None, wanted.name):
            _refuse({"--name"}, f"the search in that folder is named {wanted.name!r}")
    else:
        if file is not None:
            _refuse(_given(context) & {"--recipe"}, f"{file} says which recipe is searched")
        wanted = check(_with_levels(_resolve(recipe, file, given, grid, shortcuts, settings), levels))
    if show:
        print(search_to_yaml(wanted), end="")
        return
    folder = _default(wanted.name) if out is None else out
    if not yes and not only_results and not (folder / "search.yaml").exists():
        _ask(wanted)
    if only_results:
        opened, studies = open_search(wanted, folder, storage)
        results = conclude(wanted, studies, folder)
        opened.engine.dispose()
    else:
        try:
            results = run_search(
                wanted, folder, storage, workers, threads, port if dashboard else None, retry_failed
            )
        except SearchStopped as stopped:
            print(stopped)
            raise typer.Exit(0) from None
    Console().print(best_table(results))
    print(f"results.json, pictures and best-*.yaml are in {folder}")
    best = next(iter(sorted(folder.glob("best-*.yaml"))), None)
    if best is not None:
        next_step(f"binaryduo train --recipe {best}", f"binaryduo report {folder}")


def _given(context: typer.Context) -> set[str]:
    """The options that stand on the command line."""
    sources = {p.opts[0]: context.get_parameter_source(str(p.name)) for p in context.command.params}
    return {option for option, source in sources.items() if source and source.name == "COMMANDLINE"}


def _refuse(options: set[str], why: str) -> None:
    """Refuse options that would be ignored."""
    from binaryduo.errors import ArgumentError

    if options:
        raise ArgumentError(f"{why}: leave out {', '.join(sorted(options))}")


def _default(name: str | None) -> Path:
    return Path("runs") / f"search-{name or 'search'}"


def _ask(wanted: Any) -> None:
    """Say what a search would train; more than a few trainings begin with --yes only."""
    from binaryduo.errors import ArgumentError
    from binaryduo.search.queueing import most_trainings

    counts = {case.name: most_trainings(wanted, case) for case in wanted.parsed_cases()}
    total = sum(counts.values())
    if total <= UNASKED:
        return
    stage = wanted.recipe.train
    length = f"{stage.epochs} epochs" if stage.minutes is None else f"{stage.minutes:g} minutes"
    what = ", ".join(f"{count:,} of {name}" for name, count in counts.items())
    raise ArgumentError(
        f"this search trains {total:,} networks ({what}; {wanted.recipe.model.network} on {wanted.recipe.data.name}, "
        f"{length} each): add --yes to begin, or choose fewer, for example with --grid 3x3 --repeats 1"
    )


def _with_levels(search: Any, levels: str | None) -> Any:
    """The search with these levels in every case that names none: `coupled` becomes `coupled:4`."""
    if levels is None:
        return search
    count = parse_levels(levels)
    text = "full" if count is None else str(count)
    cases = tuple(name if ":" in name else f"{name}:{text}" for name in search.cases)
    return dataclasses.replace(search, cases=cases)


def _resolve(
    recipe: str,
    file: Path | None,
    given: dict[str, Any],
    grid: str | None,
    shortcuts: dict[str, Any],
    settings: list[str] | None,
) -> Any:
    """The search of the file, or of the defaults, with the options given on top."""
    from binaryduo.search.space import parse_grid
    from binaryduo.search.spec import Search, search_from_yaml, with_grid
    from binaryduo.training.recipe import from_dict, to_dict

    if file is None:
        base = Search(recipe=o.resolve(recipe, shortcuts, settings))
        base = dataclasses.replace(base, name=base.recipe.name, cases=(_own_case(base.recipe),))
    else:
        base = search_from_yaml(file)
        base = dataclasses.replace(base, recipe=o.changed(base.recipe, shortcuts, settings))
    values = to_dict(base) | {key: value for key, value in given.items() if value is not None}
    found = from_dict(Search, values)
    return found if grid is None else with_grid(found, *parse_grid(grid))


def _own_case(recipe: Any) -> str:
    """The case that the recipe itself describes."""
    return "scratch" if recipe.model.variant == "decoupled" else str(recipe.model.variant)
