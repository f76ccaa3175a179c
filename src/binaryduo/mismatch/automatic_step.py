"""The step of the CDG in one layer, chosen from its weights and the data.

A fixed step means different things in different layers: after BN a network with weights ten times as large computes the
same, but a step of 1e-3 is then ten times as small, and may not move a single activation. So the step is a share of the
weights' size (their root mean square): the smallest of a few for which enough samples notice a change at all.
"""

import math
from collections.abc import Sequence

from torch import Tensor

from binaryduo.mismatch.evaluators import Evaluator, Samples
from binaryduo.mismatch.perturbation import Coordinate

SHARES = (0.03, 0.1, 0.3, 1.0)  # of the weights' root mean square
NOTICED = 0.05  # the share of (weight, sample) pairs in which some activation changes
TRIED = 8  # weights that the choice is made on


def choose_step(
    evaluator: Evaluator, name: str, weight: Tensor, at: Sequence[Coordinate], samples: Samples
) -> float:
    """The smallest share of the weights' size whose steps are noticed often enough; the largest where none is.

    Where whole forward passes are made nothing is known of activations, and a tenth is taken.
    """
    size = math.sqrt(float(weight.double().square().mean())) or 1.0
    if evaluator.method != "suffix":
        return 0.1 * size
    few = list(at[:: max(1, len(at) // TRIED)][:TRIED])
    part = samples.first(2 * samples.batch_size)
    for share in SHARES:
        _, evaluated = evaluator.losses(name, few, [share * size] * len(few), part)
        if evaluated >= NOTICED * len(few) * len(part.inputs):
            return share * size
    return SHARES[-1] * size
