"""See the method at work on real images: couple, decouple, the same function, the cost. `make demo` runs this."""

from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import binaryduo as bd
from binaryduo.data.order import Plan
from binaryduo.report.activations import draw_activations, draw_stes

OUT = Path("demo")


def main() -> None:
    torch.manual_seed(0)
    console = Console()
    data = bd.data.load("fashion-mnist-small")
    images = next(iter(data.test.batches(Plan(256, train=False)))).images  # (256, 1, 28, 28)

    console.rule("1. A binary network, and half of it with three levels")
    options = {"in_channels": 1, "image_size": 28, "width": 0.5}
    baseline = bd.models.build("vgg7", **options)
    coupled = bd.couple(baseline, images[:2])
    console.print(str(coupled.coupling), highlight=False)

    console.rule("2. Decoupled: binary activations only, the same function")
    # Running statistics as after training, so that activations are spread over their levels.
    coupled.train()(images)
    binary = bd.decouple(coupled.eval(), images)
    console.print(str(binary.decoupling), highlight=False)

    console.rule("3. What each costs")
    table = Table("network", "weights and biases", "parameters (kbit)", "operations an image (M)")
    for name, net in (("baseline", baseline), ("coupled", coupled), ("decoupled", binary)):
        cost = bd.cost(net, images[:1])
        table.add_row(name, f"{cost.params:,}", f"{cost.param_bits / 1e3:,.0f}", f"{cost.ops / 1e6:.1f}")
    console.print(table)

    draw_stes(OUT / "stes.png")
    draw_activations(OUT / "activations.png")
    console.print(f"Pictures of the activation functions: {OUT}/stes.png, {OUT}/activations.png")


if __name__ == "__main__":
    main()
