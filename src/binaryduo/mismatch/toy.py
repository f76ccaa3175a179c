"""The paper's toy problem: can a network learn another random one, and what is its gradient really?

Paper: Section 4.2, Algorithm 1.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from binaryduo import ste as stes
from binaryduo.errors import ArgumentError, unknown_name
from binaryduo.mismatch import cdg, esg
from binaryduo.mismatch.coarse import gradient_sums, sensitivities
from binaryduo.mismatch.network import Gradients, Trace, Weights, draw_weights, forward, layer_names
from binaryduo.mismatch.parallel import OnProgress, generator, map_blocks
from binaryduo.nn.activation import check_interval
from binaryduo.nn.intervals import Interval
from binaryduo.ste import STE

# Streams of random numbers, so that the data do not depend on the weights' shapes.
_DATA, _WEIGHTS, _TARGET, _NOISE = range(4)


Offsets = dict[str, Tensor]  # of the thresholds of each hidden layer
# (forward pass of some samples, their targets) -> sums over these samples
_Work = Callable[[Trace, Tensor], list[Tensor]]


class ToyProblem:
    """Algorithm 1: Gaussian data, a target network, an evaluating network, the loss 1/(2n) Σ (F - F*)².

    Both networks have `hidden_layers` dense layers of `width` units and one output, no biases, and activations with
    `levels` levels (None: ReLU). With `interval` the evaluating network's thresholds can be moved, of each layer or of
    each unit ("channel"): `offsets` are what is added to them, by layer (levels - 1, 1 or width), zero at first; the
    target network keeps the usual ones. The data are float32 numbers, all arithmetic is float64. They are generated in
    blocks, each from its own seed, and kept only while that takes less than `KEEP_BYTES`; so ten million samples need
    no more memory than two. The first samples of a problem with more samples are the same.

    >>> problem = ToyProblem(width=4, hidden_layers=2, samples=1000)
    >>> {name: tuple(g.shape) for name, g in problem.cdg(step=0.01).items()}
    {'fc1': (4, 4), 'fc2': (4, 4), 'out': (1, 4)}
    """

    BLOCK = 16384  # samples at a time: 4 MB of float64 at width 32, which fits the cache
    KEEP_BYTES = 1 << 28

    def __init__(
        self,
        width: int = 32,
        hidden_layers: int = 3,
        samples: int = 1_000_000,
        levels: int | None = 2,
        ste: "str | STE" = "relu1",
        seed: int = 0,
        init: str = "he",
        device: "str | torch.device" = "cpu",
        interval: Interval | None = None,
    ) -> None:
        for name, value in (("width", width), ("hidden_layers", hidden_layers), ("samples", samples)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ArgumentError(f"{name} must be a whole number from 1, not {value!r}")
        if levels is not None:
            stes.check_levels(levels)
        check_interval(interval, levels)
        stes.get(ste)
        self.interval = interval
        self.width, self.hidden_layers, self.samples = width, hidden_layers, samples
        self.levels, self.ste, self.seed, self.init = levels, ste, seed, init
        self.device = torch.device(device)
        self.layers = layer_names(hidden_layers)
        self.weights: Weights = self._draw(_WEIGHTS)
        self.target_weights: Weights = self._draw(_TARGET)
        self.offsets: Offsets = {}
        if levels is not None and interval is not None:
            shape = (levels - 1, width if interval == "channel" else 1)
            zeros = torch.zeros(shape, dtype=torch.float64, device=self.device)
            self.offsets = {name: zeros.clone() for name in self.layers[:-1]}
        self._kept: dict[int, Tensor] = {}
        self._targets: Tensor | None = None
        self._targets_of: tuple[int | None, list[Tensor]] = (levels, [])  # what they were made with

    def _draw(self, stream: int) -> Weights:
        drawn = draw_weights(self.width, self.hidden_layers, self.init, self.seed, stream)
        return {name: w.to(self.device) for name, w in drawn.items()}

    # --- data -----------------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """How many blocks the samples are worked on in."""
        return -(-self.samples // self.BLOCK)

    def _samples_of(self, index: int) -> slice:
        return slice(index * self.BLOCK, (index + 1) * self.BLOCK)

    def _block(self, index: int) -> Tensor:
        """Block `index` of the data, (B, width), float64; it lies in memory by columns, as `forward` likes it."""
        x = self._kept.get(index)
        if x is None:
            # Always a whole block, cut afterwards: the numbers do not depend on how many are wanted.
            x = torch.randn(self.BLOCK, self.width, generator=generator(self.seed, _DATA, index))
            x = x[: self.samples - index * self.BLOCK].to(self.device).T.contiguous().T
            if self.samples * self.width * 4 <= self.KEEP_BYTES:
                self._kept[index] = x
        return x.double()

    @property
    def inputs(self) -> Tensor:
        """X (width, samples), float64: made from its blocks at each access."""
        return torch.cat([self._block(i) for i in range(self.blocks)]).T

    @property
    def targets(self) -> Tensor:
        """F*(X) (samples,), float64: the target network's outputs."""
        weights = [self.target_weights[name].double() for name in self.layers]
        levels, used = self._targets_of
        if self._targets is None or levels != self.levels or not all(map(torch.equal, used, weights)):
            self._targets_of = self.levels, [w.clone() for w in weights]
            targets = torch.empty(self.samples, dtype=torch.float64, device=self.device)

            def work(index: int) -> None:
                # Written in place: small results kept among large temporaries would scatter the heap.
                targets[self._samples_of(index)] = forward(self._block(index), weights, self.levels).output

            for _ in map_blocks(work, self.blocks):
                pass
            self._targets = targets
        return self._targets

    def sums(self, work: _Work, progress: OnProgress | None = None) -> list[Tensor]:
        """What `work` returns for a forward pass of some samples and their targets, added up over all samples.

        >>> ToyProblem(width=2, samples=10).sums(lambda trace, targets: [torch.tensor(len(targets))])
        [tensor(10)]
        """
        targets, weights = self.targets, self.layer_weights()  # made before the threads start
        learned = self.layer_offsets()

        def of_block(index: int) -> list[Tensor]:
            trace = forward(self._block(index), weights, self.levels, learned)
            return work(trace, targets[self._samples_of(index)])

        total: list[Tensor] = []
        for part in map_blocks(of_block, self.blocks, progress):
            total = part if not total else [a + b for a, b in zip(total, part, strict=True)]
        return total

    # --- loss and gradients ---------------------------------------------------------------------------

    def layer_weights(self) -> list[Tensor]:
        """The evaluating network's weights in the order of its layers, float64."""
        return [self.weights[name].double() for name in self.layers]

    def layer_offsets(self) -> list[Tensor] | None:
        """What is added to the thresholds of each hidden layer in its order, float64; None where they are fixed."""
        if self.levels is None or self.interval is None:
            return None
        found = [self.offsets[name].double() for name in self.layers[:-1]]
        for name, own in zip(self.layers, found, strict=False):
            starts = torch.tensor(stes.thresholds(self.levels), dtype=torch.float64, device=self.device)
            if not bool(((starts.unsqueeze(1) + own).diff(dim=0) > 0).all()):
                raise ArgumentError(f"the thresholds of {name} are not in ascending order")
        return found

    def loss(self) -> float:
        """1/(2n) Σ (F - F*)² of the evaluating network.

        >>> same = ToyProblem(width=2, samples=10); same.weights = same.target_weights
        >>> same.loss()
        0.0
        """
        (squares,) = self.sums(lambda trace, targets: [(trace.output - targets).square().sum()])
        return float(squares) / (2 * self.samples)

    def coarse_gradient(
        self, ste: "str | STE | None" = None, progress: OnProgress | None = None
    ) -> Gradients:
        """What back-propagation through the STE returns; `ste` stands in for the problem's own.

        For full precision (levels=None) it is the true gradient.
        """
        return self.coarse_gradients([self.ste if ste is None else ste], progress)[0]

    def coarse_gradients(
        self, ste_list: "Sequence[str | STE]", progress: OnProgress | None = None
    ) -> list[Gradients]:
        """The coarse gradient for each of several STEs, from one forward pass."""
        chosen, weights = [stes.get(ste) for ste in ste_list], self.layer_weights()
        learned = self.layer_offsets()

        def work(trace: Trace, targets: Tensor) -> list[Tensor]:
            residual = trace.output - targets
            out: list[Tensor] = []
            for ste in chosen:
                deltas = sensitivities(trace, residual, weights, self.levels, ste, learned)
                out += gradient_sums(trace, deltas)
            return out

        sums = self.sums(work, progress)
        size = len(self.layers)
        return [self._named(sums[i * size : (i + 1) * size]) for i in range(len(chosen))]

    def cdg(self, step: float = 1e-3, method: str = "fast", progress: OnProgress | None = None) -> Gradients:
        """(L(W + step·e) - L(W - step·e)) / (2 step) for every single weight.

        `method="fast"` takes seconds; `method="brute"` evaluates the loss twice for every weight, as
        Algorithm 1 is printed, and is meant for checking on small problems. The STE plays no part in it.
        """
        _check_positive("step", step)
        if method == "brute":
            return self._brute(step, progress)
        if method != "fast":
            raise unknown_name("method", method, ["fast", "brute"])
        weights, learned = self.layer_weights(), self.layer_offsets()

        def work(trace: Trace, targets: Tensor) -> list[Tensor]:
            return cdg.sums(trace, targets, weights, self.levels, step, learned)

        return self._named(self.sums(work, progress))

    def _brute(self, step: float, progress: OnProgress | None) -> Gradients:
        x, targets, weights = self.inputs.T, self.targets, self.layer_weights()
        learned = self.layer_offsets()
        entries = [(i, j, k) for i, w in enumerate(weights) for j in range(len(w)) for k in range(w.shape[1])]

        def work(index: int) -> float:
            return cdg.brute(x, targets, weights, self.levels, step, *entries[index], learned)

        values = torch.tensor(list(map_blocks(work, len(entries), progress)), dtype=torch.float64)
        parts = torch.split(values.to(self.device), [w.numel() for w in weights])
        return {name: part.view_as(w) for name, part, w in zip(self.layers, parts, weights, strict=True)}

    def esg(
        self,
        sigma: float = 1e-3,
        samples: int = 1024,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        progress: OnProgress | None = None,
    ) -> Gradients:
        """The evolution-strategy gradient from `samples` antithetic pairs, one layer at a time.

        `dtype` is that of the evaluations; sums and the result are float64.
        """
        _check_positive("sigma", sigma)
        if not isinstance(samples, int) or samples < 1:
            raise ArgumentError(f"ESG needs a whole number of pairs from 1, not {samples!r}")
        weights, learned = self.layer_weights(), self.layer_offsets()
        noise = [
            esg.draw_noise(samples, (w.shape[0], w.shape[1]), generator(seed, _NOISE, i)).to(self.device)
            for i, w in enumerate(weights)
        ]

        def work(trace: Trace, targets: Tensor) -> list[Tensor]:
            return [
                esg.differences(trace, targets, weights, self.levels, sigma, noise[i], i, dtype, learned)
                for i in range(self.hidden_layers)
            ] + [(trace.output - targets).unsqueeze(0) @ trace.inputs[-1]]

        sums = self.sums(work, progress)
        out = {
            name: esg.combine(sums[i], noise[i], sigma, self.samples)
            for i, name in enumerate(self.layers[:-1])
        }
        out["out"] = esg.linear_estimate(sums[-1] / self.samples, noise[-1])
        return out

    def _named(self, sums: list[Tensor]) -> Gradients:
        return {name: s / self.samples for name, s in zip(self.layers, sums, strict=True)}


def _check_positive(name: str, value: float) -> None:
    if not (isinstance(value, int | float) and 0 < value < float("inf")):
        raise ArgumentError(f"{name} must be a positive number, not {value!r}")
