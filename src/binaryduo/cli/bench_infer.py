"""`binaryduo bench infer`: the packed engine beside other engines, measured in one run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from binaryduo.engine.benchmark import Measured


def infer(
    threads: Annotated[str, typer.Option(help="Numbers of threads, separated by commas.")] = "1,2",
    networks: Annotated[
        str,
        typer.Option(help="Networks with their batch sizes; `none` for the single layers only."),
    ] = "resnet18:1,alexnet:1,vgg7:1,vgg7:256",
    layers: Annotated[bool, typer.Option(help="Also single 3×3 binary convolutions.")] = True,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each engine; its best one counts.")] = 12,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the numbers here, as JSON.")] = None,
) -> None:
    """Time the packed engine against PyTorch, ONNX Runtime and OpenVINO: all in one run, in turns.

    Binary layers are compared with the peers' layers of the same size, our decoupled binary networks with the
    full-precision ones they replace. Peers come with `pip install 'binaryduo[peers]'`; what is not there is
    named.
    """
    import json
    import tempfile

    from binaryduo.engine import benchmark
    from binaryduo.engine.peer_networks import Networks
    from binaryduo.engine.peers import LAYER_MAKERS
    from binaryduo.errors import ArgumentError

    try:
        counts = [int(t) for t in threads.split(",")]
        wanted = (
            []
            if networks == "none"
            else [(n, int(b)) for n, b in (x.split(":") for x in networks.split(","))]
        )
    except ValueError:
        raise ArgumentError("give --threads as 1,2 and --networks as resnet18:1,vgg7:256") from None
    results: list[Measured] = []

    def measure(title: str, makers: dict[str, object], count: int, products: float = 0) -> None:
        measured = benchmark.compare(title, makers, count, rounds)  # type: ignore[arg-type]
        measured.products = products
        results.append(measured)
        _show(measured)

    for count in counts:
        for channels, size in benchmark.SHAPES if layers else ():
            makers: dict[str, object] = {
                name: (lambda make=make, c=channels, s=size, t=count: make(c, s, t))
                for name, make in LAYER_MAKERS.items()
            }
            products = 9.0 * channels * channels * size * size
            measure(f"3×3 convolution, {channels} channels, {size}×{size}", makers, count, products)
    with tempfile.TemporaryDirectory() as folder:
        for name, batch in wanted:
            files = Networks(name, batch, Path(folder))
            for count in counts:
                makers = {key: (lambda m=make, t=count: m(t)) for key, make in files.makers().items()}
                measure(f"{name}, batch {batch}", makers, count)
    print(f"peak memory of this process, all engines loaded: {benchmark.peak_memory() / 2**20:,.0f} MiB")
    if out is not None:
        out.write_text(json.dumps([m.as_dict() for m in results], indent=1, ensure_ascii=False) + "\n")


def _show(measured: "Measured") -> None:
    from rich.console import Console
    from rich.table import Table

    plural = "s" if measured.threads > 1 else ""
    table = Table(title=f"{measured.title}, {measured.threads} thread{plural}", title_justify="left")
    table.add_column("engine")
    for title in ("time", "× ours", *(["GMAC/s"] if measured.products else [])):
        table.add_column(title, justify="right")
    for name, seconds in sorted(measured.seconds.items(), key=lambda item: item[1]):
        time = f"{1e3 * seconds:.3f} ms"
        speed = [f"{measured.products / seconds / 1e9:.0f}"] if measured.products and seconds else []
        table.add_row(name, time, f"{measured.ratio(name):.2f}", *speed)
    for name in measured.absent:
        table.add_row(name, "not run", "", *([""] if measured.products else []))
    console = Console()
    console.print(table)
    for name, why in measured.absent.items():
        console.print(f"{name}: {why}", highlight=False)
