"""Trained networks by name, each with a card that says how it was made and what it reaches.

    net = bd.models.pretrained("vgg7-cifar10-duo-w1")      # a module in evaluation mode
    bd.models.card("vgg7-cifar10-duo-w1")["top1"]          # what `binaryduo evaluate` gives for it

A card is a JSON file, the weights are a safetensors file beside it; every byte of the weights is covered by the card's
checksum. Weights of up to 1 MB are shipped in the package. Larger ones are in the repository's folder `pretrained`, or
wherever BINARYDUO_PRETRAINED says: a folder, which may hold cards of its own too, or a URL, from which a file is
fetched once into the cache. `binaryduo.training.publish` makes both files from a run.

One-bit weights take one bit in the file: their signs, packed, and the layer's scale. The latent weights that training
went on with are not kept, so that such a network can be run, decoupled and packed; fine-tuning starts from ± the scale.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from binaryduo._common.downloads import cache_dir, download
from binaryduo._common.hostile import read_json
from binaryduo._common.weight_files import load_weights, read_weights
from binaryduo.errors import ArgumentError, CheckpointError, unknown_name
from binaryduo.models.registry import build
from binaryduo.nn import is_binary_weight

VARIABLE = "BINARYDUO_PRETRAINED"
SHIPPED = Path(__file__).parent / "cards"
REPOSITORY = Path(__file__).parents[3] / "pretrained"
BITS, SCALE = ".bits", ".scale"


def _folders() -> list[Path]:
    """Where cards and weights are looked for, in this order."""
    named = os.environ.get(VARIABLE, "")
    own = [Path(named)] if named and "://" not in named else []
    return [*own, SHIPPED, REPOSITORY]


def pretrained_names() -> list[str]:
    """The networks that `pretrained` knows.

    >>> "vgg7-cifar10-duo" in pretrained_names()
    True
    """
    return sorted({path.stem for folder in _folders() for path in folder.glob("*.json")})


def card(name: str) -> dict[str, Any]:
    """What is known of a trained network: data, settings, seed, commit, accuracy, checksum.

    >>> card("vgg7-cifar10-duo")["data"]
    'cifar10'
    """
    found = next((path for folder in _folders() if (path := folder / f"{name}.json").is_file()), None)
    if found is None or Path(name).name != name:
        raise unknown_name("pretrained network", name, pretrained_names())
    content = read_json(found, "the card", CheckpointError)
    wanted = {"build": dict, "data": str, "sha256": str, "bytes": int}
    if not isinstance(content, dict) or not all(isinstance(content.get(k), v) for k, v in wanted.items()):
        raise CheckpointError(f"the card {found} must have {', '.join(wanted)}")
    return content


def weights_file(name: str) -> Path:
    """The file of a network's weights, checked; it is fetched where BINARYDUO_PRETRAINED is a URL."""
    about, file = card(name), f"{name}.safetensors"
    places = [*_folders(), cache_dir() / "pretrained"]
    path = next((folder / file for folder in places if (folder / file).is_file()), None)
    if path is None:
        url = os.environ.get(VARIABLE, "")
        if "://" not in url:
            raise ArgumentError(
                f"the weights of {name} ({about['bytes'] / 1e6:.1f} MB) are not part of this installation: set "
                f"{VARIABLE} to a folder that holds {file}, such as the repository's folder pretrained, or to a URL"
            )
        path = download(f"{url.rstrip('/')}/{file}", places[-1] / file, about["sha256"], "sha256")
    if (
        path.stat().st_size != about["bytes"]
        or hashlib.sha256(path.read_bytes()).hexdigest() != about["sha256"]
    ):
        raise CheckpointError(
            f"{path} is not the file that the card of {name} was written for; it is not used"
        )
    return path


def pretrained(name: str) -> nn.Module:
    """A trained network in evaluation mode, by its name.

    >>> net = pretrained("vgg7-cifar10-duo")
    >>> net.training, net(torch.zeros(1, 3, 32, 32)).shape
    (False, torch.Size([1, 10]))
    """
    path, options = weights_file(name), card(name)["build"]
    try:
        model = build(**options)
    except TypeError as error:
        raise CheckpointError(f"the card of {name} has build options that cannot be used: {error}") from None
    load_weights(model, expanded(read_weights(path)[0], model, path), path)
    return model.eval()


def compact(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a network with one bit for each one-bit weight: its sign, and the layer's scale.

    >>> from binaryduo.nn import BinaryLinear
    >>> {name: tuple(t.shape) for name, t in compact(BinaryLinear(20, 2, bias=False)).items()}
    {'weight.bits': (5,), 'weight.scale': ()}
    """
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    for name, module in model.named_modules():
        if is_binary_weight(module):
            key = f"{name}.weight" if name else "weight"
            latent = tensors.pop(key)
            tensors[key + BITS] = torch.from_numpy(np.packbits((latent >= 0).flatten().numpy()))
            tensors[key + SCALE] = latent.abs().mean()
    return tensors


def expanded(tensors: dict[str, Tensor], model: nn.Module, origin: object) -> dict[str, Tensor]:
    """What `compact` has made, as the state of a model of the same architecture."""
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    out = {}
    for name, tensor in tensors.items():
        key = name.removesuffix(BITS)
        if name.endswith(SCALE) and name.removesuffix(SCALE) + BITS in tensors:
            continue
        if not name.endswith(BITS) or key not in shapes:
            out[name] = tensor
            continue
        count, scale = shapes[key].numel(), tensors.get(key + SCALE)
        fits = tensor.dtype == torch.uint8 and tensor.shape == ((count + 7) // 8,)
        if not fits or scale is None or scale.numel() != 1 or scale.dtype != torch.float32:
            raise CheckpointError(
                f"{origin}: the bits of {key} are not those of {tuple(shapes[key])} weights"
            )
        signs = torch.from_numpy(np.unpackbits(tensor.numpy(), count=count)).float() * 2 - 1
        out[key] = (signs * scale).reshape(shapes[key])
    return out
