"""The qonnx package computes from our file what PyTorch computes from the model."""

import warnings

import numpy as np
import pytest
import torch

import binaryduo as bd
from tests.engine.test_pack import trained_like

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("qonnx", reason="the qonnx package is not installed: pip install 'binaryduo[qonnx]'")
    from qonnx.core import onnx_exec
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

pytestmark = pytest.mark.filterwarnings("ignore")  # of qonnx itself


@pytest.fixture(autouse=True)
def older_nodes(monkeypatch):
    """qonnx runs node by node in files of the onnx package's newest version, which ONNX Runtime may not know yet."""
    make = onnx_exec.qonnx_make_model

    def made(*arguments, **options):
        model = make(*arguments, **options)
        model.ir_version = min(model.ir_version, 10)
        return model

    monkeypatch.setattr(onnx_exec, "qonnx_make_model", made)


def run_qonnx(path, images):
    model = ModelWrapper(str(path)).transform(InferShapes())
    (name,) = (value.name for value in model.graph.input)
    outputs = [execute_onnx(model, {name: image[None]}) for image in images]
    return model, np.concatenate([next(iter(out.values())) for out in outputs])


@pytest.mark.parametrize(
    ("name", "variant", "options"),
    [
        ("mlp", "decoupled", {"image_size": 8, "width": 0.125, "weight_bits": 1}),
        ("vgg7", "decoupled", {"image_size": 16, "width": 0.125, "weight_bits": 1}),
        ("vgg7", "coupled", {"image_size": 16, "width": 0.125, "weight_bits": 1}),
        ("vgg7", "coupled", {"image_size": 16, "width": 0.125, "weight_bits": 1, "levels": 4}),
        ("vgg7", "coupled", {"image_size": 16, "width": 0.125, "weight_bits": 1, "levels": 6}),
        ("vgg7", "coupled", {"image_size": 16, "width": 0.125, "weight_bits": 1, "interval": "layer"}),
        (
            "vgg7",
            "coupled",
            {"image_size": 16, "width": 0.125, "weight_bits": 1, "levels": 4, "interval": "channel"},
        ),
    ],
)
def test_networks(name, variant, options, tmp_path):
    torch.manual_seed(0)
    model = trained_like(bd.models.build(name, variant=variant, **options))
    for act in (m for m in model.modules() if isinstance(m, bd.nn.QuantAct) and m.interval is not None):
        with torch.no_grad():
            act.offsets.add_(0.04 * torch.randn_like(act.offsets))  # learned thresholds
    images = torch.randn(4, 1 if name == "mlp" else 3, options["image_size"], options["image_size"])
    bd.export_qonnx(model, images[:1], tmp_path / "net.onnx")
    found, logits = run_qonnx(tmp_path / "net.onnx", images.numpy())
    with torch.no_grad():
        wanted = model(images).numpy()
    near = np.abs(logits - wanted).max(1) <= 1e-4 * np.abs(wanted).max()
    assert near.mean() >= 0.75  # a value within rounding of its threshold may flip, and its image with it
    nodes = found.graph.node
    quantizers = [node for node in nodes if node.op_type in ("Quant", "BipolarQuant")]
    assert {node.domain for node in quantizers} == {"qonnx.custom_op.general"}
    layers = [m for m in model.modules() if bd.nn.is_binary_weight(m)]
    assert sum(node.op_type == "BipolarQuant" for node in quantizers) == len(layers)
    for node in quantizers:
        if node.op_type == "BipolarQuant":
            signs = found.get_initializer(node.input[0])
            assert set(np.unique(signs)) <= {-1.0, 1.0}


def test_thresholds_are_reached_and_learned_ones_kept(tmp_path):
    """Values exactly on the thresholds, where rounding half to even would differ."""
    for levels, interval in ((2, None), (3, None), (5, None), (3, "layer")):
        act = bd.nn.QuantAct(levels, interval=interval).eval()
        with torch.no_grad():
            if interval is not None:
                act.offsets.add_(0.0625)
        steps = act.thresholds.flatten().tolist()
        values = torch.tensor(
            [[-3.0, 0.0, 0.2, 0.7, 1.0, 5.0, *(s for s in steps), *(s - 0.01 for s in steps)]]
        )
        bd.export_qonnx(torch.nn.Sequential(act), values, tmp_path / "act.onnx")
        found = run_qonnx(tmp_path / "act.onnx", values.numpy())[1]
        with torch.no_grad():
            np.testing.assert_allclose(found, act(values).numpy(), atol=1e-6)
