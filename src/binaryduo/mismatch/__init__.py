"""How far is what back-propagation tells a quantized network from the truth?

    problem = bd.mismatch.ToyProblem(levels=2)           # Algorithm 1 at the paper's size
    bd.mismatch.cosine(problem.coarse_gradient(), problem.cdg())

Paper: Section 4, Appendices B, C and H.
"""

from binaryduo.mismatch.similarity import cosine
from binaryduo.mismatch.toy import ToyProblem

__all__ = ["ToyProblem", "cosine"]
