"""What is public is what these lists say; a name that comes or goes is a decision, not an accident."""

import importlib

import pytest

import binaryduo as bd

PUBLIC = {
    "binaryduo": [
        "BinaryDuoError",
        "__version__",
        "cost",
        "couple",
        "coupled_width",
        "data",
        "decouple",
        "export_onnx",
        "export_qonnx",
        "load",
        "mismatch",
        "models",
        "nn",
        "pack",
        "ste",
        "training",
    ],
    "binaryduo.nn": [
        "BinaryConv1d",
        "BinaryConv2d",
        "BinaryLinear",
        "QuantAct",
        "binarize_weight",
        "clip_latent_weights",
        "draw_weights",
        "initialise",
        "is_binary_weight",
        "quantize",
        "redraw",
    ],
    "binaryduo.models": ["build", "card", "example_input", "names", "pretrained", "pretrained_names"],
    "binaryduo.search": [
        "Search",
        "collect",
        "draw_comparison",
        "draw_contours",
        "read_results",
        "recipe_of",
        "run_search",
        "search_from_yaml",
    ],
    "binaryduo.training": [
        "RECIPES",
        "Counts",
        "Data",
        "DuoResult",
        "Loop",
        "Model",
        "Recipe",
        "Result",
        "Stage",
        "duo",
        "evaluate",
        "fit",
        "from_yaml",
        "load_weights",
        "named",
        "one_anneal",
        "to_yaml",
        "top1",
        "train",
        "with_settings",
    ],
    "binaryduo.mismatch": [
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
    ],
    "binaryduo.data": [
        "ENTRIES",
        "Batch",
        "DataSet",
        "DecodedSplit",
        "LoaderSplit",
        "MemorySplit",
        "Plan",
        "Split",
        "from_arrays",
        "load",
        "names",
        "verify",
    ],
    "binaryduo.ste": [
        "STE",
        "cumulative_difference",
        "derivative",
        "function",
        "get",
        "names",
        "register",
        "thresholds",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_these(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == sorted(PUBLIC[module])
    for name in found.__all__:
        assert getattr(found, name) is not None


def test_the_root_lists_what_it_has() -> None:
    assert set(dir(bd)) >= set(PUBLIC["binaryduo"])
