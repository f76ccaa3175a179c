"""`binaryduo run`: images in, labels and probabilities out; needs no PyTorch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from binaryduo.engine.runtime import PackedModel


def run(
    path: Annotated[Path, typer.Argument(help="A packed model (.duo).")],
    inputs: Annotated[
        list[Path],
        typer.Argument(
            help="Images, or .npy arrays of what the model takes, N × C × H × W: normalised floats, or uint8 pixels."
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many classes to show for each image.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: all cores.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images that are run at once.")] = 64,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each image instead.")
    ] = False,
) -> None:
    """Classify images with a packed model.

    Image files are resized to the model's input and normalised as in training, where the file says how
    (`binaryduo pack` of a run's folder writes that down); else their values go from 0 to 1.

    Example: `binaryduo run net.duo cat.png dog.png --top 3`
    """
    import json as encoder

    import numpy as np

    from binaryduo._common.text import printable
    from binaryduo.engine.runtime import load
    from binaryduo.errors import ArgumentError

    model = load(path, threads)
    outputs = model.program.outputs
    if len(outputs) > 1:
        raise ArgumentError(
            f"{path} gives {len(outputs)} outputs and not one answer per image: use bd.load in Python"
        )
    if model.program.tensors[outputs[0]].shape[1:] != (1, 1):
        raise ArgumentError(f"{path} gives an image and not one answer per image: use bd.load in Python")
    classes = [printable(name) for name in model.program.meta.get("classes", "").split("\n") if name]
    pictures = any(source.suffix != ".npy" for source in inputs)
    if pictures and model.input_type != "uint8" and "mean" not in model.program.meta:
        typer.echo(
            f"{path} does not say how images are normalised: their values go from 0 to 1, which is right only for a "
            "network that was trained so",
            err=True,
        )
    for source in inputs:
        images = _read(source, model)
        for first in range(0, len(images), batch):
            logits = model(images[first : first + batch])
            powers = np.exp(logits - logits.max(1, keepdims=True))
            probabilities = powers / powers.sum(1, keepdims=True)
            for i, row in enumerate(probabilities):
                file = printable(source.name)
                name = file if len(images) == 1 else f"{file}[{first + i}]"
                best = [int(c) for c in np.argsort(-row)[:top]]
                labels = [classes[c] if c < len(classes) else str(c) for c in best]
                if json:
                    found = [
                        {"class": c, "label": label, "probability": round(float(row[c]), 6)}
                        for c, label in zip(best, labels, strict=True)
                    ]
                    print(encoder.dumps({"input": name, "top": found}))
                else:
                    print(
                        f"{name}: "
                        + ", ".join(f"{label} {row[c]:.1%}" for c, label in zip(best, labels, strict=True))
                    )


def _read(path: Path, model: "PackedModel") -> Any:
    """The images of a file, (N, C, H, W) and normalised."""
    import numpy as np

    from binaryduo._common.images import read_array, read_image
    from binaryduo.errors import DataError

    c, h, w = model.input_shape
    if path.suffix == ".npy":
        array = read_array(path, DataError)
        images = array[None] if array.ndim == 3 else array
        if images.ndim == 2 and (h, w) == (1, 1):
            images = images[:, :, None, None]
        if images.ndim != 4 or images.shape[1:] != (c, h, w):
            raise DataError(f"{path} has the shape {array.shape}, and the model takes N × {c} × {h} × {w}")
        return images
    from PIL import Image

    image = read_image(path, DataError, {1: "L", 3: "RGB"}.get(c, "RGB"))
    pixels = np.asarray(image.resize((w, h), Image.Resampling.BILINEAR)).reshape(h, w, -1)
    if pixels.shape[-1] != c:
        raise DataError(f"{path} is an image, and the model takes {c} channels: give it an .npy array")
    if model.input_type == "uint8":  # normalised by the model itself
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]
    values = pixels.astype(np.float32) / 255
    for name, step in (("mean", np.subtract), ("std", np.divide)):
        if name in model.program.meta:
            values = step(values, _constants(model, name, c))
    return np.ascontiguousarray(values.transpose(2, 0, 1))[None]


def _constants(model: "PackedModel", name: str, channels: int) -> Any:
    """The mean or the deviation of each channel, as the packed file gives them in its text."""
    import numpy as np

    from binaryduo.errors import PackedFormatError

    text = model.program.meta[name]
    try:
        values = np.array([float(part) for part in text.split()], np.float32)
    except (ValueError, OverflowError):
        values = np.full(1, np.nan, np.float32)
    usable = values.size in (1, channels) and np.isfinite(values).all() and (name == "mean" or values.all())
    if not usable:
        raise PackedFormatError(
            f"the packed model's {name} is {text[:60]!r}: it takes {channels} numbers, one for each channel"
        )
    return values
