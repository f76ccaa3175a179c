"""What `binaryduo web --compare` puts beside the page: ONNX Runtime Web, and a network in fp32 and int8."""

import base64
import json
import tempfile
from pathlib import Path

from binaryduo._common.hostile import read_bytes
from binaryduo.engine.runtime import load
from binaryduo.errors import ArgumentError
from binaryduo.web.beside import ORT_BUNDLE, ort_folder

LARGEST = 512 << 20  # bytes of an ONNX file that a page could still hold


def comparison(package: Path, model: Path, full_precision: Path | None) -> str:
    """The text of compare.js: everything that the page needs to time ONNX Runtime Web, as base64.

    `package` is the unpacked npm package onnxruntime-web. `full_precision` is an ONNX file with the input of `model`;
    None makes the one of the model that is shipped: VGG-7 at half width, with weights as they are drawn, since only its
    time and size are shown.
    """
    ort = ort_folder(package, ORT_BUNDLE)
    shape = load(model, threads=1).input_shape
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = _shipped(folder) if full_precision is None else full_precision
        content = read_bytes(source, "the full-precision network", ArgumentError, LARGEST)
        small = _int8(source, folder / "int8.onnx", shape)
    networks = [
        {"name": "ONNX Runtime Web, fp32", "onnx": base64.b64encode(content).decode()},
        {"name": "ONNX Runtime Web, int8", "onnx": base64.b64encode(small).decode()},
    ]
    data = {
        "ort": base64.b64encode((ort / ORT_BUNDLE[0]).read_bytes()).decode(),
        "wasm": base64.b64encode((ort / ORT_BUNDLE[1]).read_bytes()).decode(),
        "networks": networks,
        "shape": list(shape),
    }
    return f"globalThis.compared = {json.dumps(data)};\n"


def _shipped(folder: Path) -> Path:
    import torch

    from binaryduo import models
    from binaryduo.packing.onnx import export_onnx

    torch.manual_seed(0)
    full = models.build(
        "vgg7", levels=None, weight_bits=32, width=0.5, in_channels=1, image_size=28, num_classes=10
    )
    export_onnx(full.eval(), torch.randn(1, 1, 28, 28), folder / "fp32.onnx")
    return folder / "fp32.onnx"


def _int8(source: Path, target: Path, shape: tuple[int, int, int]) -> bytes:
    """ONNX Runtime's own static quantization, calibrated with four random pictures: its accuracy is not shown."""
    import numpy as np

    from binaryduo.bench.peer_networks import quantize

    images = np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32)
    try:
        quantize(source, target, images)
    except ArgumentError:
        raise
    except Exception as error:  # onnx and onnxruntime raise a dozen classes of their own
        reason = str(error).strip().split("\n")[0][:200]
        raise ArgumentError(
            f"{source} is not an ONNX network for one picture of {' × '.join(map(str, shape))} numbers: {reason}"
        ) from None
    return target.read_bytes()
