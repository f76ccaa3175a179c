"""`binaryduo reproduce`: every figure and table of the paper as a command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binaryduo.errors import ArgumentError, unknown_name

if TYPE_CHECKING:
    from binaryduo.paper.experiment import Workspace

VERBS = ("run", "collect", "plot")


def reproduce(
    name: Annotated[
        str,
        typer.Argument(help="`list`, `map` (writes docs/paper_map.md), `all`, or a name that `list` shows."),
    ] = "list",
    verb: Annotated[
        str | None,
        typer.Argument(help="run measures what is missing, collect judges, plot draws; default: all three."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="smoke: seconds; cpu: a reduced setting for two cores; hours: our own studies; paper: the full "
            "setting. Default: the smallest one after smoke; collect and plot alone show the most telling one there is."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Where the numbers are kept; default: $BINARYDUO_RESULTS, or experiments/results."),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where trainings are kept, so that they can be resumed.")] = Path(
        "runs/reproduce"
    ),
    root: Annotated[Path | None, typer.Option(help="The folder of ImageNet (or of CIFAR-10).")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no new part of the work after this many minutes.")
    ] = None,
    dry: Annotated[bool, typer.Option("--estimate", help="Only say how long it would take here.")] = False,
) -> None:
    """Run, judge and draw an artefact of the paper again. Interrupted work continues with the same command.

    Networks are trained below --runs, rows are kept in --results, pictures beside them. What needs no training
    is always run in the paper's full size, except with `--profile smoke`. The same command may run several times at
    once, with OMP_NUM_THREADS=1 once per core: each process takes parts that no other has.
    """
    from binaryduo.paper.experiment import PROFILES, Workspace
    from binaryduo.paper.registry import EXPERIMENTS, find
    from binaryduo.paper.results import folder

    if profile is not None and profile not in PROFILES:
        raise ArgumentError(f"unknown profile {profile!r}: choose one of {', '.join(PROFILES)}")
    if verb is not None and verb not in VERBS:
        raise unknown_name("verb", verb, list(VERBS))
    if minutes is not None and not minutes > 0:
        raise ArgumentError(f"--minutes must be more than 0, not {minutes:g}")
    if name == "list":
        _list(results)
        return
    if name == "map":
        _map(results)
        return
    place = Workspace(runs, root)
    verbs = VERBS if verb is None else (verb,)
    for found in _experiments(name):
        if found in EXPERIMENTS:
            whole = "run" not in verbs or _run(found, profile, folder(results), place, minutes, dry)
            measured = find(found).profile(profile) if "run" in verbs else profile  # else the best there is
            if whole and not dry:
                _show(found, verbs, measured, folder(results))
        elif dry:
            typer.echo(f"{found}: how long it takes is not known before it has begun")
        else:
            _records(found, verbs, folder(results) / found, place, minutes)


def _experiments(name: str) -> list[str]:
    """The experiments of an artefact, or one by its own name, with hyphens or underscores."""
    from binaryduo.paper.artefacts import ARTEFACTS, beyond_the_paper, find
    from binaryduo.paper.registry import EXPERIMENTS, RECORDS, as_typed

    if name == "all":
        return list(dict.fromkeys(found for item in ARTEFACTS for found in item.experiments))
    if (own := name.replace("-", "_")) in (*EXPERIMENTS, *RECORDS):
        return [own]
    if name not in (known := [item.key for item in ARTEFACTS]):
        known += [as_typed(own) for own in (*beyond_the_paper(), *RECORDS)]
        raise unknown_name("artefact", name, known)
    item = find(name)
    if item.command is not None:
        small = "" if item.reduced is None else f"; reduced: binaryduo reproduce {as_typed(item.reduced)}"
        raise ArgumentError(f"{item.title} is made by another verb: {item.command}{small}")
    if item.pending is not None:
        raise ArgumentError(f"{item.title} cannot be reproduced: {item.pending}")
    return list(item.experiments)


def _run(
    name: str, profile: str | None, results: Path, place: "Workspace", minutes: float | None, dry: bool
) -> bool:
    """Say how long it will take, then do it; False if something is left to do."""
    from binaryduo.cli.options import run_guarded
    from binaryduo.paper import runner
    from binaryduo.paper.claims import taken
    from binaryduo.paper.registry import find
    from binaryduo.paper.results import missing, path_of

    experiment = find(name)
    if experiment.sources:  # drawn from the rows of others
        return True
    seconds, why = runner.estimate(name, profile, results, place)
    length = "an unknown time" if seconds is None else "about " + duration(sum(seconds))
    typer.echo(f"{name}, {experiment.profile(profile)}: {_to_do(name, profile, results)}, {length} ({why})")
    if dry:
        return True

    expected = [] if seconds is None else seconds
    spent = 0.0

    def after(left: int, took: float) -> None:
        nonlocal spent
        spent += took
        planned = sum(expected[: len(expected) - left])
        rest = sum(expected[len(expected) - left :]) if left else 0.0
        length = f", about {duration(rest * spent / planned)}" if planned and rest else ""
        typer.echo(f"{name}: a part took {duration(took)}; {_parts(left)} left{length}")

    complete: bool = run_guarded(lambda: runner.run(name, profile, results, place, minutes, after))
    if not complete:
        left = missing(name, profile, results)
        others = taken(left, path_of(name, experiment.profile(profile), results))
        busy = f", {others} of them with another process" if others else ""
        typer.echo(
            f"The work is not complete ({_parts(len(left))} left{busy}); the same command continues it."
        )
    return complete


def _to_do(name: str, profile: str | None, results: Path) -> str:
    from binaryduo.paper.results import missing

    return f"{_parts(len(missing(name, profile, results)))} to do"


def _parts(count: int) -> str:
    return f"{count} part{'' if count == 1 else 's'}"


def _show(name: str, verbs: tuple[str, ...], profile: str | None, results: Path) -> None:
    from binaryduo.paper import runner

    if "collect" in verbs:
        for verdict in runner.collect(name, profile, results):
            where = f" [{verdict.setting}]" if verdict.setting else ""
            typer.echo(f"{verdict.verdict.upper()}: {verdict.claim}{where}: {verdict.evidence}")
        if (said := runner.summary(name, profile, results)) is not None:
            typer.echo(said)
    if "plot" in verbs:
        for path in runner.plot(name, profile, results):
            typer.echo(f"picture: {path}")


def _records(
    name: str, verbs: tuple[str, ...], results: Path, place: "Workspace", minutes: float | None
) -> None:
    """The verbs of an experiment that keeps its results in a form of its own."""
    from binaryduo.cli.options import run_guarded
    from binaryduo.paper.registry import find_records

    records = find_records(name)
    run, collect, plot = records.run, records.collect, records.plot
    if "run" in verbs and run is not None and not run_guarded(lambda: run(results, place, minutes)):
        typer.echo("The work is not complete; the same command continues it.")
        return
    if ("collect" in verbs or "plot" in verbs) and collect is not None and not results.is_dir():
        raise ArgumentError(f"{name} has no results in {results} yet: run it first")
    if "collect" in verbs and collect is not None:
        for sentence in collect(results):
            typer.echo(sentence)
    if "plot" in verbs and plot is not None:
        for path in plot(results):
            typer.echo(f"written: {path}")


def _list(results: Path | None) -> None:
    from rich.console import Console

    from binaryduo.cli.tables import new_table
    from binaryduo.paper.artefacts import beyond_the_paper
    from binaryduo.paper.paper_map import lines
    from binaryduo.paper.registry import RECORDS, as_typed, find, find_records
    from binaryduo.paper.results import folder, read_best

    table = new_table("name", "artefact", "profile run", "verdict")
    for line in lines(results):
        verdict = "not run here" if line.verdict == "not run" else line.verdict
        verdict = "not yet" if line.artefact.pending is not None else verdict
        table.add_row(line.artefact.key, line.artefact.title, line.profile, verdict)
    table.add_section()
    for name in beyond_the_paper():
        found = read_best(name, folder(results))
        state = "not run here" if found is None else f"{found.done} of {_parts(found.total)} done"
        profile = "" if found is None else found.profile
        table.add_row(as_typed(name), find(name).title, profile, state)
    for name in RECORDS:
        table.add_row(as_typed(name), find_records(name).title, "", "")
    Console().print(table)


def _map(results: Path | None) -> None:
    from binaryduo._common.files import write_synced
    from binaryduo.paper import paper_map
    from binaryduo.paper.results import documents

    if results is not None and not results.is_dir():
        raise ArgumentError(f"the folder {results} does not exist: nothing was written")
    docs = documents()
    path = docs / "paper_map.md"
    write_synced(path, paper_map.markdown(results, docs).encode())
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
