"""The float operations of the NumPy executor that are no convolution: functions of each value, two tensors value by
value, other rows and columns, normalisation. Images are (N, H, W, C)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from binaryduo.engine.program import Array, Curve, Flag, Join, Op, Tensor

Values = NDArray[Any]


def _erf(x: Values) -> Values:
    return np.array([math.erf(value) for value in x.flat], np.float64).reshape(x.shape)


def _sigmoid(x: Values) -> Values:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _softplus(x: Values) -> Values:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def curve(function: Curve, source: Values, parameters: Array | None) -> Values:
    """A function of each value, computed in float64 and stored as float32.

    >>> curve(Curve.PRELU, np.array([-2.0, 3.0]), np.array([0.25, 0.25])).tolist()
    [-0.5, 3.0]
    """
    x = source.astype(np.float64)
    p = np.zeros(1) if parameters is None else parameters.astype(np.float64)
    with np.errstate(over="ignore"):
        results: dict[Curve, Callable[[], Values]] = {
            Curve.PRELU: lambda: np.where(x >= 0, x, p * x),
            Curve.CLAMP: lambda: np.minimum(np.maximum(x, p[0]), p[-1]),
            Curve.SIGMOID: lambda: _sigmoid(x),
            Curve.TANH: lambda: np.tanh(x),
            Curve.HARD_SIGMOID: lambda: np.clip(x / 6 + 0.5, 0, 1),
            Curve.HARD_SWISH: lambda: x * np.clip(x / 6 + 0.5, 0, 1),
            Curve.SILU: lambda: x * _sigmoid(x),
            Curve.GELU: lambda: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
            Curve.ELU: lambda: np.where(x >= 0, x, p[0] * np.expm1(np.minimum(x, 0))),
            Curve.SOFTPLUS: lambda: _softplus(x),
            Curve.MISH: lambda: x * np.tanh(_softplus(x)),
            Curve.ABS: lambda: np.abs(x),
            Curve.EXP: lambda: np.exp(x),
            Curve.SQUARE: lambda: x * x,
        }
        return np.asarray(results[function]().astype(np.float32))


def joined(function: Join, source: Values, other: Values) -> Values:
    """Two tensors, value by value; the second may have one pixel or one channel, which serves for all.

    >>> joined(Join.PRODUCT, np.ones((1, 2, 2, 3), np.float32), np.full((1, 1, 1, 3), 2.0, np.float32)).sum()
    np.float32(24.0)
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        result: Values = {
            Join.PRODUCT: np.multiply,
            Join.SUM: np.add,
            Join.MAXIMUM: np.maximum,
            Join.MINIMUM: np.minimum,
            Join.QUOTIENT: np.divide,
        }[function](source, other)
    return result


def resampled(source: Values, target: Tensor, op: Op) -> Values:
    """Each output pixel is a mean of two rows and two columns, with the shares that the operation gives."""
    assert op.weights is not None
    assert op.scale is not None
    h, w = target.height, target.width
    rows, columns = op.weights[: 2 * h].reshape(2, h), op.weights[2 * h :].reshape(2, w)
    shares, across = op.scale[: 2 * h].reshape(2, h), op.scale[2 * h :].reshape(2, w)
    down = sum(shares[i][None, :, None, None] * source[:, rows[i]] for i in range(2))
    assert isinstance(down, np.ndarray)
    out: Values = sum(across[i][None, None, :, None] * down[:, :, columns[i]] for i in range(2))
    return out.astype(np.float32)


def normalised(source: Values, op: Op) -> Values:
    """Mean 0 and variance 1 over all pixels of each group of channels of each image, then scale and bias."""
    assert op.weights is not None
    n, h, w, c = source.shape
    x = source.astype(np.float64).reshape(n, h * w, op.groups, c // op.groups)
    mean, variance = x.mean((1, 3), keepdims=True), x.var((1, 3), keepdims=True)
    y = ((x - mean) / np.sqrt(variance + float(op.weights[0]))).reshape(n, h, w, c)
    shape = (h, w, c) if op.flags & Flag.EVERY_VALUE else (c,)
    if op.scale is not None:
        y = y * op.scale.reshape(shape)
    if op.bias is not None:
        y = y + op.bias.reshape(shape)
    result: Values = y.astype(np.float32)
    return result
