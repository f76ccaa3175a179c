"""On real images: packed predictions against PyTorch's float32, every difference traced to rounding."""

import torch

import binaryduo as bd
from binaryduo.data import load
from binaryduo.data.in_memory import normalise
from binaryduo.packing.agreement import agreement
from tests.engine.test_pack import trained_like


def test_real_images(tmp_path):
    test = load("fashion-mnist-small").test
    images = normalise(test.images[:256], test.mean, test.std).contiguous()
    torch.manual_seed(0)
    options = {"weight_bits": 1, "width": 0.25, "in_channels": 1, "image_size": 28}
    model = trained_like(bd.models.build("vgg7", variant="decoupled", **options))
    bd.pack(model, images[:1], tmp_path / "net.duo", verbose=False)
    found = agreement(model, bd.load(tmp_path / "net.duo"), images)
    assert found.images == len(images)
    assert found.changed <= 0.02 * found.images
    assert len(found.causes) == found.changed
    assert all(cause.rounding for cause in found.causes)


def test_another_model_is_not_rounding(tmp_path):
    """A difference that is not rounding is told apart from one that is."""
    torch.manual_seed(0)
    model = trained_like(bd.models.build("mlp", variant="decoupled", weight_bits=1, image_size=8, width=0.25))
    images = torch.randn(200, 1, 8, 8)
    bd.pack(model, images[:1], tmp_path / "net.duo", verbose=False)
    with torch.no_grad():
        next(m for m in model.modules() if isinstance(m, torch.nn.BatchNorm1d)).bias.add_(0.2)
    found = agreement(model, bd.load(tmp_path / "net.duo"), images)
    assert found.changed > 0
    assert not all(cause.rounding for cause in found.causes)
    assert "predictions differ" in str(found)
