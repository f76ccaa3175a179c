"""`binaryduo bench layers`: what a quantized activation costs beside torch's clamp."""

from typing import Annotated

import typer


def layers(
    shape: Annotated[str, typer.Option(help="The tensor's shape.")] = "256,64,32,32",
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds to run; the fastest one counts.")] = 7,
) -> None:
    """One forward and backward pass of QuantAct, in eager mode, beside the same of `clamp`.

    The two take turns, so that a noisy machine disturbs both alike.
    """
    import time
    from collections.abc import Callable

    import torch
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from binaryduo.errors import ArgumentError
    from binaryduo.nn import QuantAct
    from binaryduo.ste import names

    try:
        size = [int(n) for n in shape.split(",")]
        x = torch.randn(size).requires_grad_()
    except (ValueError, RuntimeError) as error:
        raise ArgumentError(f"--shape takes whole numbers such as 256,64,32,32, not {shape!r}") from error
    grad = torch.randn_like(x)
    runs: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"clamp(0, 1)": lambda t: t.clamp(0, 1)}
    runs |= {f"QuantAct(levels={n})": QuantAct(n) for n in (2, 3, 4)}
    runs |= {f"QuantAct(levels=2, ste={n!r})": QuantAct(2, n) for n in names() if n != "relu1"}
    best = dict.fromkeys(runs, float("inf"))
    for _ in track(range(rounds), description="measuring"):
        for name, function in runs.items():
            x.grad = None
            start = time.perf_counter()
            torch.autograd.backward(function(x), grad)
            best[name] = min(best[name], time.perf_counter() - start)
    table = Table(
        "forward and backward", "ms", "times clamp", title=f"{shape}, {torch.get_num_threads()} threads"
    )
    for name, seconds in best.items():
        table.add_row(name, f"{seconds * 1e3:.1f}", f"{seconds / best['clamp(0, 1)']:.2f}")
    Console().print(table)
