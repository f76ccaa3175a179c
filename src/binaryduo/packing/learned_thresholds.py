"""A binary activation that has learned its threshold becomes a bias and an ordinary one: the engine knows 1/2 alone."""

from torch import nn

from binaryduo.graph.rewriting import in_sequence, replace_everywhere
from binaryduo.nn import QuantAct
from binaryduo.nn.copies import ReplicateCopies


def fix_thresholds(model: nn.Module) -> None:
    """Move learned thresholds of binary activations into biases before them, in place: x >= 1/2 + δ is x - δ >= 1/2.

    >>> net = nn.Sequential(nn.Linear(4, 3), QuantAct(interval="layer"))
    >>> fix_thresholds(net)
    >>> [type(module).__name__ for module in net[1]]
    ['ReplicateCopies', 'QuantAct']
    """
    for act in list(model.modules()):
        if isinstance(act, QuantAct) and act.levels == 2 and act.interval is not None:
            assert act.offsets is not None
            shift = ReplicateCopies(-act.offsets.detach(), copies=1).requires_grad_(False)
            replace_everywhere(model, act, in_sequence(shift, act, like=act))
            act.set_levels(2)
