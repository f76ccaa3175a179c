"""`binaryduo web`: a page that shows a packed model at work in any browser."""

from pathlib import Path
from typing import Annotated

import typer


def web(
    path: Annotated[
        Path | None,
        typer.Argument(help="A packed model (.duo); left out, one that tells ten kinds of clothes apart."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write index.html into.")] = Path("web"),
    classes: Annotated[
        str | None,
        typer.Option(help="Names of the classes, separated by commas, or a text file with one per line."),
    ] = None,
    example: Annotated[
        list[Path] | None, typer.Option(help="A picture to start from; may be given several times.")
    ] = None,
    title: Annotated[str, typer.Option(help="The page's title.")] = "",
    compare: Annotated[
        Path | None,
        typer.Option(
            help="Time ONNX Runtime Web in the page too: its unpacked npm package. Adds a file of 20 MB."
        ),
    ] = None,
    full_precision: Annotated[
        Path | None,
        typer.Option(help="With --compare: your network in full precision, an ONNX file for one picture."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the page.")] = False,
) -> None:
    """Write a page that runs a packed model: draw or drop a picture, see the answer and every bit inside.

    It is one file that holds the engine (WebAssembly) and the model: open it, mail it, or put it on any server. It
    loads nothing and sends nothing. Names of classes and the normalisation come from the file where
    `binaryduo pack` wrote them there.

    Example: `binaryduo web net.duo --out page --classes cat,dog --example cat.png`
    """
    from binaryduo._common.files import write_synced
    from binaryduo.cli.outputs import writable
    from binaryduo.cli.sources import new_file
    from binaryduo.web import page

    if out.exists() and not out.is_dir():
        from binaryduo.errors import ArgumentError

        raise ArgumentError(f"{out} is a file: give the name of a folder")
    target = out / "index.html"
    writable(target)
    new_file(target, force)
    examples = [page.read_example(picture) for picture in example or []]
    if path is None:
        examples, title = examples or page.demo_examples(), title or "Ten kinds of clothes, in one bit"
    model = page.DEMO_MODEL if path is None else path
    about = _about(path, compare, full_precision)
    text = page.build(model, _names(classes), examples, title, about)
    if compare is not None:
        from binaryduo.web.compare import comparison

        beside = out / "compare.js"
        new_file(beside, force)
        write_synced(beside, comparison(compare, model, full_precision).encode())
        typer.echo(f"{beside}: {beside.stat().st_size / 1e6:.2f} MB, ONNX Runtime Web and its networks")
    write_synced(target, text.encode())
    typer.echo(f"{target}: {target.stat().st_size / 1e6:.2f} MB; open it in a browser")


def _about(path: Path | None, compare: Path | None, full_precision: Path | None) -> str:
    """What the page says of the network that ONNX Runtime Web runs; empty where it runs none."""
    from binaryduo.errors import ArgumentError

    if compare is None:
        if full_precision is not None:
            raise ArgumentError(
                "--full-precision is the network for --compare: give --compare node_modules/onnxruntime-web too"
            )
        return ""
    if full_precision is not None:
        return f"{full_precision.name} is the network in full precision."
    if path is not None:
        raise ArgumentError(
            "which network does ONNX Runtime Web run? Name yours in full precision: --full-precision NET.onnx"
        )
    return "The same network in full precision, not trained: its time and size are compared, not its answers."


def _names(classes: str | None) -> list[str]:
    """The names in a list or in a file.

    >>> _names("cat, dog")
    ['cat', 'dog']
    """
    from binaryduo._common.hostile import MEGABYTE, read_bytes
    from binaryduo.errors import ArgumentError

    if not classes:
        return []
    if not Path(classes).is_file():
        return [name.strip() for name in classes.split(",")]
    text = read_bytes(Path(classes), "the list of classes", ArgumentError, MEGABYTE).decode(errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]
