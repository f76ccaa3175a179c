"""`binaryduo bench infer`: the packed engine beside other engines, measured in one run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binaryduo.cli.outputs import Numbers, write_numbers

if TYPE_CHECKING:
    from binaryduo.bench.inference import Measured


def infer(
    threads: Annotated[str, typer.Option(help="Numbers of threads, separated by commas.")] = "1,2",
    networks: Annotated[
        str,
        typer.Option(help="Networks with their batch sizes; `none` for the single layers only."),
    ] = "resnet18:1, alexnet:1, vgg7:1, vgg7:256",
    layers: Annotated[bool, typer.Option(help="Also measure single 3×3 binary convolutions.")] = True,
    growth: Annotated[
        bool, typer.Option(help="Also measure how the cost grows with channels and batch.")
    ] = True,
    memory: Annotated[
        bool, typer.Option(help="Also measure each engine's memory, each in a process of its own.")
    ] = True,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each engine is timed; its best time counts.")
    ] = 12,
    out: Numbers = None,
) -> None:
    """Time the packed engine against PyTorch, ONNX Runtime and OpenVINO: all in one run, in turns.

    Binary layers are compared with the peers' layers of the same size, our decoupled binary networks with the
    full-precision ones they replace. Peers come with `pip install 'binaryduo[peers]'`; missing packages are
    listed.
    """
    import tempfile

    from binaryduo.bench import inference
    from binaryduo.bench.peer_networks import Networks
    from binaryduo.bench.peers import LAYER_MAKERS
    from binaryduo.engine import _native
    from binaryduo.errors import ArgumentError

    try:
        counts = [int(t) for t in threads.split(",")]
        wanted = (
            []
            if networks == "none"
            else [(n.strip(), int(b)) for n, b in (x.split(":") for x in networks.split(","))]
        )
    except ValueError:
        raise ArgumentError("give --threads as 1,2 and --networks as resnet18:1,vgg7:256") from None
    results: list[Measured] = []
    files: Networks | None = None
    clocks: list[float] = []

    def measure(title: str, makers: dict[str, object], count: int, products: float = 0) -> None:
        measured = inference.compare(title, makers, count, rounds)  # type: ignore[arg-type]
        measured.products = products
        clocks.append(_native.cycles_per_second())  # another program may have slowed one look at it
        measured.hertz = max(clocks) if products else 0.0
        measured.memory = files.memory() if files is not None and memory and count == counts[0] else {}
        results.append(measured)
        _show(measured)

    for count in counts:
        for channels, size in inference.SHAPES if layers else ():
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
    rows = [
        row | {"threads": count} for count in counts for row in (inference.growth(count) if growth else [])
    ]
    _show_growth(rows)
    write_numbers(out, {"rows": [m.as_dict() for m in results], "growth": rows})


def _show(measured: "Measured") -> None:
    from rich.console import Console
    from rich.table import Table

    from binaryduo.bench.inference import BOUNDS
    from binaryduo.engine import _native

    plural = "s" if measured.threads > 1 else ""
    table = Table(title=f"{measured.title}, {measured.threads} thread{plural}", title_justify="left")
    table.add_column("engine")
    more = ["GMAC/s", "MAC/cycle"] if measured.products else ["memory"] if measured.memory else []
    for title in ("time", "× ours", *more):
        table.add_column(title, justify="right")
    for name, seconds in sorted(measured.seconds.items(), key=lambda item: item[1]):
        time = f"{1e3 * seconds:.3f} ms"
        rate = measured.products / seconds
        cells = [f"{rate / 1e9:.0f}", f"{rate / measured.hertz:.0f}"] if measured.products else []
        if measured.memory:
            held = measured.memory.get(name)
            cells = [f"{held.network / 1e6:.0f} MB" if held else ""]
        table.add_row(name, time, f"{measured.ratio(name):.2f}", *cells)
    for name in measured.absent:
        table.add_row(name, "not run", "", *([""] * len(more)))
    console = Console()
    console.print(table)
    for name, why in measured.absent.items():
        console.print(f"{name}: {why}", highlight=False, markup=False, soft_wrap=True)
    isa = _native.available().split()[0]
    if measured.products and isa in BOUNDS:
        console.print(
            f"the bound of the {isa} kernel: {BOUNDS[isa]:.0f} MAC/cycle per thread at "
            f"{measured.hertz / 1e9:.2f} GHz, the measured clock",
            highlight=False,
        )


def _show_growth(rows: list[dict[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table

    for what in dict.fromkeys(row["what"] for row in rows):
        table = Table(title=f"How cost grows with the {what}", title_justify="left")
        unit = "ms per image" if "batch" in str(what) else "ns per million MAC"
        for title in ("threads", "size", "time", unit):
            table.add_column(title, justify="right")
        for row in (r for r in rows if r["what"] == what):
            time = f"{1e3 * float(str(row['seconds'])):.3f} ms"
            table.add_row(str(row["threads"]), str(row["size"]), time, f"{float(str(row['unit'])):.3f}")
        Console().print(table)
