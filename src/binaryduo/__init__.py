"""binaryduo: train, diagnose and deploy networks whose activations are one bit.

    import binaryduo as bd

    coupled = bd.couple(baseline, x)     # half the weights, ternary activations
    train(coupled)
    binary = bd.decouple(coupled, x)     # the same function, binary activations only
    finetune(binary)
    bd.pack(binary, x, "net.duo")        # one bit per weight on disk
    bd.load("net.duo")(images)           # NumPy in, NumPy out, no PyTorch needed

Names are imported when they are first used, so that packed models run where PyTorch is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from binaryduo.errors import BinaryDuoError, MissingExtraError

if TYPE_CHECKING:
    from binaryduo import data, mismatch, models, nn, ste, training
    from binaryduo.engine.runtime import load
    from binaryduo.packing.onnx import export_onnx
    from binaryduo.packing.pack import pack
    from binaryduo.packing.qonnx import export_qonnx
    from binaryduo.transform.costing import cost
    from binaryduo.transform.coupling import couple
    from binaryduo.transform.decoupling import decouple
    from binaryduo.transform.widths import coupled_width

__version__ = "0.1.0"

# Public name -> the module that defines it. No module is called like a function it defines: importing a
# submodule binds its name in the package and would hide the function.
_HOME = {
    "cost": "binaryduo.transform.costing",
    "couple": "binaryduo.transform.coupling",
    "coupled_width": "binaryduo.transform.widths",
    "decouple": "binaryduo.transform.decoupling",
    "export_onnx": "binaryduo.packing.onnx",
    "export_qonnx": "binaryduo.packing.qonnx",
    "load": "binaryduo.engine.runtime",
    "pack": "binaryduo.packing.pack",
}
_MODULES = ("data", "mismatch", "models", "nn", "ste", "training")

__all__ = [
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
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        home = f"binaryduo.{name}"
    elif name in _HOME:
        home = _HOME[name]
    else:
        raise AttributeError(f"module 'binaryduo' has no attribute {name!r}")
    try:
        module = import_module(home)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("binaryduo"):
            raise
        raise MissingExtraError(
            f"binaryduo.{name} needs the package {error.name!r}: pip install 'binaryduo[train]'"
        ) from error
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
