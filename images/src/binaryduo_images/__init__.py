"""12,000 images of Fashion-MNIST for binaryduo's demo, tutorial and tests; `binaryduo.data` reads them."""

from importlib.resources import files


def fashion_mnist_small() -> bytes:
    """The file, compressed, as `binaryduo.data` takes it."""
    return files("binaryduo_images").joinpath("fashion_mnist_small.xz").read_bytes()
