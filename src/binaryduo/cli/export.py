"""`binaryduo export`: a trained network as an ONNX file for other runtimes."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.cli import sources


def export(
    source: sources.SourcePath,
    target: Annotated[Path, typer.Argument(help="The file to write, e.g. net.onnx.")],
    which: sources.Which = "last",
    qonnx: Annotated[
        bool, typer.Option("--qonnx", help="Write QONNX, for FINN and hls4ml: one image at a time.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the target.")] = False,
) -> None:
    """Write a network in standard ONNX operators, with a free batch size, for other runtimes.

    Quantized activations become comparisons, so that no threshold is lost; one-bit weights are stored as floats.
    For a small file and one-bit arithmetic on CPUs use `binaryduo pack`.

    Example: `binaryduo export runs/demo-duo net.onnx`
    """
    from binaryduo.packing.onnx import export_onnx
    from binaryduo.packing.qonnx import export_qonnx
    from binaryduo.training.sources import open_source

    sources.new_file(target, force)
    found = open_source(source, which)
    (export_qonnx if qonnx else export_onnx)(found.model, found.example(2), target)
    shape = " × ".join(["1" if qonnx else "N", *map(str, found.shape)])
    print(f"{target}: {target.stat().st_size:,} bytes; input `images`, {shape}; output `logits`")
    if qonnx:
        return
    sources.next_step(f"python -c \"import onnxruntime; print(onnxruntime.InferenceSession('{target}'))\"")
