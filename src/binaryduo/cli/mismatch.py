"""`binaryduo mismatch`: how far is what back-propagation says from the truth?"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binaryduo._common.allocator import keep_memory
from binaryduo.cli import mismatch_network
from binaryduo.cli.network_options import parse_levels
from binaryduo.cli.outputs import NeededPicture, Numbers, Picture, write_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = typer.Typer(
    help="Gradient mismatch: on the paper's toy problem, and on real networks (`network`).",
    no_args_is_help=True,
)


@app.callback()
def _before_any_command() -> None:
    keep_memory()


app.command("network")(mismatch_network.network)

Samples = Annotated[int, typer.Option(help="Samples of the toy problem; the paper uses a million.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds; each has its own data and weights.")]
Init = Annotated[list[str], typer.Option(help="he, torch or normal; may be repeated.")]
Steps = Annotated[list[float], typer.Option(help="Step sizes ε (σ for ESG); may be repeated.")]
Pairs = Annotated[int, typer.Option(help="Antithetic pairs of the evolution-strategy gradient.")]
Width = Annotated[int, typer.Option(help="Units in each hidden layer.")]
Layers = Annotated[int, typer.Option(help="Hidden layers.")]
DECADES = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]
BINARY, RELU1, PAPER_STEP, HE = ["2"], ["relu1"], [1e-3], ["he"]


@app.command("toy")
def toy(
    levels: Annotated[
        list[str], typer.Option(help="2, 3, 4, … or none for full precision; repeatable.")
    ] = BINARY,
    ste: Annotated[list[str], typer.Option(help="STEs to compare; may be repeated.")] = RELU1,
    step: Steps = PAPER_STEP,
    estimator: Annotated[str, typer.Option(help="cdg or esg.")] = "cdg",
    samples: Samples = 1_000_000,
    seeds: Seeds = 1,
    init: Init = HE,
    width: Width = 32,
    hidden_layers: Layers = 3,
    pairs: Pairs = 1024,
    out: Numbers = None,
) -> None:
    """The cosine between coarse gradient and CDG (or ESG) for any precision, STE and step (Algorithm 1)."""
    from binaryduo.mismatch import Case

    cases = [Case(parse_levels(text), name) for text in levels for name in ste]
    _sweep(cases, step, seeds, init, estimator, samples, width, hidden_layers, pairs, out)


@app.command("figure3")
def figure3(
    samples: Samples = 1_000_000,
    seeds: Seeds = 1,
    init: Init = HE,
    width: Width = 32,
    hidden_layers: Layers = 3,
    out: Numbers = None,
    plot: Picture = None,
) -> None:
    """Figure 3: six precisions, and a binary network with every STE."""
    from binaryduo.mismatch import FIGURE_CASES, plots

    rows = _sweep(FIGURE_CASES, [1e-3], seeds, init, "cdg", samples, width, hidden_layers, 1024, out)
    _save(plot, lambda: plots.bars(rows))


@app.command("steps")
def steps(
    step: Steps = DECADES,
    samples: Samples = 1_000_000,
    seeds: Seeds = 1,
    init: Init = HE,
    width: Width = 32,
    hidden_layers: Layers = 3,
    out: Numbers = None,
    plot: Picture = None,
) -> None:
    """Appendix C: how the cosines depend on CDG's step ε."""
    from binaryduo.mismatch import FIGURE_CASES, plots

    rows = _sweep(FIGURE_CASES, step, seeds, init, "cdg", samples, width, hidden_layers, 1024, out)
    _save(plot, lambda: plots.panels(rows, "ε"))


@app.command("sigmas")
def sigmas(
    step: Steps = DECADES,
    samples: Samples = 100_000,
    seeds: Seeds = 1,
    init: Init = HE,
    width: Width = 32,
    hidden_layers: Layers = 3,
    pairs: Pairs = 1024,
    out: Numbers = None,
    plot: Picture = None,
) -> None:
    """Appendix H: the same with the evolution-strategy gradient, over σ."""
    from binaryduo.mismatch import FIGURE_CASES, plots

    rows = _sweep(FIGURE_CASES, step, seeds, init, "esg", samples, width, hidden_layers, pairs, out)
    _save(plot, lambda: plots.panels(rows, "σ"))


@app.command("curves")
def curves(
    plot: NeededPicture,
    few: Annotated[int, typer.Option(help="The small number of samples.")] = 1_000,
    many: Annotated[int, typer.Option(help="The large number of samples.")] = 1_000_000,
    levels: Annotated[str, typer.Option(help="2, 3, 4, … or none for full precision.")] = "2",
    layer: Annotated[str, typer.Option(help="The hidden layer whose first weight is moved.")] = "fc2",
    seed: Annotated[int, typer.Option(help="Seed of data and weights.")] = 0,
    out: Numbers = None,
) -> None:
    """Appendix C's loss curves: along one weight, for few and many samples, large and small steps."""
    from binaryduo.cli.progress import progress_bar
    from binaryduo.mismatch import loss_panels, plots

    with progress_bar("loss curves") as progress:
        items = loss_panels(few, many, parse_levels(levels), layer, seed=seed, progress=progress)
    write_numbers(out, items)
    _save(plot, lambda: plots.curves(items))


@app.command("surface")
def surface(
    plot: NeededPicture,
    samples: Samples = 2_000,
    levels: Annotated[str, typer.Option(help="2, 3, 4, … or none for full precision.")] = "2",
    seed: Annotated[int, typer.Option(help="Seed of data and weights.")] = 0,
    out: Numbers = None,
) -> None:
    """Appendix B's picture: the loss over two weights, its true gradient and its CDG."""
    from binaryduo.cli.progress import progress_bar
    from binaryduo.mismatch import plots, surface_panel

    with progress_bar("loss surface") as progress:
        item = surface_panel(samples, parse_levels(levels), seed=seed, progress=progress)
    write_numbers(out, item)
    _save(plot, lambda: plots.surface(**item))


def _sweep(
    cases: Any,
    steps: list[float],
    seeds: int,
    inits: list[str],
    estimator: str,
    samples: int,
    width: int,
    hidden_layers: int,
    pairs: int,
    out: Path | None,
) -> list[dict[str, Any]]:
    """Run, print a table of means over seeds, and keep the rows if they are wanted."""
    from rich.console import Console
    from rich.table import Table

    from binaryduo.cli.progress import progress_bar
    from binaryduo.mismatch import plots, select, sweep

    with progress_bar(f"{estimator.upper()}, {samples:,} samples") as progress:
        rows = sweep(
            cases,
            steps,
            range(seeds),
            inits,
            estimator,
            samples,
            width,
            hidden_layers,
            pairs,
            progress=progress,
        )
    names = list(rows[0]["cosine"])
    table = Table(box=None, pad_edge=False)
    for name in ("init", "activation", "STE", "ε" if estimator == "cdg" else "σ", *names, "seconds"):
        table.add_column(name, no_wrap=True)
    for init in inits:
        for case in cases:
            for step in steps:
                some = select(rows, init=init, levels=case.levels, ste=case.ste, step=step)
                means = [plots.spread_of(some, name) for name in names]
                cells = [f"{m:.3f}" + (f" ± {s:.3f}" if seeds > 1 else "") for m, s in means]
                seconds = sum(row["seconds"] for row in some) / len(some)
                table.add_row(init, case.label, case.ste, f"{step:g}", *cells, f"{seconds:.1f}")
    # A file or a pipe has no width: do not squeeze the table into 80 columns there.
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    write_numbers(out, rows)
    return rows


def _save(path: Path | None, draw: "Any") -> None:
    if path is not None:
        figure: Figure = draw()
        figure.savefig(str(path), dpi=150)
        typer.echo(f"picture: {path}")
