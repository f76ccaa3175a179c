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
    "binaryduo.models": ["build", "example_input", "names"],
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
}
CONTAINS = {
    "binaryduo.training": ["duo", "evaluate", "fit", "named", "train", "Recipe", "Stage", "Loop"],
    "binaryduo.mismatch": ["ToyProblem", "cosine", "profile", "compare_stes"],
    "binaryduo.data": ["load", "names", "DataSet", "Plan", "MemorySplit", "LoaderSplit"],
    "binaryduo.ste": ["names", "cumulative_difference", "register"],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_these(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == sorted(PUBLIC[module])
    for name in found.__all__:
        assert getattr(found, name) is not None


@pytest.mark.parametrize("module", CONTAINS)
def test_what_users_call_is_there(module: str) -> None:
    found = importlib.import_module(module)
    for name in CONTAINS[module]:
        assert hasattr(found, name), f"{module}.{name}"


def test_the_root_lists_what_it_has() -> None:
    assert set(dir(bd)) >= set(PUBLIC["binaryduo"])
