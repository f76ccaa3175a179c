"""A NumPy executor, written to be read: what every kernel of the native one must agree with.

Bits are zeros and ones in an array here, nothing is packed; sums of one-bit layers are exact integers.
"""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from binaryduo.engine.program import Code, Curve, Flag, Join, Op, Program, Storage, Tensor
from binaryduo.engine.reference_floats import curve, joined, normalised, resampled
from binaryduo.engine.weight_layout import BINARY_BLOCK, FLOAT_BLOCK, from_blocks, unpack_bits

Values = NDArray[Any]  # (N, H, W, C); uint8 zeros and ones for bits, float32 otherwise


def run(program: Program, images: NDArray[np.float32]) -> list[Values]:
    """Every tensor of the program for images (N, C, H, W): a list of (N, H, W, C), the output last."""
    values: list[Values | None] = [None] * len(program.tensors)
    kind = np.uint8 if program.tensors[0].kind == Storage.BYTES else np.float32
    values[0] = np.moveaxis(images.astype(kind), 1, -1)
    for op in program.ops:
        for number, result in step(program, op, values).items():
            values[number] = result
    return [v if v is not None else np.empty(0) for v in values]


def logits(program: Program, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first output for images (N, C, H, W): (N, classes), or (N, C, H, W) where it has pixels."""
    out = np.moveaxis(run(program, images)[program.outputs[0]], -1, 1).astype(np.float32)
    return out.reshape(out.shape[:2]) if out.shape[2:] == (1, 1) else out


def step(program: Program, op: Op, values: list[Values | None]) -> dict[int, Values]:
    """What one operation writes, by tensor number, given all tensors before it."""
    source = values[op.input]
    assert source is not None
    other = values[op.residual] if op.residual >= 0 else None
    if op.code == Code.BINARY_CONV:
        return epilogue(program, op, integer_sums(program, op, source), other)
    if op.code == Code.FLOAT_CONV:
        return epilogue(program, op, float_sums(program, op, source), other)
    if op.code == Code.POINTWISE:
        return epilogue(program, op, source.astype(np.float32), other)
    if op.code == Code.MAX_POOL:
        return _max_pool(program.tensors[op.input], op, source)
    if op.code == Code.AVERAGE_POOL:
        windows = _windows(source, op).astype(np.float32)  # (N, H, W, kh, kw, C)
        return {op.out_float: windows.mean(axis=(3, 4), dtype=np.float32)}
    if op.code == Code.MEAN_COPIES:
        chosen = source if op.weights is None else source[..., op.weights.astype(np.int64)]
        split = chosen.reshape(*source.shape[:3], op.copies, -1).astype(np.float32)
        return {op.out_float: split.mean(axis=3, dtype=np.float32)}
    if op.code == Code.PAD_CHANNELS:
        behind = program.tensors[op.out_float].channels - op.channels - source.shape[-1]
        return {op.out_float: np.pad(source, [(0, 0)] * 3 + [(op.channels, behind)])}
    if op.code == Code.UNPACK:
        return {op.out_float: source.astype(np.float32)}
    if op.code == Code.CURVE:
        return {op.out_float: curve(Curve(op.function), source, op.weights)}
    if op.code == Code.RESAMPLE:
        return {op.out_float: resampled(source, program.tensors[op.out_float], op)}
    if op.code == Code.NORMALISE:
        return {op.out_float: normalised(source, op)}
    if op.code == Code.LOOKUP:
        assert op.weights is not None
        table = op.weights.reshape(-1, 256)
        return {op.out_float: table[np.arange(len(table)), source]}
    assert other is not None
    if op.code == Code.JOIN:
        return {op.out_float: joined(Join(op.function), source, other)}
    assert op.code == Code.CONCAT
    return {op.out_float: np.concatenate([source, other], axis=-1)}


def integer_sums(program: Program, op: Op, bits: Values) -> NDArray[np.int64]:
    """The exact sums Σ a·w of a binary convolution: bits (N, H, W, C) -> (N, H', W', channels).

    By definition, from weights of -1 and +1; the kernels use 2·popcount(a & w) − popcount(a).
    """
    # float64 holds these integers exactly and multiplies them much faster than NumPy's integers
    return _sums(op, bits.astype(np.float64), weight_signs(program, op).astype(np.float64)).astype(np.int64)


def float_sums(program: Program, op: Op, source: Values) -> Values:
    """The sums of a float convolution; whole numbers where bytes or bits meet 8-bit weights."""
    weights = _float_weights(program, op)
    if not op.flags & Flag.BYTE_WEIGHTS or program.tensors[op.input].kind == Storage.FLOAT:
        return _sums(op, source.astype(np.float32), weights)
    pixels, around = source.astype(np.float64), np.zeros(source.shape[-1])
    if program.tensors[op.input].kind == Storage.BYTES:
        assert op.weights is not None
        pixels = np.pad(pixels, [(0, 0)] * 3 + [(0, 1)])  # the channel that tells the frame
        around = op.weights[-pixels.shape[-1] :].view(np.uint8).astype(np.float64)
    # less what lies around the image, the frame is zero again
    constant = weights.astype(np.float64) @ np.tile(around, op.kernel[0] * op.kernel[1])
    return np.asarray(_sums(op, pixels - around, weights.astype(np.float64)) + constant, np.float32)


def _sums(op: Op, source: Values, weights: Values) -> Values:
    """Σ x·w over windows, group by group: (N, H, W, C) and (channels, kh·kw·C / groups) -> (N, H', W', channels)."""
    groups = max(1, op.groups)
    parts = []
    for x, w in zip(np.split(source, groups, axis=-1), np.split(weights, groups), strict=True):
        windows = _windows(x, op)
        parts.append((windows.reshape(-1, w.shape[1]) @ w.T).reshape(*windows.shape[:3], -1))
    return np.concatenate(parts, axis=-1)


def weight_signs(program: Program, op: Op) -> NDArray[np.int8]:
    """The weights of a binary convolution as -1 and +1: (channels, kh·kw·C / groups)."""
    source = program.tensors[op.input]
    assert op.weights is not None
    groups = max(1, op.groups)
    pixels, channels = op.kernel[0] * op.kernel[1], source.channels // groups
    copies = source.copies if groups == 1 else 1
    shared = copies if op.flags & Flag.SHARED_WEIGHTS else 1
    rows = []
    for part in np.split(op.weights.astype(np.uint8), groups):
        packed = from_blocks(part, op.channels // groups, BINARY_BLOCK).astype(np.uint8)
        bits = unpack_bits(packed.reshape(len(packed), pixels, -1), channels // shared, copies // shared)
        bits = np.tile(bits, shared)  # the same weights for each plane
        rows.append(2 * bits.astype(np.int8) - 1)
    return np.concatenate(rows).reshape(op.channels, -1)


def _float_weights(program: Program, op: Op) -> NDArray[np.float32]:
    assert op.weights is not None
    weights, groups = op.weights, max(1, op.groups)
    count = program.inputs_of(op) * op.channels
    if op.flags & Flag.BIT_WEIGHTS:
        weights = unpack_bits(weights.astype(np.uint8), count) * 2.0 - 1.0
    parts = np.split(weights[:count], groups)
    rows = [from_blocks(part, op.channels // groups, FLOAT_BLOCK) for part in parts]
    return np.concatenate(rows).astype(np.float32)


def _windows(x: Values, op: Op, fill: float = 0) -> Values:
    """(N, H, W, C) -> (N, H', W', kh, kw, C)"""
    (kh, kw), (sh, sw), (ph, pw) = op.kernel, op.stride, op.padding
    padded = np.pad(x, [(0, 0), (ph, ph), (pw, pw), (0, 0)], constant_values=fill)
    windows = sliding_window_view(padded, (kh, kw), axis=(1, 2))[:, ::sh, ::sw]
    result: Values = np.moveaxis(windows, 3, -1)
    return result


def _max_pool(tensor: Tensor, op: Op, source: Values) -> dict[int, Values]:
    if tensor.kind == Storage.FLOAT:
        return {op.out_float: _windows(source, op, -np.inf).max(axis=(3, 4))}
    pooled = _windows(source, op).max(axis=(3, 4))  # the greatest of some bits is their OR
    if op.flip is not None:
        pooled ^= unpack_bits(op.flip.astype(np.uint8), tensor.channels, tensor.copies)
    return {op.out_bits: pooled}


def epilogue(program: Program, op: Op, sums: Values, residual: Values | None) -> dict[int, Values]:
    """The steps behind the sums (N, H, W, channels), in the order of `binaryduo.engine.program`."""
    y = np.concatenate([sums] * op.copies, axis=-1)
    results: dict[int, Values] = {}
    if not op.flags & Flag.INTEGER_THRESHOLD:
        y = y.astype(np.float32)
        if op.scale is not None and op.bias is not None:
            y = y * op.scale + op.bias
        if residual is not None:
            y = y + residual
        if op.flags & Flag.RELU:
            y = np.maximum(y, np.float32(0))
        if op.out_float >= 0:
            results[op.out_float] = y
    if op.out_bits >= 0:
        assert op.threshold is not None
        bits = (y >= op.threshold).astype(np.uint8)
        if op.flip is not None:
            bits ^= unpack_bits(op.flip.astype(np.uint8), op.out_channels, op.copies)
        results[op.out_bits] = bits
    return results
