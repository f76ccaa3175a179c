"""`binaryduo reproduce`: every figure and table of the paper as a command."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.errors import ArgumentError


def reproduce(
    artefact: Annotated[
        str,
        typer.Argument(help="`list`, `map` (writes docs/paper_map.md), `all`, or a name that `list` shows."),
    ] = "list",
    profile: Annotated[
        str,
        typer.Option(help="smoke: seconds; cpu: a reduced setting for two cores; paper: the full setting."),
    ] = "cpu",
    verb: Annotated[
        str,
        typer.Option(help="run measures what is missing, collect judges, plot draws; all does the three."),
    ] = "all",
    results: Annotated[
        Path | None, typer.Option(help="Where the numbers are kept; default: experiments/results.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where trainings are kept, so that they can be resumed.")] = Path(
        "runs/reproduce"
    ),
    root: Annotated[Path | None, typer.Option(help="The folder of ImageNet (or of CIFAR-10).")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no new part of the work after this long.")
    ] = None,
    dry: Annotated[bool, typer.Option("--estimate", help="Only say how long it would take here.")] = False,
) -> None:
    """Run, judge and draw an artefact of the paper again. Interrupted work continues with the same command.

    Networks are trained below --runs, rows are kept in --results, pictures beside them. What needs no training
    is always run in the paper's full size, except with `--profile smoke`.
    """
    from binaryduo.report import experiments
    from binaryduo.report.artefacts import ARTEFACTS, find

    if profile not in experiments.PROFILES:
        raise ArgumentError(f"unknown profile {profile!r}: choose one of {', '.join(experiments.PROFILES)}")
    if verb not in ("run", "collect", "plot", "all"):
        raise ArgumentError(f"unknown verb {verb!r}: choose one of run, collect, plot, all")
    if artefact == "list":
        _list(results)
        return
    if artefact == "map":
        _map(results)
        return
    chosen = list(ARTEFACTS) if artefact == "all" else [find(artefact)]
    names = list(
        dict.fromkeys(name for item in chosen for name in item.experiments if experiments.exists(name))
    )
    if not names:
        item = chosen[0]
        if item.command is not None:
            raise ArgumentError(f"{item.title} is made by another verb: {item.command}")
        why = "its experiment is not here yet" if item.pending is None else item.pending
        raise ArgumentError(f"{item.title} cannot be reproduced: {why}")
    settings = experiments.module("_training").SETTINGS
    settings.runs, settings.root = runs, root
    for name in names:
        if verb in ("run", "all") and not _run(name, profile, results, minutes, dry):
            continue
        if dry:
            continue
        if verb in ("collect", "all"):
            _collect(name, profile, results)
        if verb in ("plot", "all"):
            for path in experiments.plot(name, profile, results):
                typer.echo(f"picture: {path}")


def _run(name: str, profile: str, results: Path | None, minutes: float | None, dry: bool) -> bool:
    """Say how long it will take, then do it; False if something is left to do."""
    from binaryduo.cli.options import run_guarded
    from binaryduo.report import experiments

    if not experiments.sources(name):
        seconds, why = experiments.estimate(name, profile, results)
        length = "an unknown time" if seconds is None else "about " + duration(seconds)
        todo = len(experiments.missing_units(name, profile, results))
        parts = f"{todo} part{'' if todo == 1 else 's'} to do"
        typer.echo(f"{name}, {experiments.own_profile(name, profile)}: {parts}, {length} ({why})")
    if dry:
        return True
    complete: bool = run_guarded(lambda: experiments.run(name, profile, results, minutes))
    if not complete:
        typer.echo("not complete: the same command continues")
    return complete


def _collect(name: str, profile: str, results: Path | None) -> None:
    from binaryduo.report import experiments

    found = experiments.read(name, profile, results)
    if found is None:
        raise experiments.no_results(name, profile)
    for verdict in experiments.verdicts(name, found.rows):
        where = f" [{verdict.setting}]" if verdict.setting else ""
        typer.echo(f"{verdict.verdict.upper()}: {verdict.claim}{where}: {verdict.evidence}")


def _list(results: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from binaryduo.report.paper_map import lines

    table = Table("name", "artefact", "profile run", "verdict")
    table.columns[0].no_wrap = True
    for line in lines(results):
        pending = line.artefact.pending is not None
        verdict = "not yet" if pending else line.verdict
        table.add_row(line.artefact.key, line.artefact.title, line.profile, verdict)
    Console().print(table)


def _map(results: Path | None) -> None:
    from binaryduo.errors import ArgumentError
    from binaryduo.report import experiments, paper_map

    if results is not None and not results.is_dir():
        raise ArgumentError(f"the folder {results} does not exist: nothing was written")
    docs = experiments.folder().parent / "docs"
    path = docs / "paper_map.md"
    path.write_text(paper_map.markdown(results, docs))
    typer.echo(f"written: {path}")


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> [duration(s) for s in (42, 600, 9000, 400_000)]
    ['42 s', '10 minutes', '2.5 hours', '4.6 days']
    """
    for size, name in ((86400, "days"), (3600, "hours")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"
