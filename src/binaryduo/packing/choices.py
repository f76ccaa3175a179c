"""What the caller of `pack` chooses: what images are made of, and how the layers with float weights are stored."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from binaryduo.errors import ArgumentError

PerChannel = float | Sequence[float]


@dataclass(frozen=True)
class Pixels:
    """Images of pixels from 0 to 255, and how the model's own input is made of them: (pixel / 255 − mean) / std."""

    mean: NDArray[np.float64]  # one for each channel
    std: NDArray[np.float64]

    def table(self) -> NDArray[np.float32]:
        """What each pixel value becomes, in each channel: (C, 256), rounded once.

        >>> Pixels(np.array([0.5]), np.array([0.25])).table()[0, [0, 255]].tolist()
        [-2.0, 2.0]
        """
        values = np.arange(256) / 255 - self.mean[:, None]
        return (values / self.std[:, None]).astype(np.float32)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Images (N, C, …) of uint8 as the model takes them, float32."""
        channels = np.arange(len(self.mean)).reshape(1, -1, *[1] * (pixels.dim() - 2))
        return torch.from_numpy(self.table()[channels, pixels.numpy()])

    def pixels_of(self, images: Tensor) -> Tensor:
        """An example as pixels: uint8 as it is; floats are what the model takes, and the nearest pixels are found."""
        if images.dtype == torch.uint8:
            return images
        shape = (1, -1, *[1] * (images.dim() - 2))
        values = images.double() * torch.from_numpy(self.std.reshape(shape))
        values = (values + torch.from_numpy(self.mean.reshape(shape))) * 255
        return values.round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class Choices:
    """How a model is packed."""

    float_weights: str = "float32"
    first_layer: str | None = None
    pixels: Pixels | None = None

    @property
    def half(self) -> bool:
        return self.float_weights == "float16"

    @property
    def exact(self) -> bool:
        """Whether no weight is rounded."""
        return self.float_weights == "float32" and self.first_layer in (None, "float32")

    def weights_of(self, reads_pixels: bool) -> str:
        """How a layer's float weights are stored.

        >>> Choices(first_layer="int8").weights_of(True), Choices(first_layer="int8").weights_of(False)
        ('int8', 'float32')
        """
        return self.first_layer or self.float_weights if reads_pixels else self.float_weights


def choose(
    channels: int,
    input: str = "float32",
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    float_weights: str = "float32",
    first_layer: str | None = None,
) -> Choices:
    """The choices, looked at before anything is done.

    >>> choose(3, mean=0.5)
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: mean and std belong to input="uint8": with input="float32" images come normalised
    """
    _one_of("input", input, ("float32", "uint8"))
    _one_of("float_weights", float_weights, ("float32", "float16", "int8"))
    if first_layer is not None:
        _one_of("first_layer", first_layer, ("float32", "int8"))
    if input == "float32":
        if mean is not None or std is not None:
            raise ArgumentError(
                'mean and std belong to input="uint8": with input="float32" images come normalised'
            )
        if first_layer == "int8":
            raise ArgumentError('first_layer="int8" needs input="uint8": it multiplies pixels')
        return Choices(float_weights, first_layer)
    pixels = Pixels(_numbers("mean", mean, 0.0, channels), _numbers("std", std, 1.0, channels))
    if (pixels.std <= 0).any():
        raise ArgumentError(f"std must be positive, not {std}")
    return Choices(float_weights, first_layer, pixels)


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ArgumentError(
            f"{name} must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, not {value!r}"
        )


def _numbers(name: str, given: PerChannel | None, default: float, channels: int) -> NDArray[np.float64]:
    """One number for each channel.

    >>> _numbers("mean", [0.5, 0.4], 0.0, 3)
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: mean must be one number or one for each of the 3 channels, not [0.5, 0.4]
    """
    try:
        values = np.asarray(default if given is None else given, np.float64).reshape(-1)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.size not in (1, channels) or not np.isfinite(values).all():
        raise ArgumentError(
            f"{name} must be one number or one for each of the {channels} channels, not {given}"
        )
    return np.broadcast_to(values, channels).copy()
