"""Native modules that an installation may lack."""

from importlib import import_module
from typing import Any


def optional(name: str) -> Any:
    """A native module, or None where it was not built; one that is there and does not load is an error.

    >>> optional("binaryduo.training.fast._nothing") is None
    True
    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None
