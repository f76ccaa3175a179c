"""How far is what back-propagation tells a quantized network from the truth?

    problem = bd.mismatch.ToyProblem(levels=2)           # Algorithm 1 at the paper's size
    bd.mismatch.cosine(problem.coarse_gradient(), problem.cdg())

    print(bd.mismatch.profile(model, loss_fn, images, labels))    # any network, layer by layer

Paper: Section 4, Appendices B, C and H.
"""

from binaryduo.mismatch.profile_result import LayerProfile, Profile, plot_profiles
from binaryduo.mismatch.profiling import compare_stes, profile
from binaryduo.mismatch.similarity import cosine
from binaryduo.mismatch.toy import ToyProblem

__all__ = ["LayerProfile", "Profile", "ToyProblem", "compare_stes", "cosine", "plot_profiles", "profile"]
