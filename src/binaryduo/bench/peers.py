"""The other engines that `binaryduo bench infer` measures beside ours, each behind the same small face.

A `Candidate` is something to be timed. A maker returns one, or raises `Absent` with the reason, which is
printed: a peer that is not installed is named, never left out silently. Nothing is imported until asked for.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
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
    from binaryduo.engine.program import Code, Flag, Op, Program, Storage, Tensor
    from binaryduo.engine.runtime import PackedModel
    from binaryduo.engine.weight_layout import binary_weights

    rng = np.random.default_rng(0)
    shape = (channels, size, size)
    program = Program([Tensor("images", Storage.FLOAT, *shape), Tensor("bits", Storage.BITS, *shape)])
    first = np.zeros(channels, np.float32)
    program.ops.append(Op("act", Code.POINTWISE, 0, out_bits=1, channels=channels, threshold=first))
    for i in range(layers):
        program.tensors.append(Tensor(f"act{i}", Storage.BITS, *shape))
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
    program.tensors.append(Tensor("output", Storage.FLOAT, channels, 1, 1))
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

    conv: Any = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
    conv = conv.to(memory_format=torch.channels_last)
    x = torch.randn(1, channels, size, size).to(memory_format=torch.channels_last)
    return Candidate("PyTorch fp32", torch_call(conv.eval(), x, threads))


def torch_int8_layer(channels: int, size: int, threads: int) -> Candidate:
    """PyTorch's int8 convolution (fbgemm), int8 in and out."""
    import torch

    try:
        quantized: Any = import_module("torch.ao.nn.quantized")

        torch.backends.quantized.engine = "fbgemm"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch announces that it will drop them
            conv = quantized.Conv2d(channels, channels, 3, padding=1, bias=False)
            x = torch.randn(1, channels, size, size).contiguous(memory_format=torch.channels_last)
            q = torch.quantize_per_tensor(x, 0.05, 64, torch.quint8)
            conv(q)
    except (ImportError, RuntimeError, AttributeError) as error:
        raise Absent(f"not in this build ({error})") from error
    return Candidate("PyTorch int8", torch_call(conv, q, threads))


def torch_call(module: Any, x: Any, threads: int) -> Call:
    """A call of a PyTorch module with that many threads."""
    import torch

    def call() -> object:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        with torch.inference_mode():
            return module(x)

    return call


def onnx_layer(channels: int, size: int, threads: int, int8: bool) -> Candidate:
    """ONNX Runtime's Conv, or its QLinearConv with unsigned activations and signed weights."""
    onnx: Any = need("onnx")
    need("onnxruntime")
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
    return Candidate(name, onnx_call(model.SerializeToString(), x, threads))


def onnx_call(model: "bytes | str", x: Any, threads: int) -> Call:
    """A call of an ONNX model, given as bytes or by its path."""
    runtime: Any = need("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feed)


def openvino_binary_layer(channels: int, size: int, threads: int) -> Candidate:
    """OpenVINO's BinaryConvolution, by its own clock: the node alone, bits in, without its thresholds."""
    openvino: Any = need("openvino")
    ops: Any = need("openvino.opset8")
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
    openvino: Any = need("openvino")
    ops: Any = need("openvino.opset8")
    x = ops.parameter([1, channels, size, size], np.float32)
    weights = np.random.default_rng(0).normal(size=(channels, channels, 3, 3)).astype(np.float32)
    out = ops.convolution(x, ops.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1])
    return Candidate("OpenVINO fp32", openvino_call(openvino.Model([out], [x], "layer"), threads))


def openvino_call(model: Any, threads: int) -> Call:
    """A call of an OpenVINO model whose shapes are fixed."""
    openvino: Any = need("openvino")
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


def need(name: str) -> Any:
    """The module of that name; raises Absent where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise Absent(f"{error.name} is not installed: pip install 'binaryduo[peers]'") from error
