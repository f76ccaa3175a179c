"""Save and load a decoupled network the way Hugging Face's hub does, in a folder and without a network.

    python examples/hugging_face.py [folder]

A decoupled network is derived, so that its class alone does not say what it looks like: what does is the settings that
it was derived with. Kept in config.json, they build it again, and the weights come from model.safetensors (no pickle).
`push_to_hub` and `from_pretrained("user/name")` work the same way once you are logged in.
"""

import sys
from pathlib import Path

import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import nn

import binaryduo as bd


class BinaryClassifier(nn.Module, PyTorchModelHubMixin):
    """A decoupled network of the zoo; the arguments of __init__ are what config.json keeps."""

    def __init__(
        self,
        network: str = "vgg7",
        classes: int = 10,
        levels: int = 3,
        width: float = 0.25,
        channels: int = 1,
        size: int = 28,
    ) -> None:
        super().__init__()
        self.network = bd.models.build(
            network,
            "decoupled",
            classes,
            levels,
            weight_bits=1,
            width=width,
            in_channels=channels,
            image_size=size,
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images)


def main(folder: str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.rand(8, 1, 28, 28)
    model = BinaryClassifier(width=0.125).eval()  # … trained: bd.training.duo, Lightning, or your own loop
    model.save_pretrained(folder)
    again = BinaryClassifier.from_pretrained(folder, local_files_only=True).eval()
    with torch.no_grad():
        return model(x), again(x)


if __name__ == "__main__":
    place = sys.argv[1] if len(sys.argv) > 1 else "runs/hugging_face"
    before, after = main(place)
    print(f"{place}: {', '.join(sorted(p.name for p in Path(place).iterdir()))}")
    print("the same logits:", torch.equal(before, after))
