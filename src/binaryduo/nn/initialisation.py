"""Fresh weights for a network: He's rule, as the paper has it."""

import torch
from torch import nn


@torch.no_grad()
def draw_weights(model: nn.Module) -> nn.Module:
    """Draw the weights of all layers anew by He's rule, in place; biases and BN stay as they are.

    >>> layer = draw_weights(nn.Linear(1000, 1000))
    >>> round(layer.weight.std().item() * 500**0.5, 1)
    1.0
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return model


@torch.no_grad()
def initialise(model: nn.Module) -> nn.Module:
    """Give every parameter a fresh value, in place: He's normal for weights, 0 for biases, BN as new.

    Modules that hold parameters of another kind start again by their own `reset_parameters`, if they
    have one. Returns the model.

    >>> layer = initialise(nn.Linear(1000, 1000))
    >>> round(layer.weight.std().item() * 500**0.5, 1)
    1.0
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(reset := getattr(module, "reset_parameters", None), type(module.forward)):
            reset()
    return model
