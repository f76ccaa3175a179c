"""Decouple: the same function with binary activations only (Section 5.1; Appendix F for "quad").

Every activation with L levels becomes L - 1 binary ones. Three steps:

1. `Carriers` walks the graph backwards from the activations and decides which tensors carry copies, and which
   of them carry the shift, so that as few modules as possible must be inserted. A residual stream carries its
   copies along; where a stream that carries the shift is added, the other side adds none.
2. `Rewriter` widens layers, replaces BNs, and wherever a tensor is in another state than its consumer needs,
   inserts the conversion. The function is right whatever step 1 decided.
3. The result is checked against the coupled network in float64, and the flips in its own precision counted.
"""

import copy
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from binaryduo import nn as bnn
from binaryduo._common.float64 import AllFloat64
from binaryduo.errors import ArgumentError, GraphError
from binaryduo.graph.analysis import Analysis, analyse, refuse_shared
from binaryduo.graph.operations import Kind
from binaryduo.graph.tracing import as_inputs, check_training_path, unwrap
from binaryduo.transform.carrying import TOPOLOGIES, Carriers, Topology, copies_of
from binaryduo.transform.equality import (
    Decoupling,
    compare,
    layers_that_read_levels,
    relative_difference,
)
from binaryduo.transform.rewriter import Rewriter

EXACT = 1e-10  # what float64 outputs may differ by, relative to the largest


def decouple(
    model: nn.Module, example_input: Any, topology: Topology = "duo", strict: bool = False
) -> nn.Module:
    """A new model that computes the same function with binary activations only; the argument is unchanged.

    With "duo" each weighted sum is computed once and its BN gives one output for each copy, so the weights
    behind it double (for three levels). With "quad" the layers' outputs are copied too: the weights
    quadruple and the result has the architecture of the baseline (BinaryDuo-Q).

    The result is of the model's own class unless the code of its forward() must change, and has an attribute
    `decoupling` with the mapping of parameter names and the measured differences. Where an operation cannot be
    followed, the copies are averaged before it: a one-bit layer after it then reads levels instead of bits. Such a
    layer is named in a warning and in `decoupling.reads_levels`; with `strict=True` it is an error.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), bnn.QuantAct(3), nn.Linear(8, 2)).eval()
    >>> x = torch.rand(5, 4)
    >>> binary = decouple(net, x)
    >>> [m.levels for m in binary.modules() if isinstance(m, bnn.QuantAct)], binary[3].in_features
    ([2], 16)
    >>> torch.allclose(net(x), binary(x), atol=1e-6)
    True
    """
    if topology not in TOPOLOGIES:
        raise ArgumentError(f"topology must be one of {', '.join(TOPOLOGIES)}, not {topology!r}")
    inputs = as_inputs(example_input)
    model = unwrap(model)
    devices = sorted({x.get_device() for x in inputs if x.is_cuda})
    with torch.random.fork_rng(devices=devices):
        analysis = analyse(model, inputs)
        check_training_path(model, inputs)
        _check(model, analysis)
        problem: GraphError | None = None
        for rewrite in (False, True):
            # A forward() that looks at its modules (their class, their width), or keeps them in a list of its
            # own, does not see those that were swapped: then its graph takes its place.
            try:
                if rewrite:
                    analysis = analyse(model, inputs)  # the first attempt has used it up
                result = _verified(model, analysis, inputs, topology, rewrite)
                _tell_levels(result, strict)
                _tell_ties(result)
                return result
            except NotBinaryError:
                raise
            except GraphError as error:
                problem = error
            except Exception as error:
                problem = GraphError(f"{type(model).__name__} decoupled does not run: {error}")
                problem.__cause__ = error
    assert problem is not None
    raise problem


def _verified(
    model: nn.Module, analysis: Analysis, inputs: tuple[Tensor, ...], topology: Topology, rewrite: bool
) -> nn.Module:
    """The decoupled model, held against the coupled one in float64 and in its own precision."""
    result, names = _transform(analysis, topology, rewrite)
    exact = _difference_float64(model, inputs, topology, rewrite)
    comparison = compare(model, result, inputs, exact)
    levels = layers_that_read_levels(model, result, inputs)
    result.decoupling = Decoupling(topology, names, comparison, levels)  # type: ignore[assignment]
    return result


def _tell_levels(result: nn.Module, strict: bool) -> None:
    """Say which one-bit layers do not read bits."""
    decoupling = result.decoupling
    assert isinstance(decoupling, Decoupling)
    names = decoupling.reads_levels
    if not names:
        return
    text = (
        f"of the decoupled network these one-bit layers read averaged copies (0, 1/2, 1) and not bits, because an "
        f"operation before them cannot be followed channel by channel: {', '.join(map(repr, names))}"
    )
    if strict:
        raise NotBinaryError(text)
    warnings.warn(text, stacklevel=3)


def _tell_ties(result: nn.Module) -> None:
    """Say where values lie on thresholds by construction, so that not even float64 decides them alike."""
    decoupling = result.decoupling
    assert isinstance(decoupling, Decoupling)
    difference = decoupling.comparison.largest_difference_float64
    if difference > EXACT:
        warnings.warn(
            f"values of this network lie exactly on thresholds of its activations, as averages of levels do, and there "
            f"the order of a sum decides: on the example the decoupled network differs by {difference:.2g} of the "
            "largest output, in float64 too. Use another number of levels, or put a BN between the average and the "
            "activation",
            stacklevel=3,
        )


def _transform(analysis: Analysis, topology: Topology, rewrite: bool) -> tuple[nn.Module, dict[str, str]]:
    return Rewriter(analysis, Carriers(analysis, topology), topology, rewrite).run()


def _difference_float64(
    model: nn.Module, inputs: tuple[Tensor, ...], topology: Topology, rewrite: bool
) -> float:
    """Decouple once more in float64, where there is no rounding to speak of, and refuse any difference."""
    wide = copy.deepcopy(model).double()
    doubles = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    with AllFloat64(), torch.no_grad():
        result, _ = _transform(analyse(wide, doubles), topology, rewrite)
        difference = relative_difference(wide.eval()(*doubles), result.eval()(*doubles))
        differs = difference > EXACT and compare(wide, result, doubles, difference).flips == 0
    if differs:
        raise GraphError(
            f"{type(model).__name__} cannot be decoupled: the result differs by {difference:.2g} in float64. "
            f"An operation of its forward() treats channels in a way that is not known (please report it), or compares "
            f"values that lie exactly on its threshold, as x > 0 does after a BN that has seen no data"
        )
    return difference


def _check(model: nn.Module, analysis: Analysis) -> None:
    refuse_shared(analysis)
    quantized = [analysis.module(n) for n in analysis.of_kind(Kind.QUANT)]
    if not any(copies_of(m) > 1 for m in quantized):
        found = sorted({str(m.levels) for m in model.modules() if isinstance(m, bnn.QuantAct)})
        raise GraphError(
            f"{type(model).__name__} has no activation to decouple: bd.nn.QuantAct with 3 or more levels is "
            f"needed, found {'levels ' + ', '.join(found) if found else 'no QuantAct at all'}"
        )


class NotBinaryError(GraphError):
    """A one-bit layer would not read bits (`strict=True`)."""
