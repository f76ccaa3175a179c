"""`binaryduo bench mismatch`: the fast CDG against brute force."""

from typing import Annotated

import typer

from binaryduo.cli.network_options import Levels, parse_levels
from binaryduo.cli.outputs import Numbers, write_numbers


def mismatch(
    levels: Levels = "2",
    samples: Annotated[
        int, typer.Option(help="Samples of the toy problem; the paper uses a million.")
    ] = 1_000_000,
    evaluations: Annotated[
        int, typer.Option(min=1, help="Brute-force evaluations to time; the rest is scaled.")
    ] = 8,
    scaling: Annotated[
        list[int] | None, typer.Option(help="Also time the fast CDG at this many samples; may be repeated.")
    ] = None,
    out: Numbers = None,
) -> None:
    """Time the CDG of all layers, fast and by brute force, and print the ratio.

    Brute force is Algorithm 1 in its fastest plain form: float32, whole forward passes in blocks that fit the
    cache, on all cores. Only a few of its evaluations are run; each takes the same time.
    """
    from binaryduo._common.allocator import keep_memory
    from binaryduo.bench.mismatch import compare_with_brute_force, scale
    from binaryduo.cli.progress import progress_bar

    keep_memory()
    count = parse_levels(levels)
    with progress_bar("timing") as progress:
        result = compare_with_brute_force(count, samples, evaluations, progress=progress)
    typer.echo(f"toy problem, levels {levels}, {samples:,} samples, {result['threads']} threads")
    typer.echo(f"fast, all {result['weights']:,} weights      {result['fast_seconds']:10.2f} s")
    typer.echo(
        f"brute force, float32        {result['brute_seconds']:10.0f} s   "
        f"({result['evaluations_needed']:,} evaluations; {result['evaluations_timed']} timed, "
        f"{result['evaluation_seconds']:.3f} s each)"
    )
    typer.echo(f"ratio                       {result['ratio']:10.0f}")
    typer.echo(
        f"ratio of processor seconds  {result['cpu_ratio']:10.0f}     "
        f"({result['fast_cpu_seconds']:.2f} s and {result['brute_cpu_seconds']:.0f} s)"
    )
    if scaling:
        with progress_bar("scaling") as progress:
            result["scaling"] = scale(scaling, count, progress=progress)
        for row in result["scaling"]:
            typer.echo(
                f"{row['samples']:>12,} samples {row['seconds']:8.2f} s, {row['cpu_seconds']:8.2f} processor s, "
                f"{row['cpu_microseconds_per_sample']:.2f} µs each, peak memory {row['peak_mb']:,.0f} MB"
            )
    write_numbers(out, result)
