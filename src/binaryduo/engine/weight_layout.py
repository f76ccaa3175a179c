"""How weights and bits lie in memory: in blocks of output channels, so that one vector load brings the same
inputs of many channels.

One-bit weights: blocks of 32 channels; in a block, byte k of each of its channels in turn. Float weights:
blocks of 16 channels; in a block, input k of each of its channels in turn. The last block is as narrow as
what is left, so nothing is stored that is not needed. Inputs run over (ky, kx, channel).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINARY_BLOCK = 32
FLOAT_BLOCK = 16


def pack_bits(values: NDArray[Any], copies: int = 1) -> NDArray[np.uint8]:
    """(…, C) of zeros and ones -> (…, bytes); each of the blocked copies starts on a byte.

    >>> pack_bits(np.array([1, 1, 0, 1])).tolist(), pack_bits(np.array([1, 1, 0, 1]), copies=2).tolist()
    ([11], [3, 2])
    """
    split = values.reshape(*values.shape[:-1], copies, values.shape[-1] // copies) != 0
    packed = np.packbits(split, axis=-1, bitorder="little")
    return packed.reshape(*values.shape[:-1], -1)


def unpack_bits(packed: NDArray[np.uint8], channels: int, copies: int = 1) -> NDArray[np.uint8]:
    """The inverse of `pack_bits`: (…, bytes) -> (…, C).

    >>> unpack_bits(np.array([3, 2], np.uint8), 4, copies=2).tolist()
    [1, 1, 0, 1]
    """
    split = packed.reshape(*packed.shape[:-1], copies, packed.shape[-1] // copies)
    bits = np.unpackbits(split, axis=-1, count=channels // copies, bitorder="little")
    return bits.reshape(*packed.shape[:-1], channels)


def to_blocks(rows: NDArray[Any], block: int) -> NDArray[Any]:
    """(channels, K) -> flat, in blocks of channels with the channel innermost.

    >>> to_blocks(np.array([[1, 2], [3, 4], [5, 6]]), 2).tolist()
    [1, 3, 2, 4, 5, 6]
    """
    parts = [np.ascontiguousarray(rows[i : i + block].T).ravel() for i in range(0, len(rows), block)]
    return np.concatenate(parts)


def from_blocks(flat: NDArray[Any], channels: int, block: int) -> NDArray[Any]:
    """The inverse of `to_blocks`: (channels, K).

    >>> from_blocks(np.array([1, 3, 2, 4, 5, 6]), 3, 2).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    width = flat.size // channels
    rows = np.empty((channels, width), flat.dtype)
    for i in range(0, channels, block):
        n = min(block, channels - i)
        rows[i : i + n] = flat[i * width : (i + n) * width].reshape(width, n).T
    return rows


def in_groups(weights: NDArray[Any], groups: int, lay_out: Callable[..., NDArray[Any]]) -> NDArray[Any]:
    """The weights of a grouped convolution: those of each group laid out as a convolution's, one after the other.

    >>> in_groups(np.array([1.0, 2.0]).reshape(2, 1, 1, 1), 2, float_weights).tolist()
    [1.0, 2.0]
    """
    return np.concatenate([lay_out(part) for part in np.split(weights, max(1, groups))])


def byte_weights(weights: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """(O, …) as whole numbers from -127 to 127 and what each channel's are multiplied by.

    Rounded to the nearest: a weight is off by at most half of its channel's step, the largest weight / 127.

    >>> numbers, step = byte_weights(np.array([[0.5, -1.0], [0.0, 0.0]]))
    >>> numbers.tolist(), (step * 127).tolist()
    ([[64, -127], [0, 0]], [1.0, 127.0])
    """
    largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1).astype(np.float64)
    step = np.where(largest > 0, largest, 127.0) / 127
    shape = (-1, *[1] * (weights.ndim - 1))
    return np.rint(weights / step.reshape(shape)).astype(np.int8), step


def binary_weights(signs: NDArray[Any], copies: int = 1) -> NDArray[np.uint8]:
    """(O, C, kh, kw) of signs -> flat bytes; a weight of +1 is a set bit. `copies`: of the input's channels.

    >>> binary_weights(np.ones((1, 8, 1, 1))).tolist()
    [255]
    """
    positive = np.moveaxis(signs > 0, 1, -1)  # (O, kh, kw, C)
    packed = pack_bits(positive, copies).reshape(len(signs), -1)
    return to_blocks(packed, BINARY_BLOCK).astype(np.uint8)


def float_weights(weights: NDArray[Any]) -> NDArray[Any]:
    """(O, C, kh, kw) -> flat, channel innermost in blocks of 16.

    >>> float_weights(np.arange(4.0).reshape(2, 2, 1, 1)).tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    return to_blocks(np.moveaxis(weights, 1, -1).reshape(len(weights), -1), FLOAT_BLOCK)


def sign_weights(signs: NDArray[Any]) -> NDArray[np.uint8]:
    """(O, C, kh, kw) of signs -> bits in the order of `float_weights`; a weight of +1 is a set bit.

    >>> sign_weights(np.array([1.0, -1.0, 1.0]).reshape(1, 3, 1, 1)).tolist()
    [5]
    """
    return pack_bits(float_weights(signs) > 0)
