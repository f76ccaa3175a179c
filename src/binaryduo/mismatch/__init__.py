"""How far is what back-propagation tells a quantized network from the truth?

    problem = bd.mismatch.ToyProblem(levels=2)           # Algorithm 1 at the paper's size
    bd.mismatch.cosine(problem.coarse_gradient(), problem.cdg())

    print(bd.mismatch.profile(model, loss_fn, images, labels))    # any network, layer by layer
    print(bd.mismatch.slopes(model, loss_fn, images, labels))     # the same question, all weights of a layer at once

Paper: Section 4, Appendices B, C and H.
"""

from binaryduo.mismatch.esg import expected_cosine
from binaryduo.mismatch.landscapes import loss_curve, loss_panels, loss_surface, surface_panel
from binaryduo.mismatch.profile_result import LayerProfile, Profile, plot_profiles
from binaryduo.mismatch.profiling import compare_stes, profile
from binaryduo.mismatch.similarity import cosine
from binaryduo.mismatch.slopes import LayerSlopes, Slopes, compare_slopes, plot_slopes, slopes
from binaryduo.mismatch.sweeps import BINARY_STES, FIGURE_CASES, PRECISIONS, Case, select, sweep
from binaryduo.mismatch.time_plot import plot_over_time
from binaryduo.mismatch.toy import ToyProblem

__all__ = [
    "BINARY_STES",
    "FIGURE_CASES",
    "PRECISIONS",
    "Case",
    "LayerProfile",
    "LayerSlopes",
    "Profile",
    "Slopes",
    "ToyProblem",
    "compare_slopes",
    "compare_stes",
    "cosine",
    "expected_cosine",
    "loss_curve",
    "loss_panels",
    "loss_surface",
    "plot_over_time",
    "plot_profiles",
    "plot_slopes",
    "profile",
    "select",
    "slopes",
    "surface_panel",
    "sweep",
]
