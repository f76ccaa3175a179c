"""Whole networks for `binaryduo bench infer`: ours with binary activations, the peers' in full precision."""

import logging
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from binaryduo.bench.memory_use import Memory, memory_of
from binaryduo.bench.peers import Candidate, need, onnx_call, openvino_call, torch_call


class Networks:
    """One network's files: ours with binary activations, the peers' in full precision; made once."""

    def __init__(self, name: str, batch: int, folder: Path) -> None:
        import torch

        from binaryduo import models
        from binaryduo.packing.pack import pack

        torch.manual_seed(0)
        self.name, self.folder = name, folder
        example = models.example_input(name)
        binary = models.build(name, variant="decoupled", weight_bits=1).eval()
        self.packed = pack(binary, example, folder / f"{name}.duo", verbose=False).path
        self.full = models.build(name, variant="baseline", levels=None, weight_bits=32).eval()
        self.images = torch.randn(batch, *example.shape[1:])
        self._onnx: Path | None = None

    def ours(self, threads: int) -> Candidate:
        from binaryduo.engine.runtime import load

        model, images = load(self.packed, threads), self.images.numpy()
        return Candidate("binaryduo", lambda: model(images))

    def torch(self, threads: int) -> Candidate:
        import torch

        x = self.images.to(memory_format=torch.channels_last)
        full: Any = self.full
        return Candidate("PyTorch fp32", torch_call(full.to(memory_format=torch.channels_last), x, threads))

    def onnx_file(self) -> Path:
        need("onnxruntime")
        if self._onnx is None:
            from binaryduo.packing.onnx import export_onnx

            self._onnx = self.folder / f"{self.name}.onnx"
            export_onnx(self.full, self.images[:1], self._onnx)
        return self._onnx

    def onnx(self, threads: int) -> Candidate:
        return Candidate("ONNX Runtime fp32", onnx_call(str(self.onnx_file()), self.images.numpy(), threads))

    def onnx_int8(self, threads: int) -> Candidate:
        path = self.folder / f"{self.name}-int8.onnx"
        if not path.exists():
            quantize(self.onnx_file(), path, self.images[:4].numpy())
        return Candidate("ONNX Runtime int8", onnx_call(str(path), self.images.numpy(), threads))

    def openvino(self, threads: int) -> Candidate:
        openvino: Any = need("openvino")
        model = openvino.Core().read_model(str(self.onnx_file()))
        model.reshape(list(self.images.shape))
        return Candidate("OpenVINO fp32", openvino_call(model, threads))

    def memory(self) -> dict[str, Memory]:
        """What each engine needs to hold and run the network with one thread; an absent one is left out."""
        shape = tuple(self.images.shape)
        found = {"binaryduo": memory_of("binaryduo", self.packed, shape)}
        found["PyTorch fp32"] = memory_of("torch", Path(self.name), shape)
        int8 = self.folder / f"{self.name}-int8.onnx"
        for name, engine, file in (
            ("ONNX Runtime fp32", "onnxruntime", self._onnx),
            ("ONNX Runtime int8", "onnxruntime", int8 if int8.exists() else None),
            ("OpenVINO fp32", "openvino", self._onnx),
        ):
            if file is not None and find_spec(engine) is not None:
                found[name] = memory_of(engine, file, shape)
        return found

    def makers(self) -> dict[str, Callable[[int], Candidate]]:
        return {
            "binaryduo": self.ours,
            "PyTorch fp32": self.torch,
            "ONNX Runtime fp32": self.onnx,
            "ONNX Runtime int8": self.onnx_int8,
            "OpenVINO fp32": self.openvino,
        }


def quantize(source: Path, target: Path, images: Any) -> None:
    """ONNX Runtime's own static quantization: unsigned activations, signed weights a channel."""
    quantization: Any = need("onnxruntime.quantization")
    onnxruntime: Any = need("onnxruntime")
    name = onnxruntime.InferenceSession(str(source)).get_inputs()[0].name

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [images[i : i + 1] for i in range(len(images))]

        def get_next(self) -> dict[str, Any] | None:
            return {name: self.left.pop()} if self.left else None

    logging.disable(logging.WARNING)  # it warns of every BN that it leaves in floats
    try:
        _quantize_static(quantization, source, target, Reader())
    finally:
        logging.disable(logging.NOTSET)


def _quantize_static(quantization: Any, source: Path, target: Path, reader: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.onnx"
        quantization.quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(ready), str(target), reader, quant_format=quantization.QuantFormat.QDQ, per_channel=True,
            activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
            reduce_range=True,
        )  # fmt: skip
