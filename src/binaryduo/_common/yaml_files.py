"""YAML, read with limits: recipes, searches and the values of --set."""

from pathlib import Path
from typing import Any

import yaml

from binaryduo._common.hostile import MEGABYTE, read_bytes
from binaryduo.errors import ArgumentError


def parse_yaml(text: "str | bytes", name: str) -> Any:
    """What a YAML text holds, of plain types only; `name` is what the error calls it.

    >>> parse_yaml("{a: 1}", "it"), parse_yaml("1e-3", "it")
    ({'a': 1}, '1e-3')
    >>> parse_yaml("[" * 20_000, "the recipe")
    Traceback (most recent call last):
    binaryduo.errors.ArgumentError: the recipe is not YAML that can be used: it is nested too deeply
    """
    try:
        return yaml.safe_load(text)
    except RecursionError:
        reason = "it is nested too deeply"
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        # PyYAML lets what Python's own constructors raise pass: of dates, of numbers with thousands of digits.
        reason = " ".join(str(error).split())
    raise ArgumentError(f"{name} is not YAML that can be used: {reason}") from None


def read_keys(path: "str | Path", what: str) -> dict[str, Any]:
    """The keys and values of a YAML file; `what` is what it should be, as in "the recipe"."""
    path = Path(path)
    values = parse_yaml(read_bytes(path, what, ArgumentError, MEGABYTE), f"{what} {path}")
    if not isinstance(values, dict):
        raise ArgumentError(f"{what} {path} does not hold keys and values")
    return values
