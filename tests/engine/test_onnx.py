"""ONNX Runtime computes what PyTorch computes, for every network and variant, at any batch size."""

import numpy as np
import pytest
import torch
from torch import nn

import binaryduo as bd
from binaryduo.errors import ArgumentError, GraphError
from binaryduo.nn import QuantAct
from binaryduo.packing.onnx import OPSET, standard_modules
from tests.engine.test_pack import trained_like

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

NETWORKS = {
    "mlp": {"image_size": 8, "width": 0.125},
    "vgg7": {"image_size": 16, "width": 0.25, "weight_bits": 1},
    "alexnet": {"image_size": 67, "width": 0.0625, "num_classes": 11},
    "resnet18": {"image_size": 32, "width": 0.125, "num_classes": 11},
    "resnet18-sc": {"image_size": 32, "width": 0.125, "num_classes": 11},
}


def run_onnx(path, images):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"images": images})[0]


@pytest.mark.parametrize("variant", ["baseline", "coupled", "decoupled"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, variant, tmp_path):
    options = NETWORKS[name]
    model = trained_like(bd.models.build(name, variant=variant, **options))
    size = options["image_size"]
    path = tmp_path / "net.onnx"
    bd.export_onnx(model, torch.randn(1, 1 if name == "mlp" else 3, size, size), path)
    images = torch.randn(12, 1 if name == "mlp" else 3, size, size)
    with torch.no_grad():
        wanted = model(images).numpy()
    found = run_onnx(path, images.numpy())
    near = np.abs(found - wanted).max(1) <= 1e-4 * np.abs(wanted).max()
    assert near.mean() >= 0.75  # a value within rounding of its threshold may flip, and its image with it
    np.testing.assert_allclose(run_onnx(path, images[:1].numpy())[0], found[0], atol=1e-3)
    graph = onnx.load(path)
    assert graph.opset_import[0].version == OPSET
    kinds = {node.op_type for node in graph.graph.node}
    assert "GreaterOrEqual" in kinds
    assert all(node.domain in ("", "ai.onnx") for node in graph.graph.node)


def test_standard_modules_compute_the_same():
    model = trained_like(bd.models.build("vgg7", variant="coupled", width=0.25, image_size=16, weight_bits=1))
    x = torch.randn(3, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(standard_modules(model)(x), model(x), rtol=0, atol=1e-5)


def test_one_input_only(tmp_path):
    with pytest.raises(ArgumentError, match="one input"):
        bd.export_onnx(nn.Bilinear(2, 2, 2), (torch.zeros(1, 2), torch.zeros(1, 2)), tmp_path / "x.onnx")


def test_an_activation_with_a_forward_of_its_own_is_refused(tmp_path):
    class Doubled(QuantAct):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(nn.Conv2d(3, 8, 3), Doubled(3), nn.Conv2d(8, 4, 3)).eval()
    with pytest.raises(GraphError, match="cannot be exported"):
        bd.export_onnx(model, torch.randn(2, 3, 8, 8), tmp_path / "net.onnx")
    assert not (tmp_path / "net.onnx").exists()


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm, self.act = nn.Embedding(10, 8), nn.BatchNorm1d(8), QuantAct()
        self.head = nn.Linear(8, 3)

    def forward(self, numbers):
        return self.head(self.act(self.norm(self.words(numbers).mean(1))))


def test_whole_numbers_as_inputs(tmp_path):
    model, numbers = trained_like(Words()), torch.randint(0, 10, (5, 6))
    bd.export_onnx(model, numbers[:1], tmp_path / "net.onnx")
    with torch.no_grad():
        np.testing.assert_allclose(
            run_onnx(tmp_path / "net.onnx", numbers.numpy()), model(numbers), atol=1e-5
        )
