"""How equal a decoupled network is to the coupled one it was made from, and how equal it could be.

In float64 the two agree to rounding. In float32 the same sums are added in another order, so a pre-activation
that lies within rounding of a threshold can flip, and a flip can change a prediction. `compare` counts the
flips on the example and holds each one that started in an image (before any other flip there) against a bound
on the rounding error of its pre-activation.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from binaryduo import nn as bnn
from binaryduo.errors import GraphError
from binaryduo.graph.analysis import Analysis, analyse
from binaryduo.graph.operations import Kind
from binaryduo.graph.tracing import tensors_in


@dataclass(frozen=True)
class Comparison:
    """What was measured on the example input."""

    images: int
    activations: int  # activation values compared
    flips: int  # of them, how many have another level
    started: int  # flips before which nothing had flipped in their image
    farthest: float  # the farthest of those from its threshold, as a share of the rounding bound: at most 1
    changed_predictions: int
    largest_difference: float  # of the outputs, relative to the largest output, in the model's precision
    largest_difference_float64: float  # the same with everything in float64

    def __str__(self) -> str:
        text = (
            f"{self.flips:,} of {self.activations:,} activations flipped, "
            f"{self.changed_predictions:,} of {self.images:,} predictions changed; "
            f"largest difference {self.largest_difference:.2g} "
            f"({self.largest_difference_float64:.2g} in float64)"
        )
        if self.started:
            text += (
                f"; {self.started} flips started, the farthest at {self.farthest:.2f} of the rounding bound"
            )
        return text


@dataclass(frozen=True)
class Decoupling:
    """What `decouple` did: kept on the result as `model.decoupling`.

    `names` maps each parameter of the coupled network to the one that took its place. `reads_levels` are the one-bit
    layers whose inputs should be bits but are averages of copies.
    """

    topology: str
    names: dict[str, str]
    comparison: Comparison
    reads_levels: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"decoupled ({self.topology}): {self.comparison}"


def compare(coupled: nn.Module, decoupled: nn.Module, inputs: tuple[Tensor, ...], exact: float) -> Comparison:
    """Run both networks on the inputs and count the differences; `exact` is the difference in float64.

    Raises GraphError if a flip started farther from its threshold than rounding can reach.
    """
    a, before, acts = _run(coupled, inputs)
    b, after, _ = _run(decoupled, inputs)
    images = int(inputs[0].shape[0])
    clean = torch.ones(images, dtype=torch.bool, device=inputs[0].device)  # images without a flip so far
    flips = started = activations = 0
    farthest, bounds = 0.0, None
    for number, ((pre, out), (_, bits)) in enumerate(zip(before, after, strict=True)):
        flipped = _levels(out, acts[number]) != _bit_sum(bits, out)
        activations += out.numel()
        if not bool(flipped.any()):
            continue
        flips += int(flipped.sum())
        if len(flipped) != images:  # images are not told apart here: take them as one
            clean = clean.all().expand(len(flipped)).clone()
        roots = flipped & clean.view(-1, *[1] * (flipped.dim() - 1))
        if bool(roots.any()):
            started += int(roots.sum())
            bounds = _Bounds(coupled, inputs).acts if bounds is None else bounds
            distances = torch.stack([(pre - t).abs() for t in acts[number].steps(pre.dim())]).amin(0)
            farthest = max(farthest, float((distances / bounds[number])[roots].max()))
        clean &= ~flipped.flatten(1).any(1)
        if len(clean) != images:
            clean = clean.all().expand(images).clone()
    if farthest > 1:
        raise GraphError(
            f"decoupling changed an activation whose input is {farthest:.1f} times farther from its "
            f"threshold than rounding can reach: the result would not be the same function"
        )
    return Comparison(
        images, activations, flips, started, farthest, _changed(a, b), relative_difference(a, b), exact
    )


def layers_that_read_levels(
    coupled: nn.Module, decoupled: nn.Module, inputs: tuple[Tensor, ...]
) -> tuple[str, ...]:
    """The one-bit layers that read levels (0, 1/2, 1) in both networks, where the decoupled one's should read bits."""
    steps = [m.levels - 1 for m in coupled.modules() if isinstance(m, bnn.QuantAct) and m.levels is not None]
    before = _one_bit_inputs(coupled, inputs, [1, *steps])
    after = _one_bit_inputs(decoupled, inputs, [1])
    return tuple(
        name for (_, levels), (name, bits) in zip(before, after, strict=False) if levels and not bits
    )


def _one_bit_inputs(model: nn.Module, inputs: tuple[Tensor, ...], steps: list[int]) -> list[tuple[str, bool]]:
    """Each one-bit layer in the order of execution, and whether all it reads are multiples of one of 1/steps."""
    work = copy.deepcopy(model).eval()
    names = {module: name for name, module in work.named_modules()}
    seen: list[tuple[str, bool]] = []

    def note(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        x = args[0]
        inside = bool(((x >= 0) & (x <= 1)).all())
        found = inside and any(bool((x * n == (x * n).round()).all()) for n in set(steps))
        seen.append((names[module], found))

    for module in work.modules():
        if bnn.is_binary_weight(module):
            module.register_forward_pre_hook(note)
    with torch.no_grad():
        work(*inputs)
    return seen


def relative_difference(a: Any, b: Any) -> float:
    """The largest difference of two outputs (tensors, or nested tuples), relative to the largest value.

    >>> relative_difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    0.25
    >>> relative_difference(torch.tensor([1.0]), torch.tensor([float("nan")]))
    inf
    """
    pairs = list(zip(tensors_in(a), tensors_in(b), strict=True))
    if not pairs:
        raise GraphError(f"the model returns {type(a).__name__}, in which there are no tensors to compare")
    worst = 0.0
    for u, v in pairs:
        if u.shape != v.shape:
            return float("inf")
        if u.numel():
            u, v = u.double(), v.double()
            same = (u == v) | (u.isnan() & v.isnan())
            apart = torch.where(same, 0.0, (u - v).abs() / u.abs().max().clamp_min(1e-300))
            worst = max(worst, float(apart.nan_to_num(nan=float("inf")).max()))
    return worst


def _changed(a: Any, b: Any) -> int:
    if isinstance(a, Tensor) and a.dim() == 2 and a.shape == b.shape:
        return int((a.argmax(1) != b.argmax(1)).sum())
    return 0


def _run(
    model: nn.Module, inputs: tuple[Tensor, ...]
) -> tuple[Any, list[tuple[Tensor, Tensor]], list[bnn.QuantAct]]:
    """The output, each activation's input and output in the order of execution, and the activations."""
    seen: list[tuple[Tensor, Tensor]] = []
    acts: list[bnn.QuantAct] = []
    work = copy.deepcopy(model).eval()

    def note(module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        if isinstance(module, bnn.QuantAct) and module.levels is not None:
            seen.append((args[0], out))
            acts.append(module)

    for module in work.modules():
        if isinstance(module, bnn.QuantAct):
            module.register_forward_hook(note)
    with torch.no_grad():
        return work(*inputs), seen, acts


def _levels(out: Tensor, act: bnn.QuantAct) -> Tensor:
    assert act.levels is not None
    return (out * (act.levels - 1)).round()


def _bit_sum(bits: Tensor, like: Tensor) -> Tensor:
    """The level that the copies' bits stand for: their sum, over the dimension that is longer than before."""
    for dim, (have, want) in enumerate(zip(bits.shape, like.shape, strict=True)):
        if have != want:
            split = bits.view(*bits.shape[:dim], have // want, want, *bits.shape[dim + 1 :])
            return split.sum(dim)
    return bits


class _Bounds(fx.Interpreter):
    """Runs the coupled network and bounds, for each activation, how far two orders of summation can differ.

    Each node gets an error tensor beside its value. With u the unit roundoff: a layer with fan-in n adds
    (n + 2) u Σ|w||x| and passes its input's error on through |w|; BN adds 4 u (|a|(|x| + |mean|) + |bias|);
    an addition adds the errors and one rounding; an activation starts again from 0 (nothing has flipped).
    Both networks commit such an error, and the decoupled one has up to `copies` times the terms, hence the
    factor 2 · copies. Operations that are not known pass their error on unchanged.
    """

    def __init__(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.analysis: Analysis = analyse(model, inputs)
        work = self.analysis.model.eval()
        super().__init__(work, graph=self.analysis.graph)
        self.errors: dict[fx.Node, Tensor] = {}
        self.acts: list[Tensor] = []
        self.values: dict[fx.Node, Any] = {}
        self.extra_traceback = False
        # Learned thresholds travel along streams, as biases that are rounded at every addition.
        offsets = [m.offsets for m in work.modules() if isinstance(m, bnn.QuantAct) and m.interval]
        most = max((float(o.abs().max()) for o in offsets if o is not None and o.numel()), default=0.0)
        self.reach = most * (1 + sum(1 for _ in self.analysis.of_kind(Kind.ADD)))
        with torch.no_grad():
            self.run(*inputs)

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        self.values[n] = value
        if isinstance(value, Tensor):
            self.errors[n] = self._error(n, value)
        return value

    def _error(self, node: fx.Node, out: Tensor) -> Tensor:
        info = self.analysis.info[node]
        u = torch.finfo(out.dtype).eps / 2 if out.is_floating_point() else 0.0
        sources = self.analysis.tensor_inputs(node)
        if not sources:
            return torch.zeros_like(out)
        x = self.values[sources[0]]
        error = self.errors.get(sources[0], torch.zeros_like(out))
        module = self.analysis.module(node) if node.op == "call_module" else None
        if info.kind is Kind.QUANT:
            assert isinstance(module, bnn.QuantAct)
            assert module.levels is not None
            floor = 4 * u * (x.abs() + 1 + self.reach)
            self.acts.append((2 * (module.levels - 1) * error + floor).clamp_min(torch.finfo(out.dtype).tiny))
            return torch.zeros_like(out)
        if isinstance(module, nn.modules.conv._ConvNd | nn.Linear) and info.kind is Kind.LAYER:
            transposed = isinstance(module, nn.modules.conv._ConvTransposeNd)
            terms = (module.weight[:, 0] if transposed else module.weight[0]).numel() + 2
            size = self._with_weights_abs(module, x.abs())
            return terms * u * size + self._with_weights_abs(module, error, bias=False)
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and module.running_var is not None:
            shape = (1, -1) + (1,) * (x.dim() - 2)
            gain = (module.running_var + module.eps).rsqrt()
            gain = gain if module.weight is None else gain * module.weight.abs()
            bias = torch.zeros_like(gain) if module.bias is None else module.bias.abs()
            assert module.running_mean is not None
            mean = module.running_mean.abs()
            inner = gain.view(shape) * (x.abs() + mean.view(shape)) + bias.view(shape)
            grown: Tensor = 4 * u * inner + gain.view(shape) * error
            return grown
        if info.kind is Kind.JOIN and info.call.operation.name == "mul" and len(info.call.sources) == 2:
            (a, one), (b, two) = ((self.values[s].abs(), self.errors[s]) for s in info.call.sources)
            product: Tensor = a * two + b * one + u * out.abs()
            return product
        if info.kind is Kind.SCALED and not isinstance(module, nn.PReLU):
            return _norm_error(module, x, error, out) + 8 * u * (out.abs() + 1)
        if info.kind is Kind.ADD:
            total = error * 1
            for source in sources[1:]:
                total = total + self.errors[source]
            return total + u * out.abs()
        if info.kind in (Kind.POOL, Kind.WEIGHTED, Kind.RESHAPE) and node.op == "call_module":
            assert module is not None
            pooled: Tensor = module(error)
            return pooled + 4 * u * out.abs()
        known = [self.errors[s] for s in sources if s in self.errors]  # not for tuples of tensors
        widest = max((float(error.max()) for error in known if error.numel()), default=0.0)
        return torch.full_like(out, widest) + 4 * u * out.abs()

    @staticmethod
    def _with_weights_abs(layer: nn.Module, x: Tensor, bias: bool = True) -> Tensor:
        clone = copy.copy(layer)
        clone._parameters = dict(layer._parameters)
        weight = layer.get_parameter("weight").abs()
        if bnn.is_binary_weight(layer):
            weight = torch.full_like(weight, float(weight.mean()))
        clone._parameters["weight"] = nn.Parameter(weight, requires_grad=False)
        old = layer._parameters["bias"]
        clone._parameters["bias"] = (
            nn.Parameter(old.abs(), requires_grad=False) if bias and old is not None else None
        )
        return clone(x)  # type: ignore[no-any-return]


def _norm_error(module: nn.Module | None, x: Tensor, error: Tensor, out: Tensor) -> Tensor:
    """What a norm over the values of an image makes of errors up to e in them: the mean moves by e, the deviation σ by
    e, so (x − mean)/σ by at most (2 + |y|) e/σ with y its value before the scale."""
    groups = getattr(module, "num_groups", 1 if isinstance(module, nn.LayerNorm) else x.shape[1])
    dims = len(getattr(module, "normalized_shape", ())) or None
    flat = x.flatten(-dims) if dims else x.reshape(len(x), groups, -1)
    deviation = (flat.var(-1, correction=0) + float(module.eps)).sqrt().min()  # type: ignore[union-attr, arg-type]
    gain = getattr(module, "weight", None)
    largest = 1.0 if gain is None else float(gain.abs().max())
    reach = 2 + (x - x.mean()).abs().max() / deviation
    return torch.full_like(out, float(error.max() * reach / deviation) * largest)
