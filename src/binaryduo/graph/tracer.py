"""torch.fx's tracer, which also knows the sizes of an example's tensors.

A stand-in for a tensor has no rank and no sizes, so that torch.fx alone cannot follow `x.dim()`, `*x.shape[2:]`, a loop
over `x.chunk(2, 1)` or `if x.shape[-1] % 2`. Given an example, what forward() asks for is computed from it. A rank and
the number of parts are always the same; a branch is taken as with the example, and the graph asserts that its condition
stays what it was. A branch on the number of images is not followed.
"""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

# Their forward() is one operation for us. A subclass that keeps it is one too.
_WHOLE = (nn.Conv1d, nn.Conv2d, nn.Linear, nn.BatchNorm1d, nn.BatchNorm2d)
_CALL, _GETATTR = nn.Module.__call__, nn.Module.__getattr__  # as they are outside of a trace


class Tracer(fx.Tracer):
    """Traces into user code and stops at torch's and our own modules, and at subclasses that add nothing."""

    def __init__(self, inputs: tuple[Tensor, ...] = ()) -> None:
        super().__init__()
        self.trace_asserts = True
        self.inputs, self.values = list(inputs), dict[fx.Node, Any]()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        home = getattr(type(m).forward, "__module__", "")
        inner = getattr(getattr(type(m), "_conv_forward", None), "__module__", home)
        whole = isinstance(m, _WHOLE) and all(h.startswith("torch.nn.") for h in (home, inner))
        ours = home.startswith("binaryduo.") and not any(True for _ in m.children())
        return whole or ours or super().is_leaf_module(m, module_qualified_name)

    def path_of_module(self, mod: nn.Module) -> str:
        try:
            return super().path_of_module(mod)
        except NameError:
            if isinstance(mod, nn.Sequential):  # a slice, self.features[:3], has no name but its parts have
                return ""
            raise

    def proxy(self, node: fx.Node) -> fx.Proxy:
        if node.op == "placeholder" and self.inputs:
            self.values[node] = self.inputs.pop(0)
        return _Sized(node, self)

    def iter(self, obj: Any) -> Iterator[Any]:
        value = self.value(obj.node)
        if not isinstance(value, tuple | list):
            return super().iter(obj)
        return iter([obj[i] for i in range(len(value))])

    def to_bool(self, obj: fx.Proxy) -> bool:
        value = self.value(obj.node)
        if not isinstance(value, bool | int) or counts_images(obj.node):
            return super().to_bool(obj)
        holds = obj if value else self.create_proxy("call_function", operator.not_, (obj,), {})
        text = "forward() would take another branch than with the example that it was rewritten for"
        self.create_proxy("call_function", torch._assert, (holds, text), {})
        return bool(value)

    def value(self, node: fx.Node) -> Any:
        """What a node gives for the example; None where that cannot be said."""
        try:
            with _outside_of_a_trace(), torch.no_grad():
                return self._computed(node)
        except Exception:  # whatever a user's operation raises: torch.fx then says what it cannot follow
            return None

    def _computed(self, node: fx.Node) -> Any:
        if node in self.values:
            return self.values[node]
        args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), self._computed)
        found: Any = None
        if node.op == "get_attr":
            path, _, name = str(node.target).rpartition(".")
            found = getattr(self.root.get_submodule(path), name)
        elif node.op == "call_module":
            found = self.root.get_submodule(str(node.target))(*args, **kwargs)
        elif node.op == "call_method":
            found = getattr(args[0], str(node.target))(*args[1:], **kwargs)
        elif node.op == "call_function":
            assert callable(node.target)
            found = node.target(*args, **kwargs)
        self.values[node] = found
        return found


class _Sized(fx.Proxy):
    """A stand-in whose rank and number of parts are known."""

    tracer: Tracer

    def __getattr__(self, k: str) -> Any:
        return _SizedAttribute(self, k)

    def __len__(self) -> int:
        return _length(self)

    def __index__(self) -> int:
        raise TypeError(
            "forward() uses a size as a plain number, as range(x.shape[2]) does: write the number"
        )

    def dim(self) -> Any:
        value = self.tracer.value(self.node)
        return value.dim() if isinstance(value, Tensor) else _SizedAttribute(self, "dim")()

    ndimension = dim

    @property
    def ndim(self) -> Any:
        value = self.tracer.value(self.node)
        return value.dim() if isinstance(value, Tensor) else _SizedAttribute(self, "ndim")


class _SizedAttribute(fx.proxy.Attribute):
    """An attribute of a stand-in, as its shape."""

    def __len__(self) -> int:
        return _length(self)


def _length(proxy: fx.Proxy) -> int:
    assert isinstance(proxy.tracer, Tracer)
    value = proxy.tracer.value(proxy.node)
    if isinstance(value, tuple | list):
        return len(value)
    raise RuntimeError("len() of a tensor is its number of images, which is not fixed: use x.shape[0]")


def counts_images(number: fx.Node) -> bool:
    """Whether a number was computed from the size of a batch: x.shape[0], x.size(0), len(x)."""
    if number.target in (operator.getitem, "size") and len(number.args) > 1 and number.args[1] == 0:
        return True
    return number.target is len or any(counts_images(n) for n in number.all_input_nodes)


@contextmanager
def _outside_of_a_trace() -> Iterator[None]:
    """While it lasts, modules are called and not recorded."""
    recording = nn.Module.__call__, nn.Module.__getattr__
    nn.Module.__call__, nn.Module.__getattr__ = _CALL, _GETATTR  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__call__, nn.Module.__getattr__ = recording  # type: ignore[method-assign]
