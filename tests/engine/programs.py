"""Random small programs, for tests of the executors."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from binaryduo.engine import format as duo
from binaryduo.engine.program import CURVE_PARAMETERS, Code, Curve, Flag, Op, Program, Storage, Tensor
from binaryduo.engine.runtime import PackedModel
from binaryduo.engine.weight_layout import binary_weights, float_weights, in_groups, pack_bits


@dataclass
class Builder:
    """Appends operations with random weights to a program."""

    channels: int
    height: int
    width: int
    seed: int = 0
    kind: Storage = Storage.FLOAT
    program: Program = field(default_factory=Program)

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.program.tensors.append(Tensor("input", self.kind, self.channels, self.height, self.width))

    def tensor(self, kind, channels, height, width, copies=1):
        self.program.tensors.append(
            Tensor(f"t{len(self.program.tensors)}", kind, channels, height, width, copies)
        )
        return len(self.program.tensors) - 1

    def add(self, code, source, **fields):
        op = Op(f"op{len(self.program.ops)}", code, source, **fields)
        self.program.ops.append(op)
        return op

    def _size(self, source, kernel, stride, padding):
        t = self.program.tensors[source]
        pairs = zip((t.height, t.width), kernel, stride, padding, strict=True)
        return tuple((n + 2 * p - k) // s + 1 for n, k, s, p in pairs)

    def binarize(self, source, copies=1):
        """floats -> bits, with random thresholds and flips."""
        t = self.program.tensors[source]
        out = self.tensor(Storage.BITS, t.channels * copies, t.height, t.width, copies)
        self.add(
            Code.POINTWISE,
            source,
            out_bits=out,
            channels=t.channels,
            copies=copies,
            threshold=self.rng.normal(size=t.channels * copies).astype(np.float32),
            flip=self.flip(t.channels * copies, copies),
        )
        return out

    def flip(self, channels, copies):
        return pack_bits(self.rng.integers(0, 2, channels), copies)

    def conv(
        self,
        source,
        channels,
        kernel=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        copies=1,
        out="float",
        residual=-1,
        relu=False,
        integer=False,
        half=False,
        binary=None,
        small=False,
        groups=1,
        shared=False,
    ):
        """A convolution; `out` names its outputs: "float", "bits" or "both"; `small`: with 8-bit weights;
        `shared`: with weights of one copy of its input that serve all."""
        t = self.program.tensors[source]
        binary = t.kind == Storage.BITS and not small if binary is None else binary
        size = self._size(source, kernel, stride, padding)
        frame = t.channels + 1 if t.kind == Storage.BYTES else 0
        copies_of_weights = 1 if shared or groups > 1 else t.copies
        inputs = t.channels // (t.copies if shared else groups)
        raw = self.rng.normal(size=(channels, frame or inputs, *kernel))
        raw = raw.astype(np.float16 if half else np.float32)
        if small:
            raw = self.rng.integers(-128, 128, raw.shape).astype(np.int8)
        lay_out = float_weights
        if binary:
            lay_out = partial(binary_weights, copies=copies_of_weights)
        weights = in_groups(raw, groups, lay_out)
        weights = np.concatenate([weights, self.rng.integers(-128, 128, frame).astype(weights.dtype)])
        fields = {}
        if out in ("float", "both"):
            fields["out_float"] = self.tensor(Storage.FLOAT, channels * copies, *size)
        if out in ("bits", "both"):
            fields["out_bits"] = self.tensor(Storage.BITS, channels * copies, *size, copies)
            fields["flip"] = self.flip(channels * copies, copies)
            reach = max(2, int((kernel[0] * kernel[1] * t.channels) ** 0.5))
            values = self.rng.integers(-reach, reach + 1, channels * copies)
            fields["threshold"] = values.astype(np.int32) if integer else (values + 0.25).astype(np.float32)
        if not integer:
            fields["scale"] = self.rng.normal(size=channels * copies).astype(np.float32)
            fields["bias"] = self.rng.normal(size=channels * copies).astype(np.float32)
        flags = Flag.RELU * relu | Flag.HALF_WEIGHTS * half | Flag.INTEGER_THRESHOLD * integer
        flags |= Flag.BYTE_WEIGHTS * small | Flag.SHARED_WEIGHTS * shared
        op = self.add(
            Code.BINARY_CONV if binary else Code.FLOAT_CONV,
            source,
            residual=residual,
            kernel=kernel,
            stride=stride,
            padding=padding,
            copies=copies,
            channels=channels,
            flags=flags,
            groups=groups if groups > 1 else 0,
            weights=weights,
            **fields,
        )
        return op.out_float if out == "float" else op.out_bits

    def pool(self, source, code, kernel=(2, 2), stride=(2, 2), padding=(0, 0), flip=False):
        t = self.program.tensors[source]
        out = self.tensor(t.kind, t.channels, *self._size(source, kernel, stride, padding), t.copies)
        fields = {"out_bits" if t.kind == Storage.BITS else "out_float": out}
        if flip:
            fields["flip"] = self.flip(t.channels, t.copies)
        self.add(code, source, kernel=kernel, stride=stride, padding=padding, **fields)
        return out

    def curve(self, source, function):
        """A function of each value, with random parameters where it has some."""
        t = self.program.tensors[source]
        out = self.tensor(Storage.FLOAT, t.channels, t.height, t.width)
        count = t.channels if function == Curve.PRELU else CURVE_PARAMETERS.get(function, 0)
        parameters = np.sort(self.rng.normal(size=count)).astype(np.float32) if count else None
        self.add(Code.CURVE, source, out_float=out, function=function, weights=parameters)
        return out

    def join(self, source, other, function):
        t = self.program.tensors[source]
        out = self.tensor(Storage.FLOAT, t.channels, t.height, t.width)
        self.add(Code.JOIN, source, residual=other, out_float=out, function=function)
        return out

    def resample(self, source, height, width):
        """Random rows and columns with random shares."""
        t = self.program.tensors[source]
        out = self.tensor(Storage.FLOAT, t.channels, height, width)
        rows, columns = self.rng.integers(0, t.height, 2 * height), self.rng.integers(0, t.width, 2 * width)
        shares = self.rng.choice([0.0, 0.25, 0.5, 1.0], 2 * (height + width)).astype(np.float32)
        index = np.concatenate([rows, columns]).astype(np.uint32)
        self.add(Code.RESAMPLE, source, out_float=out, weights=index, scale=shares)
        return out

    def normalise(self, source, groups, every=False, affine=True):
        t = self.program.tensors[source]
        out = self.tensor(Storage.FLOAT, t.channels, t.height, t.width)
        count = t.channels * (t.height * t.width if every else 1)
        fields = (
            {n: self.rng.normal(size=count).astype(np.float32) for n in ("scale", "bias")} if affine else {}
        )
        flags = Flag.EVERY_VALUE if every else Flag.NONE
        epsilon = np.array([1e-5], np.float32)
        self.add(Code.NORMALISE, source, out_float=out, groups=groups, flags=flags, weights=epsilon, **fields)
        return out

    def finish(self, source):
        """A float output: unpacks bits where need be."""
        t = self.program.tensors[source]
        if t.kind == Storage.BITS:
            out = self.tensor(Storage.FLOAT, t.channels, t.height, t.width)
            self.add(Code.UNPACK, source, out_float=out)
        elif source != len(self.program.tensors) - 1:
            out = self.tensor(Storage.FLOAT, t.channels, t.height, t.width)
            self.add(Code.POINTWISE, source, out_float=out, channels=t.channels)
        return self.program

    def lookup(self, source=0):
        """bytes -> floats, by a random table."""
        t = self.program.tensors[source]
        out = self.tensor(Storage.FLOAT, t.channels, t.height, t.width)
        table = self.rng.normal(size=256 * t.channels).astype(np.float32)
        self.add(Code.LOOKUP, source, out_float=out, weights=table)
        return out

    def images(self, count=1):
        if self.kind == Storage.BYTES:
            shape = (count, self.channels, self.height, self.width)
            return self.rng.integers(0, 256, shape).astype(np.uint8)
        return self.rng.normal(size=(count, self.channels, self.height, self.width)).astype(np.float32)


def load_program(program, threads=1):
    """The program through bytes into the native executor."""
    return PackedModel(duo.Sections(np.frombuffer(duo.to_bytes(program), np.uint8), "test"), threads)
