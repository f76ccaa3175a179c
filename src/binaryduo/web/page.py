"""One HTML file that runs a packed model: engine, model and examples are inside it; nothing is loaded."""

import base64
import html
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryduo._common.images import read_image
from binaryduo.engine.program import CONVOLUTIONS, Program
from binaryduo.engine.runtime import PackedModel, load
from binaryduo.errors import ArgumentError, DataError

HERE = Path(__file__).parent
ASSETS, PACKAGE, DEMO = HERE / "assets", HERE / "npm", HERE / "demo"
DEMO_MODEL = DEMO / "fashion-mnist.duo"
EXAMPLE_SIDE = 320  # pixels that an example keeps: as large as the page draws it


@dataclass(frozen=True)
class Example:
    """A picture to start from: its name and its PNG file."""

    name: str
    png: bytes


def build(
    path: Path,
    classes: Sequence[str] = (),
    examples: Sequence[Example] = (),
    title: str = "",
    compare: str = "",
) -> str:
    """The page's text for a packed model. `classes` are used instead of those in the file; `compare` is a sentence on
    the full-precision network in the file compare.js beside the page (see `comparison`), where there is one.

    >>> build(DEMO_MODEL)[:15]
    '<!doctype html>'
    """
    model = load(path, threads=1)
    _check(path, model, classes)
    meta = model.program.meta
    channels = model.input_shape[0]
    wasm = (PACKAGE / "engine.wasm").read_bytes()
    data = {
        "name": path.name,
        "model": base64.b64encode(path.read_bytes()).decode(),
        "wasm": base64.b64encode(wasm).decode(),
        "classes": list(classes) or [name for name in meta.get("classes", "").split("\n") if name],
        "mean": _numbers(meta.get("mean", ""), channels, 0.0),
        "std": _numbers(meta.get("std", ""), channels, 1.0),
        "floatBytes": float_bytes(model.program),
        "examples": [
            {"name": example.name, "png": base64.b64encode(example.png).decode()} for example in examples
        ],
    }
    parts = {
        "title": html.escape(title or f"{path.stem} in one bit"),
        "style": (ASSETS / "page.css").read_text(),
        "engine_kb": f"{len(wasm) / 1e3:.0f}",
        "data": json.dumps(data).replace("<", "\\u003c"),
        "engine": re.sub(r"^export ", "", (PACKAGE / "index.js").read_text(), flags=re.MULTILINE),
        "script": (ASSETS / "page.js").read_text() + ((ASSETS / "compare.js").read_text() if compare else ""),
        # A page that compares loads the one file beside it.
        "sources": " 'self' blob:" if compare else "",
        "compare": (ASSETS / "compare.html").read_text().replace("{about}", html.escape(compare))
        if compare
        else "",
    }
    # One pass over the template: what is put in is never looked at again.
    return re.sub(
        r"\{(" + "|".join(parts) + r")\}", lambda m: parts[m[1]], (ASSETS / "page.html").read_text()
    )


def _check(path: Path, model: PackedModel, classes: Sequence[str]) -> None:
    channels, height, width = model.input_shape
    if channels not in (1, 3) or height < 2 or width < 2:
        raise ArgumentError(
            f"{path} reads {channels} × {height} × {width} numbers, and the page shows pictures: a model "
            "with one or three channels is needed"
        )
    outputs = model.program.tensors[-1].channels
    if classes and len(classes) != outputs:
        raise ArgumentError(f"{path} has {outputs} classes, and {len(classes)} names were given")


def _numbers(text: str, count: int, default: float) -> list[float]:
    """Numbers of a file's meta data, where it has as many as there are channels.

    >>> _numbers("0.5 0.25", 2, 0.0), _numbers("", 1, 1.0), _numbers("nonsense", 1, 1.0)
    ([0.5, 0.25], [1.0], [1.0])
    """
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        values = []
    return values if len(values) == count and all(abs(v) < 1e6 for v in values) else [default] * count


def float_bytes(program: Program) -> int:
    """What the weights of a program would take in 32 bits each."""
    convolutions = [op for op in program.ops if op.code in CONVOLUTIONS]
    weights = [
        op.kernel[0] * op.kernel[1] * program.tensors[op.input].channels * op.channels for op in convolutions
    ]
    return 4 * sum(weights)


def read_example(path: Path) -> Example:
    """A user's picture, made small enough for a page."""
    image: Any = read_image(path, DataError)
    image.thumbnail((EXAMPLE_SIDE, EXAMPLE_SIDE))
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return Example(path.stem, stream.getvalue())


def demo_examples() -> list[Example]:
    """The ten pictures of clothes that come with the model that is shipped."""
    return [Example(path.stem[2:], path.read_bytes()) for path in sorted(DEMO.glob("*.png"))]
