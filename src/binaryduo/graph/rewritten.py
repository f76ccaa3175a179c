"""The user's class with another forward(), made so that it can be pickled and copied like one that was written down.

Where `couple` or `decouple` must change the code of forward(), the model's class becomes a subclass made at run time.
Python pickles an object with the name of its class, and this one has none that could be imported. So it pickles itself
as the class it stands on, the source of its forward() and the names that the source needs: `with_forward` makes the
same class again, in this process or in another.
"""

import functools
import importlib
import types
from typing import Any

from torch import fx, nn

_MADE: dict[Any, type[nn.Module]] = {}  # so that copies of a model are of one class

# (name in the source, module it is imported from, path in that module); without a module, the value itself
Names = tuple[tuple[str, str, Any], ...]


def source_of(graph: fx.Graph) -> tuple[str, Names]:
    """The Python source of a graph's forward(), and where the names come from that it uses."""
    code = graph.python_code("self")
    return code.src, tuple(_origin(name, value) for name, value in sorted(code.globals.items()))


def _origin(name: str, value: Any) -> tuple[str, str, Any]:
    if isinstance(value, types.ModuleType):
        return name, value.__name__, ""
    path = getattr(value, "__qualname__", getattr(value, "__name__", name))
    for module in (getattr(value, "__module__", None), "builtins", "operator", "torch", "types"):
        if module is not None and _find(module, path) is value:
            return name, module, path
    return name, "", value  # inf and nan, or a function that only lives in this process


def _find(module: str, path: str) -> Any:
    try:
        return functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None


def _value(module: str, path: Any) -> Any:
    if not module:
        return path
    return _find(module, path) if path else importlib.import_module(module)


def with_forward(kind: type[nn.Module], source: str, names: Names) -> type[nn.Module]:
    """A subclass of `kind` under its own name whose forward() is that source.

    >>> from torch import nn
    >>> Double = with_forward(nn.Identity, "def forward(self, x):\\n    return x + x", ())
    >>> Double.__name__, Double()(3)
    ('Identity', 6)
    >>> import pickle
    >>> pickle.loads(pickle.dumps(Double()))(4)
    8
    """
    if (kind, source, names) in _MADE:
        return _MADE[kind, source, names]
    space: dict[str, Any] = {name: _value(module, path) for name, module, path in names}
    exec(compile(source, f"<rewritten forward() of {kind.__qualname__}>", "exec"), space)

    def reduce(self: nn.Module, protocol: Any = None) -> Any:
        return _empty, (kind, source, names), self.__dict__

    body = {
        "forward": space["forward"],
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__reduce_ex__": reduce,
        "_rewritten_from": kind,
    }
    made = types.new_class(kind.__name__, (kind,), {}, lambda space: space.update(body))
    _MADE[kind, source, names] = made
    return made


def rewritten_from(kind: type[nn.Module]) -> type[nn.Module]:
    """The class as it was written, where this one was made by `with_forward`."""
    found: type[nn.Module] = getattr(kind, "_rewritten_from", kind)
    return found


def _empty(kind: type[nn.Module], source: str, names: Names) -> nn.Module:
    """An object of the class without its state, which pickle and copy fill in."""
    made = with_forward(kind, source, names)
    return made.__new__(made)
