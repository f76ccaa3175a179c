"""One network through every verb: what each gives is checked by another computation; a refusal is its sentence."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import binaryduo as bd
from binaryduo.graph.tracing import tensors_in
from binaryduo.mismatch.perturbation import is_weighted
from tests.architectures.registry import Architecture
from tests.random_nets import randomise

VERBS = ("couple", "decouple", "cost", "profile", "pack", "ONNX")
WORKS = "works"
IMAGES = 8  # other ones than the example


class Run:
    """The models on the way, and what became of each verb: "works", or the sentence that says why not."""

    def __init__(self, architecture: Architecture, folder: Path) -> None:
        torch.manual_seed(len(architecture.name))
        self.folder = folder
        baseline, self.x = architecture.make()
        self.baseline, self.baseline_weights = prepared(baseline), weights(baseline)
        self.others = torch.randn(IMAGES, *self.x.shape[1:])
        self.coupled: nn.Module | None = None
        self.binary: nn.Module | None = None
        self.outcome = {verb: self.tried(getattr(self, verb.lower())) for verb in VERBS}

    def tried(self, verb: Callable[[], None]) -> str:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                verb()
            except bd.BinaryDuoError as error:
                return str(error)
        told = [str(w.message) for w in said if issubclass(w.category, UserWarning)]
        return WORKS if not told else f"{WORKS}; {'; '.join(told)}"

    def couple(self) -> None:
        coupled = bd.couple(self.baseline, self.x)
        assert {m.levels for m in coupled.modules() if isinstance(m, bd.nn.QuantAct)} == {3}
        self.coupled = prepared(coupled)

    def decouple(self) -> None:
        """The same function in float64, on other images than the example, and within the baseline's weights."""
        coupled = self.coupled
        if coupled is None:  # the network itself with three levels
            coupled = self.coupled = prepared(self.with_levels(3))
        self.binary = bd.decouple(coupled, self.x).eval()
        assert {m.levels for m in self.binary.modules() if isinstance(m, bd.nn.QuantAct)} == {2}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wide = bd.decouple(coupled.double(), self.x.double()).eval()
        with torch.no_grad():
            wanted, found = coupled(self.others.double()), wide(self.others.double())
        coupled.float()
        for a, b in zip(tensors_in(wanted), tensors_in(found), strict=True):
            assert a.shape == b.shape
            assert float((a - b).abs().max()) <= 1e-10 * float(a.abs().max())
        if hasattr(coupled, "coupling"):
            assert weights(self.binary) <= self.baseline_weights

    def with_levels(self, levels: int) -> nn.Module:
        for module in self.baseline.modules():
            if isinstance(module, bd.nn.QuantAct):
                module.set_levels(levels)
        return self.baseline

    def cost(self) -> None:
        """Parameters as PyTorch counts them, multiply-accumulates as hooks count them."""
        found = bd.cost(self.deployed, self.x)
        assert found.params == sum(p.numel() for p in self.deployed.parameters())
        assert found.macs == macs(self.deployed, self.x[:1])
        if found.uncounted:
            raise bd.errors.GraphError(
                f"works; operations that are not counted: {', '.join(found.uncounted)}"
            )

    @property
    def deployed(self) -> nn.Module:
        return self.baseline if self.binary is None else self.binary

    def profile(self) -> None:
        """A coordinate of a layer's CDG again, by two whole forward passes; of all layers, or of four of many."""
        model = (self.baseline if self.coupled is None else self.coupled).double()
        x = self.x.double()
        names = [name for name, module in model.named_modules() if is_weighted(module)]
        some = None if len(names) < 6 else names[:: -(-len(names) // 4)]
        targets = torch.zeros(len(x))
        profile = bd.mismatch.profile(model, loss, x, targets, step="auto", coordinates=2, layers=some)
        assert profile.layers
        for layer in profile.layers:
            if layer.weights != "latent":
                continue
            weight, at = model.get_submodule(layer.name).weight, layer.coordinates[0]
            values = []
            with torch.no_grad():
                before = weight[at].clone()
                for sign in (1, -1):
                    weight[at] = before + sign * layer.step
                    values.append(float(loss(model(x), None)))
                weight[at] = before
            slope = (values[0] - values[1]) / (2 * layer.step)
            assert abs(slope - float(layer.cdg[0])) <= 1e-6 * max(1e-3, abs(slope)), layer.name
        model.float()

    def pack(self) -> None:
        path = self.folder / "net.duo"
        bd.pack(self.deployed, self.x, path, verbose=False)
        self.same(bd.load(path, threads=1).outputs(self.others.numpy()))

    def onnx(self) -> None:
        import onnxruntime

        path = self.folder / "net.onnx"
        bd.export_onnx(self.deployed, self.x, path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.same(session.run(None, {"images": self.others.numpy()}))

    def same(self, outputs: Any) -> None:
        """PyTorch's values, but for an image with an activation that lies on its threshold to rounding."""
        agree = agreeing(outputs, self.deployed, self.others, 1e-4)
        assert agree.sum() >= IMAGES - 2, f"{agree.sum()} of {IMAGES} images agree"


def agreeing(outputs: Any, model: nn.Module, x: Tensor, tolerance: float) -> Any:
    """Which images another engine gives PyTorch's values for, relative to the largest: (N,), bool."""
    with torch.no_grad():
        wanted = [t.numpy() for t in tensors_in(model(x))]
    agree = np.ones(len(x), bool)
    for found, value in zip(outputs, wanted, strict=True):
        assert found.shape == value.shape
        axes = tuple(range(1, value.ndim))
        agree &= np.abs(found - value).max(axis=axes) <= tolerance * np.abs(value).max()
    return agree


def prepared(model: nn.Module) -> nn.Module:
    """A network as after training: no BN is trivial, and no threshold or slope either."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.squeeze().dim() == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        randomise(model, generator)
    return model.eval()


def loss(output: Any, target: Any) -> Tensor:
    """Every value of every output counts, each a little differently."""
    total = torch.zeros((), dtype=torch.float64)
    for tensor in tensors_in(output):
        each = torch.linspace(0.5, 1.5, tensor[0].numel(), dtype=tensor.dtype).view_as(tensor[0])
        total = total + (tensor * each).square().mean()
    return total


def weights(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.squeeze().dim() > 1)


def macs(model: nn.Module, x: Tensor) -> int:
    """Multiply-accumulates of convolutions and dense layers for one image, counted where they run."""
    count = 0

    def hook(module: Any, inputs: Any, output: Tensor) -> None:
        nonlocal count
        transposed = isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d)
        count += module.weight[0].numel() * (inputs[0] if transposed else output).numel()

    handles = []
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
            handles.append(module.register_forward_hook(hook))
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return count
