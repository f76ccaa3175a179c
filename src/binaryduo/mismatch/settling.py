"""Statistics for networks that were not trained yet: a profile is taken in evaluation, where BN uses its own."""

import torch
from torch import Tensor, nn

PASSES, IMAGES = 20, 200


@torch.no_grad()
def settle_norms(model: nn.Module, images: Tensor) -> nn.Module:
    """Let batch normalisation see the images, in place, as it would have in training; returns the model.

    >>> net = settle_norms(nn.Sequential(nn.BatchNorm1d(1)), torch.tensor([[1.0], [3.0]]))
    >>> round(float(net[0].running_mean), 2), net.training
    (1.76, False)
    """
    model.train()
    for _ in range(PASSES):
        model(images[:IMAGES])
    return model.eval()
