"""How weights and bits lie in memory: in blocks of output channels, so that one vector load brings the same
inputs of many channels.

One-bit weights: blocks of 32 channels; in a block, byte k of each of its channels in turn. Float weights:
blocks of 16 channels; in a block, input k of each of its channels in turn. The last block is as narrow as
what is left, so nothing is stored that is not needed. Inputs run over (ky, kx, channel).
"""

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
