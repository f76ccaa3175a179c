"""Fresh weights for a network: by He's rule, as the paper has it, or as its user draws them."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn


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


@torch.no_grad()
def redraw(model: nn.Module, like: Mapping[str, Tensor]) -> nn.Module:
    """Give every parameter a fresh value as those of the same name in `like` have, in place; shapes may differ.

    A weight is drawn from a normal distribution with the deviation of the one it is like, times √(old / new fan-in),
    so that its layer's outputs are as large as before: any scheme of the user's is followed. What is constant there
    (a zero bias, BN's ones) stays that constant; other vectors are drawn with the mean and deviation they had. BN's
    statistics start anew. Returns the model.

    >>> wide = nn.init.normal_(nn.Linear(400, 400).weight, std=0.03)
    >>> narrow = redraw(nn.Linear(100, 400, bias=False), {"weight": wide})
    >>> round(narrow.weight.std().item(), 2)
    0.06
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.modules.conv._ConvNd)]
    weights = {id(m.weight): int(getattr(m, "transposed", False)) for m in layers}
    for name, parameter in model.named_parameters():
        old = like[name]
        vector = parameter.dim() < 2 or (id(parameter) not in weights and max(old.shape) == old.numel())
        if bool((old == old.flatten()[0]).all()):
            parameter.fill_(float(old.flatten()[0]))
        elif not vector:
            out = weights.get(id(parameter), 0)  # the dimension of its outputs
            fan = (old.numel() // old.shape[out]) / max(1, parameter.numel() // parameter.shape[out])
            parameter.normal_(0.0, float(old.std()) * math.sqrt(fan))
        else:
            parameter.normal_(float(old.mean()), float(old.std()))
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.reset_running_stats()
    return model
