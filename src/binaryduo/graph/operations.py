"""What an operation is: one meaning with named arguments, however it was written in forward().

`Operation` is a row of the table (`graph.table`): which functions, methods and modules mean it, what it does to
channels and levels, and how it is packed. `Call` is one use of it in a graph: its tensors, and its arguments by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from torch import fx, nn

Shape = tuple[int, ...]


class Kind(Enum):
    """What an operation means for channels."""

    INPUT = "input"
    OUTPUT = "output"
    LAYER = "layer"  # Conv1d, Conv2d, Linear
    NORM = "norm"  # BatchNorm1d, BatchNorm2d
    QUANT = "quant"  # QuantAct with levels
    POOL = "pool"  # each channel for itself, values mapped monotonically or linearly, constants kept
    WEIGHTED = "weighted"  # linear in each channel, but constants are not kept (a padded average, dropout)
    RESHAPE = "reshape"  # (N, C, …) -> (N, C * …), or a change of the other dimensions only
    ADD = "add"  # two tensors of the same shape
    CAT = "cat"  # along the channels
    SELECT = "select"  # some channels, in some order
    PAD = "pad"  # zero channels appended or prepended
    ELEMENTWISE = "elementwise"  # one tensor, channel by channel, anything but linear
    SCALED = (
        "scaled"  # other values by a module with numbers for each channel: PReLU(C), GroupNorm, LayerNorm
    )
    PARAMETER = "parameter"  # of the model itself, a number for each channel
    JOIN = "join"  # several tensors with the same channels, not a plain addition
    SCALAR = "scalar"  # not a tensor: a size, a shape
    OTHER = "other"  # not known


@dataclass(frozen=True)
class Required:
    """The place of an argument that has no default."""


REQUIRED = Required()


@dataclass(frozen=True)
class Operation:
    """One row of the table.

    `arguments` names what comes after the tensor, in the order of the function and with its defaults; a module has
    attributes of the same names. `kind` may depend on the call. `average` says that values between the levels come out,
    `extreme` that the largest or smallest of several values does. `several` says that it may read more than one tensor.
    `lower` is the rule of `packing.layers`, `.moves` or `.floats` that makes it part of a packed program; None where it
    cannot be packed, and `instead` then says what to do.
    """

    name: str
    kind: "Kind | Callable[[Call], Kind]"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    functions: tuple[Any, ...] = ()
    methods: tuple[str, ...] = ()
    modules: tuple[type[nn.Module], ...] = ()
    accepts: Callable[[Any], bool] = lambda module: True
    average: "bool | Callable[[Call], bool]" = False
    extreme: bool = False
    several: bool = False
    lower: str | None = None
    instead: str | None = None
    read: Callable[[Any], dict[str, Any]] | None = None  # a module's arguments, where they have other names


@dataclass(frozen=True)
class Call:
    """One use of an operation. `sources` are the tensors it reads, `shape` is its result's."""

    node: fx.Node
    operation: Operation
    sources: tuple[fx.Node, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    module: nn.Module | None = None
    shapes: tuple[Shape, ...] = ()  # of the sources
    shape: Shape = ()

    @cached_property
    def kind(self) -> Kind:
        """What it means for channels, with these arguments; found once, since moves are found by trying them."""
        kind = self.operation.kind
        return kind if isinstance(kind, Kind) else kind(self)

    @property
    def averages(self) -> bool:
        """Whether values between the levels come out."""
        average = self.operation.average
        return average if isinstance(average, bool) else average(self)

    @property
    def written(self) -> str:
        """The operation as its user knows it: a module by its name, a function or method as it is called.

        >>> node = fx.Graph().call_method("roll", ())
        >>> Call(node, Operation("roll", Kind.SELECT)).written
        '.roll() in forward()'
        """
        node = self.node
        if "written" in node.meta:  # what several operations of forward() together became
            return str(node.meta["written"])
        if node.op == "call_module":
            kind = "" if self.module is None else f" ({type(self.module).__name__})"
            return f"module {str(node.target)!r}{kind}"
        if node.op == "call_method":
            return f".{node.target}() in forward()"
        if node.op == "get_attr":
            return f"{node.target!r}"
        return f"{getattr(node.target, '__name__', node.target)}() in forward()"

    def literal(self, *names: str) -> bool:
        """Whether these arguments are written as numbers and not computed in forward()."""
        return not any(nodes_in(self.arguments[name]) for name in names)

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]


def nodes_in(value: Any) -> list[fx.Node]:
    """The nodes of a graph in nested arguments, in order; slices included."""
    found: list[fx.Node] = []
    fx.node.map_arg(value, lambda node: found.append(node))
    return found


def bind(operation: Operation, node: fx.Node, module: nn.Module | None) -> dict[str, Any]:
    """The arguments of a call by their names: of a function or method as written, of a module its attributes.

    >>> pool = Operation("pool", Kind.POOL, {"kernel_size": REQUIRED, "stride": None})
    >>> graph = fx.Graph()
    >>> call = graph.call_function(max, (graph.placeholder("x"), 2), {"stride": 1})
    >>> bind(pool, call, None)
    {'kernel_size': 2, 'stride': 1}
    """
    names = operation.arguments
    if module is not None:
        return {name: getattr(module, name, default) for name, default in names.items()}
    positional = list(node.args[1:])
    by_number = next(iter(names), None) in ("shape", "dims") and len(positional) > 1 and len(names) == 1
    if by_number:  # x.view(2, 3), x.permute(0, 2, 1)
        positional = [tuple(positional)]
    given = dict(zip(names, positional, strict=False)) | {k: v for k, v in node.kwargs.items() if k in names}
    if "dim" in names and "axis" in node.kwargs:
        given["dim"] = node.kwargs["axis"]
    return {name: given.get(name, default) for name, default in names.items()}
