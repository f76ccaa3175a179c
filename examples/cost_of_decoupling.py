"""What a decoupled network costs at run time beside its baseline: bytes on disk, and time for one image.

    python examples/cost_of_decoupling.py                 # VGG-7 and two networks of the kind that users write
    python examples/cost_of_decoupling.py --rounds 3 --width 0.125

Untrained networks: neither bytes nor time depend on the weights' values. The best of several rounds counts, in which
every network has its turn; the time is the processor's, of one thread, so that other programs on the machine do not
lengthen it.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

import binaryduo as bd


def images(width: int) -> tuple[nn.Module, torch.Tensor]:
    """Four one-bit layers on small images, float only at its ends."""

    def unit(before: int, after: int, stride: int) -> list[nn.Module]:
        layer = bd.nn.BinaryConv2d(before, after, 3, stride, padding=1, bias=False)
        return [layer, nn.BatchNorm2d(after), bd.nn.QuantAct()]

    stem = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), bd.nn.QuantAct()]
    body = [*unit(width, width, 1), *unit(width, 2 * width, 2), *unit(2 * width, 2 * width, 1)]
    body += unit(2 * width, 4 * width, 2)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10)]
    return nn.Sequential(*stem, *body, *head), torch.rand(1, 3, 32, 32)


def sequences(width: int) -> tuple[nn.Module, torch.Tensor]:
    """Keyword spotting: convolutions over time on 40 bands, float only at its ends."""

    def unit(before: int, after: int, stride: int) -> list[nn.Module]:
        layer = bd.nn.BinaryConv1d(before, after, 9, stride, padding=4, bias=False)
        return [layer, nn.BatchNorm1d(after), bd.nn.QuantAct()]

    stem = [nn.Conv1d(40, width, 3, padding=1, bias=False), nn.BatchNorm1d(width), bd.nn.QuantAct()]
    body = [*unit(width, width, 2), *unit(width, width, 1), *unit(width, 2 * width, 2)]
    return nn.Sequential(
        *stem, *body, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, 12)
    ), torch.rand(1, 40, 100)


def variants(model: nn.Module, x: torch.Tensor) -> dict[str, nn.Module]:
    """The baseline and its decoupled networks; "sixteens": the rule's widths rounded down to multiples of 16."""
    rule = bd.couple(model, x).coupling.widths
    sixteens = {name: max(16, after // 16 * 16) for name, (_, after) in rule.items()}
    ways = {
        "decoupled": {},
        "filled up": {"widths": "fill"},
        "sixteens": {"widths": sixteens},
        "quad": {"topology": "quad"},
    }
    found = {"baseline": model.eval()}
    for name, options in ways.items():
        coupled = bd.couple(model, x, **options).eval()
        found[name] = bd.decouple(coupled, x, topology=options.get("topology", "duo")).eval()
    return found


def measure(models: dict[str, nn.Module], x: torch.Tensor, rounds: int) -> dict[str, tuple[int, float]]:
    """Bytes and seconds of each."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {n: bd.pack(m, x, Path(folder) / f"{n}.duo", verbose=False).bytes for n, m in models.items()}
        packed = {n: bd.load(Path(folder) / f"{n}.duo", threads=1) for n in models}
        image, best = x.numpy(), dict.fromkeys(models, float("inf"))
        for _ in range(rounds):
            for name, model in packed.items():
                count, begin = 0, time.process_time()
                while time.process_time() - begin < 0.02:
                    model(image)
                    count += 1
                best[name] = min(best[name], (time.process_time() - begin) / count)
    return {name: (sizes[name], best[name]) for name in models}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--width", type=float, default=1.0, help="a factor on all widths")
    given = parser.parse_args()
    torch.manual_seed(0)
    vgg = bd.models.build("vgg7", weight_bits=1, width=given.width)
    networks = {
        "VGG-7, one-bit weights": (vgg, torch.rand(1, 3, 32, 32)),
        "images, 32 to 128 channels": images(round(32 * given.width)),
        "sequences, 32 to 64 channels": sequences(round(32 * given.width)),
    }
    print(
        "| network | variant | weights | bytes | | µs per input | |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for title, (model, x) in networks.items():
        models = variants(model, x)
        found = measure(models, x, given.rounds)
        size, seconds = found["baseline"]
        for name, (own, taken) in found.items():
            weights = sum(p.numel() for p in models[name].parameters() if p.dim() > 1)
            cells = [title, name, f"{weights:,}", f"{own:,}", f"{own / size:.2f} ×"]
            print(f"| {' | '.join(cells)} | {taken * 1e6:,.0f} | {taken / seconds:.2f} × |")


if __name__ == "__main__":
    main()
