"""What a packed model is made of: tensors of bits or floats, and a list of operations on them.

A convolution, dense layers included, does its sums and then an epilogue, so that batch normalisation,
residual additions and activations cost no pass over memory of their own. For the sums x of one pixel, with
r copies, output channel i·C + c is computed from sum c:

    integer thresholds    bits = (x >= threshold) xor flip
    otherwise             y = scale·x + bias + residual;  y = max(y, 0) if relu
                          floats = y;  bits = (y >= threshold) xor flip

Steps that are absent are None. The same holds for `POINTWISE`, whose x is its input.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


class Storage(IntEnum):
    """What a tensor holds."""

    FLOAT = 0
    BITS = 1
    BYTES = 2  # the input alone: pixels from 0 to 255


class Code(IntEnum):
    """What an operation does."""

    BINARY_CONV = 1
    FLOAT_CONV = 2
    MAX_POOL = 3
    AVERAGE_POOL = 4
    POINTWISE = 5
    MEAN_COPIES = 6
    PAD_CHANNELS = 7
    UNPACK = 8
    CONCAT = 9
    # since version 2 of the format
    CURVE = 10
    JOIN = 11
    RESAMPLE = 12
    NORMALISE = 13
    # since version 3
    LOOKUP = 14


CONVOLUTIONS = (Code.BINARY_CONV, Code.FLOAT_CONV)
WITH_EPILOGUE = (*CONVOLUTIONS, Code.POINTWISE)
MOST_PLANES = 32  # copies of an input that may share weights: a reader lays them out for each


class Curve(IntEnum):
    """The function of each value that CURVE computes. Those with parameters have them in `weights`."""

    PRELU = 1  # a slope for each channel
    CLAMP = 2  # the lowest and the highest value
    SIGMOID = 3
    TANH = 4
    HARD_SIGMOID = 5
    HARD_SWISH = 6
    SILU = 7
    GELU = 8
    ELU = 9  # its α
    SOFTPLUS = 10
    MISH = 11
    ABS = 12
    EXP = 13
    SQUARE = 14


CURVE_PARAMETERS = {Curve.CLAMP: 2, Curve.ELU: 1}  # PRELU: as many as there are channels; others: none


class Join(IntEnum):
    """What JOIN makes of two values."""

    PRODUCT = 1
    SUM = 2
    MAXIMUM = 3
    MINIMUM = 4
    QUOTIENT = 5


class Flag(IntFlag):
    """Switches of an operation."""

    NONE = 0
    RELU = 1
    HALF_WEIGHTS = 2
    INTEGER_THRESHOLD = 4
    BIT_WEIGHTS = 8  # a float convolution whose weights are -1 and +1
    EVERY_VALUE = 16  # a NORMALISE whose scales and biases are one for each value, and not for each channel
    BYTE_WEIGHTS = 32  # a float convolution whose weights are whole numbers from -128 to 127
    # since version 4
    SHARED_WEIGHTS = (
        64  # a binary convolution whose weights are those of one copy of its input, and serve all
    )


@dataclass
class Tensor:
    """One image's activation, H × W × C in memory; the copies of decoupled channels are blocked.

    In a tensor of bits each copy starts on a byte: 2 copies of 45 channels take 12 bytes a pixel.

    >>> Tensor("act", Storage.BITS, 90, 4, 4, copies=2).pixel_bytes
    12
    """

    name: str
    kind: Storage
    channels: int
    height: int
    width: int
    copies: int = 1
    output: int = 0  # 1 for the first output of the model, 2 for the second, …; 0: it is none

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)"""
        return self.channels, self.height, self.width

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        if self.kind != Storage.BITS:
            return self.channels * (4 if self.kind == Storage.FLOAT else 1)
        return self.copies * ((self.channels // self.copies + 7) // 8)


@dataclass
class Op:
    """One operation. Tensors are given by their number in the program, -1 where there is none.

    `channels` counts the sums, before copies; for PAD_CHANNELS it is the number of zeros in front. The
    `weights` of MEAN_COPIES, where it has any, are the channels that it averages: copies × C numbers.
    `function` is a Curve or a Join. The `weights` of RESAMPLE are, for an output of H × W, the two input rows of each
    output row (H first ones, H second ones), then the two columns of each column; its `scale` has their shares.
    `groups` of channels are normalised together by NORMALISE; its `weights` are ε. A convolution with groups has the
    weights of each group as those of a convolution of its own, one after the other.
    The `weights` of LOOKUP are a table, 256 floats for each channel. A convolution of BYTES has one more input channel,
    which is 0 in the image, and after its weights the pixel that lies around the image: C + 1 bytes.
    The copies of an input with SHARED_WEIGHTS are the planes of an activation of several levels: the mean is its value.
    Arrays are as they lie in the file: see `binaryduo.engine.weight_layout`.
    """

    name: str
    code: Code
    input: int
    residual: int = -1
    out_float: int = -1
    out_bits: int = -1
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    copies: int = 1
    channels: int = 0
    flags: Flag = Flag.NONE
    function: int = 0
    groups: int = 0
    weights: Array | None = None
    scale: Array | None = None
    bias: Array | None = None
    threshold: Array | None = None
    flip: Array | None = None

    @property
    def out_channels(self) -> int:
        """Channels that an operation with an epilogue writes."""
        return self.copies * self.channels

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """The arrays that are there, by name."""
        for name in ("weights", "scale", "bias", "threshold", "flip"):
            value = getattr(self, name)
            if value is not None:
                yield name, value


@dataclass
class Program:
    """A packed model. The first tensor is the input; the outputs are marked, or the last tensor is the only one."""

    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)

    @property
    def outputs(self) -> list[int]:
        """The numbers of the tensors that a call returns, in order.

        >>> pixel = (Storage.FLOAT, 1, 1, 1)
        >>> Program([Tensor("x", *pixel), Tensor("b", *pixel, output=2), Tensor("a", *pixel, output=1)]).outputs
        [2, 1]
        """
        marked = [number for number, tensor in enumerate(self.tensors) if tensor.output]
        return sorted(marked, key=lambda number: self.tensors[number].output) or [len(self.tensors) - 1]

    def inputs_of(self, op: Op) -> int:
        """How many products a convolution adds up for one output; for bits the unused ones of a byte count.

        >>> program = Program([Tensor("x", Storage.BITS, 45, 8, 8)])
        >>> program.inputs_of(Op("conv", Code.BINARY_CONV, 0, kernel=(3, 3)))
        432
        """
        source = self.tensors[op.input]
        unit = source.channels // max(1, op.groups) + (source.kind == Storage.BYTES)
        if op.code == Code.BINARY_CONV:
            unit = (unit + 7) // 8 * 8 if op.groups > 1 else source.pixel_bytes * 8
        return op.kernel[0] * op.kernel[1] * unit

    def stored_inputs(self, op: Op) -> int:
        """How many weights a convolution has for one output: those of one plane where all planes share them.

        >>> program = Program([Tensor("x", Storage.BITS, 90, 8, 8, copies=2)])
        >>> program.stored_inputs(Op("conv", Code.BINARY_CONV, 0, kernel=(3, 3), flags=Flag.SHARED_WEIGHTS))
        432
        """
        shared = self.tensors[op.input].copies if op.flags & Flag.SHARED_WEIGHTS else 1
        return self.inputs_of(op) // shared
