"""How many values reach an activation where its STE lets no gradient through."""

import torch
from torch import Tensor, nn

from binaryduo import ste as stes
from binaryduo.graph.tracing import copied
from binaryduo.nn import QuantAct
from binaryduo.nn.intervals import to_unit


@torch.no_grad()
def outside_support(model: nn.Module, inputs: Tensor) -> dict[str, float]:
    """For each activation, by its name, the share of its inputs at which the STE's derivative is zero.

    The model is copied, held in evaluation mode and left as it was.

    >>> outside_support(nn.Sequential(QuantAct()), torch.tensor([[-0.5, 0.5, 0.9, 1.5]]))
    {'0': 0.5}
    """
    net, found = copied(model).eval(), {}
    names = {module: name for name, module in net.named_modules()}

    def note(act: nn.Module, args: tuple[Tensor, ...]) -> None:
        assert isinstance(act, QuantAct)
        if act.levels is None:
            return
        x = args[0]
        if act.interval is not None and act.offsets is not None:
            x = to_unit(x, act.offsets.to(x.dtype), act.levels)[0]
        zero = stes.derivative(act.ste, x, act.levels, act.slope) == 0
        found[names[act]] = float(zero.double().mean())

    for module in net.modules():
        if isinstance(module, QuantAct):
            module.register_forward_pre_hook(note)
    net(inputs)
    return found
