"""The other engines that `binaryduo bench infer` measures beside ours, each behind the same small face.

A `Candidate` is something to be timed. A maker returns one, or raises `Absent` with the reason, which is
printed: a peer that is not installed is named, never left out silently. Nothing is imported until asked for.
"""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], object]


class Absent(Exception):
    """A peer that cannot run here, and why."""


@dataclass
class Candidate:
    """One thing to time. `seconds` reads a time that the engine measured itself, else the call is timed."""

    name: str
    call: Call
    seconds: Callable[[], float] | None = None
    repeats: int = 1  # layers in a chain: the time is divided by this
    base: "Candidate | None" = None  # its time is taken off first: the same chain with one layer


# --- one convolution, 3 × 3, C -> C channels on S × S pixels ----------------------------------------------


def ours_layer(channels: int, size: int, threads: int) -> Candidate:
    """A chain of binary convolutions, bits in and bits out, less the same chain with one of them."""
    long, short = (_our_chain(channels, size, n, threads) for n in (9, 1))
    return Candidate("binaryduo", long, repeats=8, base=Candidate("", short))


def _our_chain(channels: int, size: int, layers: int, threads: int) -> Call:
    from binaryduo.engine import format as duo
    from binaryduo.engine.blocks import binary_weights
    from binaryduo.engine.program import Code, Flag, Kind, Op, Program, Tensor
    from binaryduo.engine.runtime import PackedModel

    rng = np.random.default_rng(0)
    shape = (channels, size, size)
    program = Program([Tensor("images", Kind.FLOAT, *shape), Tensor("bits", Kind.BITS, *shape)])
    first = np.zeros(channels, np.float32)
    program.ops.append(Op("act", Code.POINTWISE, 0, out_bits=1, channels=channels, threshold=first))
    for i in range(layers):
        program.tensors.append(Tensor(f"act{i}", Kind.BITS, *shape))
        weights = binary_weights(rng.normal(size=(channels, channels, 3, 3)))
        thresholds = rng.integers(-40, 40, channels).astype(np.int32)
        op = Op(f"conv{i}", Code.BINARY_CONV, i + 1, out_bits=i + 2, kernel=(3, 3), padding=(1, 1))
        op.channels, op.flags, op.weights, op.threshold = (
            channels,
            Flag.INTEGER_THRESHOLD,
            weights,
            thresholds,
        )
        program.ops.append(op)
    program.tensors.append(Tensor("output", Kind.FLOAT, channels, 1, 1))
    # A tiny last operation: an output is float by definition.
    head = np.zeros(size * size * channels, np.float32)
    last = Op("output", Code.FLOAT_CONV, layers + 1, out_float=layers + 2, kernel=(size, size), channels=1)
    last.weights = head
    program.tensors[-1].channels = 1
    program.ops.append(last)
    content = np.frombuffer(duo.to_bytes(program), np.uint8)
    model = PackedModel(duo.Sections(content, "bench"), threads)
    images = rng.normal(size=(1, *shape)).astype(np.float32)
    return lambda: model(images)


def torch_layer(channels: int, size: int, threads: int) -> Candidate:
    """PyTorch's float convolution, channels last."""
    import torch

    conv = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False).to(memory_format=torch.channels_last)
    x = torch.randn(1, channels, size, size).to(memory_format=torch.channels_last)
    return Candidate("PyTorch fp32", _torch_call(conv.eval(), x, threads))


def torch_int8_layer(channels: int, size: int, threads: int) -> Candidate:
    """PyTorch's int8 convolution (fbgemm), int8 in and out."""
    import torch

    try:
        from torch.ao.nn import quantized

        torch.backends.quantized.engine = "fbgemm"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch announces that it will drop them
            conv = quantized.Conv2d(channels, channels, 3, padding=1, bias=False)
            x = torch.randn(1, channels, size, size).contiguous(memory_format=torch.channels_last)
            q = torch.quantize_per_tensor(x, 0.05, 64, torch.quint8)
            conv(q)
    except (ImportError, RuntimeError, AttributeError) as error:
        raise Absent(f"not in this build ({error})") from error
    return Candidate("PyTorch int8", _torch_call(conv, q, threads))


def _torch_call(module: Any, x: Any, threads: int) -> Call:
    import torch

    def call() -> object:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        with torch.inference_mode():
            return module(x)

    return call


def onnx_layer(channels: int, size: int, threads: int, int8: bool) -> Candidate:
    """ONNX Runtime's Conv, or its QLinearConv with unsigned activations and signed weights."""
    onnx: Any = _need("onnx")
    _need("onnxruntime")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    rng = np.random.default_rng(0)
    shape = [1, channels, size, size]
    kernel = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    dtype = onnx.TensorProto.UINT8 if int8 else onnx.TensorProto.FLOAT
    weights = rng.normal(size=(channels, channels, 3, 3))
    if int8:
        values = {
            "xs": np.float32(0.05), "xz": np.uint8(64), "w": (weights * 30).clip(-127, 127).astype(np.int8),
            "ws": np.float32(0.01), "wz": np.int8(0), "ys": np.float32(0.5), "yz": np.uint8(128),
        }  # fmt: skip
        node = helper.make_node(
            "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], **kernel
        )
        x = rng.integers(0, 255, shape).astype(np.uint8)
    else:
        values = {"w": weights.astype(np.float32)}
        node = helper.make_node("Conv", ["x", "w"], ["y"], **kernel)
        x = rng.normal(size=shape).astype(np.float32)
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()]
    ends = [helper.make_tensor_value_info(name, dtype, shape) for name in "xy"]
    graph = helper.make_graph([node], "layer", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    name = "ONNX Runtime int8" if int8 else "ONNX Runtime fp32"
    return Candidate(name, _onnx_call(model.SerializeToString(), x, threads))


def _onnx_call(model: "bytes | str", x: Any, threads: int) -> Call:
    runtime: Any = _need("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feed)


def openvino_binary_layer(channels: int, size: int, threads: int) -> Candidate:
    """OpenVINO's BinaryConvolution, by its own clock: the node alone, bits in, without its thresholds."""
    openvino: Any = _need("openvino")
    ops: Any = _need("openvino.opset8")
    rng = np.random.default_rng(0)
    x = ops.parameter([1, channels, size, size], np.float32)
    low = ops.constant(rng.normal(size=(1, channels, 1, 1)).astype(np.float32))
    ends = [ops.constant(np.full((1, 1, 1, 1), v, np.float32)) for v in (0, 1)]
    bits = rng.integers(0, 256, channels * channels * 9 // 8).astype(np.uint8)
    kernel = openvino.Tensor(bits, openvino.Shape([channels, channels, 3, 3]), openvino.Type.u1)
    out = ops.binary_convolution(
        ops.fake_quantize(x, low, low, *ends, 2), openvino.op.Constant(kernel), [1, 1], [1, 1], [1, 1], [1, 1],
        "xnor-popcount", 0.0, "explicit",
    )  # fmt: skip
    settings = _openvino_settings(threads) | {"PERF_COUNT": True}
    compiled = openvino.Core().compile_model(openvino.Model([out], [x], "layer"), "CPU", settings)
    request = compiled.create_infer_request()
    image = rng.normal(size=(1, channels, size, size)).astype(np.float32)

    def seconds() -> float:
        request.infer([image])
        nodes = [p for p in request.profiling_info if p.node_type == "BinaryConvolution"]
        return float(sum(p.real_time.total_seconds() for p in nodes))

    return Candidate("OpenVINO binary", lambda: (request.infer([image]), bits), seconds)


def openvino_layer(channels: int, size: int, threads: int) -> Candidate:
    """OpenVINO's float convolution."""
    openvino: Any = _need("openvino")
    ops: Any = _need("openvino.opset8")
    x = ops.parameter([1, channels, size, size], np.float32)
    weights = np.random.default_rng(0).normal(size=(channels, channels, 3, 3)).astype(np.float32)
    out = ops.convolution(x, ops.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1])
    return Candidate("OpenVINO fp32", _openvino_call(openvino.Model([out], [x], "layer"), threads))


def _openvino_call(model: Any, threads: int) -> Call:
    openvino: Any = _need("openvino")
    compiled = openvino.Core().compile_model(model, "CPU", _openvino_settings(threads))
    request = compiled.create_infer_request()
    shape = compiled.input(0).shape
    image = np.random.default_rng(0).normal(size=tuple(shape)).astype(np.float32)
    return lambda: request.infer([image], share_inputs=True)


def _openvino_settings(threads: int) -> dict[str, Any]:
    # Without pinning: a core that other programs use as well would hold the whole engine up.
    exact = {"INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}
    return {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, **exact}


def larq_layer(channels: int, size: int, threads: int) -> Candidate:
    """Larq Compute Engine."""
    raise Absent("its models are made by TensorFlow, which is not installed")


def bnn_lab_layer(channels: int, size: int, threads: int) -> Candidate:
    """bnn-lab's packed GEMM."""
    raise Absent("version 1.0 needs torch < 2.13 and numpy < 2")


LAYER_MAKERS: dict[str, Callable[[int, int, int], Candidate]] = {
    "binaryduo": ours_layer,
    "PyTorch fp32": torch_layer,
    "PyTorch int8": torch_int8_layer,
    "ONNX Runtime fp32": lambda c, s, t: onnx_layer(c, s, t, int8=False),
    "ONNX Runtime int8": lambda c, s, t: onnx_layer(c, s, t, int8=True),
    "OpenVINO fp32": openvino_layer,
    "OpenVINO binary": openvino_binary_layer,
    "Larq Compute Engine": larq_layer,
    "bnn-lab": bnn_lab_layer,
}


# --- whole networks ---------------------------------------------------------------------------------------


class Networks:
    """One network's files: ours with binary activations, the peers' in full precision; made once."""

    def __init__(self, name: str, batch: int, folder: Path) -> None:
        import torch

        from binaryduo import models
        from binaryduo.engine.pack import pack

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
        return Candidate(
            "PyTorch fp32", _torch_call(self.full.to(memory_format=torch.channels_last), x, threads)
        )

    def onnx_file(self) -> Path:
        _need("onnxruntime")
        if self._onnx is None:
            from binaryduo.engine.onnx import export_onnx

            self._onnx = self.folder / f"{self.name}.onnx"
            export_onnx(self.full, self.images[:1], self._onnx)
        return self._onnx

    def onnx(self, threads: int) -> Candidate:
        return Candidate("ONNX Runtime fp32", _onnx_call(str(self.onnx_file()), self.images.numpy(), threads))

    def onnx_int8(self, threads: int) -> Candidate:
        path = self.folder / f"{self.name}-int8.onnx"
        if not path.exists():
            _quantize(self.onnx_file(), path, self.images[:4].numpy())
        return Candidate("ONNX Runtime int8", _onnx_call(str(path), self.images.numpy(), threads))

    def openvino(self, threads: int) -> Candidate:
        openvino: Any = _need("openvino")
        model = openvino.Core().read_model(str(self.onnx_file()))
        model.reshape(list(self.images.shape))
        return Candidate("OpenVINO fp32", _openvino_call(model, threads))

    def makers(self) -> dict[str, Callable[[int], Candidate]]:
        return {
            "binaryduo": self.ours,
            "PyTorch fp32": self.torch,
            "ONNX Runtime fp32": self.onnx,
            "ONNX Runtime int8": self.onnx_int8,
            "OpenVINO fp32": self.openvino,
        }


def _quantize(source: Path, target: Path, images: Any) -> None:
    """ONNX Runtime's own static quantization: unsigned activations, signed weights a channel."""
    quantization: Any = _need("onnxruntime.quantization")

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [images[i : i + 1] for i in range(len(images))]

        def get_next(self) -> dict[str, Any] | None:
            return {"images": self.left.pop()} if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.onnx"
        quantization.quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(ready), str(target), Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
            activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
            reduce_range=True,
        )  # fmt: skip


def _need(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise Absent(f"{error.name} is not installed: pip install 'binaryduo[peers]'") from error
