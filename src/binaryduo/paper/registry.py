"""Every experiment by its name, which is also that of its module and of the folder of its results."""

from importlib import import_module
from typing import Any

from binaryduo.errors import unknown_name
from binaryduo.paper.experiment import Experiment, Records

EXPERIMENTS = (
    "table1_cited",
    "figure1a_precision",
    "figure1b_width",
    "figure2_stes",
    "figure2_accuracy",
    "figure3_cosine",
    "figure4_activations",
    "figure5_architectures",
    "figure6_comparison",
    "table2_cost",
    "appendix_b_surface",
    "appendix_c_curves",
    "appendix_c_steps",
    "algorithm1",
    "appendix_d_imagenet",
    "appendix_e_two_bits",
    "appendix_f_quad",
    "appendix_g_intervals",
    "interval_mismatch",
    "appendix_h_sigmas",
    "appendix_h_equal_cost",
    "central_claim",
    "sample_size",
    "coupling_choices",
    "coupling_rates",
    "coupling_pays",
    "coupling_mismatch",
    "one_bit_weights",
    "other_tasks_choices",
    "other_tasks",
)
RECORDS = ("cifar10_budget", "search_grid", "search_precisions", "search_overhead", "overview")


def find(name: str) -> Experiment:
    """An experiment whose rows are kept unit by unit.

    >>> find("figure4_activations").title
    'Figure 4: the three activation functions'
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, list(EXPERIMENTS))
    found: Experiment = _module(name).EXPERIMENT
    return found


def find_records(name: str) -> Records:
    """An experiment that keeps its results in a form of its own."""
    if name not in RECORDS:
        raise unknown_name("experiment", name, list(RECORDS))
    found: Records = _module(name).RECORDS
    return found


def as_typed(name: str) -> str:
    """What people type for an experiment.

    >>> as_typed("coupling_pays")
    'coupling-pays'
    """
    return name.replace("_", "-")


def _module(name: str) -> Any:
    return import_module(f"binaryduo.paper.{name}")
