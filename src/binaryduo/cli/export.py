"""`binaryduo export`: a trained network as an ONNX file for other runtimes."""

from pathlib import Path
from typing import Annotated

import typer

from binaryduo.cli import sources


def export(
    source: sources.SourcePath,
    target: Annotated[Path, typer.Argument(help="The file to write, e.g. net.onnx.")],
    which: sources.Which = "last",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the target.")] = False,
) -> None:
    """Write a network in standard ONNX operators, with a free batch size, for other runtimes.

    Quantized activations become comparisons, so that no threshold is lost; one-bit weights are stored as floats.
    For a small file and one-bit arithmetic on CPUs use `binaryduo pack`.

    Example: `binaryduo export runs/demo-duo net.onnx`
    """
    from binaryduo.packing.onnx import export_onnx
    from binaryduo.training.sources import open_source

    sources.new_file(target, force)
    found = open_source(source, which)
    export_onnx(found.model, found.example(2), target)
    shape = " × ".join(str(size) for size in found.shape)
    print(f"{target}: {target.stat().st_size:,} bytes; input `images`, N × {shape}; output `logits`")
    sources.next_step(f"python -c \"import onnxruntime; print(onnxruntime.InferenceSession('{target}'))\"")
