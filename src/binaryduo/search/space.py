"""What is searched: a learning rate and a weight decay, as exponential axes or as listed values.

    1e-4:5.12e-2:10    ten values, each twice the one before
    1e-3,2e-3,5e-3     these three

The paper says "13 different exponentially increasing weight decay values and 10 learning rates" and prints
none. Ours: weight decay 1e-5 to 10 in half decades; learning rate 1e-4 to 5.12e-2, doubling; for
fine-tuning half of those rates. Decay is PyTorch's AdamW: each step takes away rate × decay of a weight.
"""

import math
from dataclasses import dataclass

from binaryduo.errors import ArgumentError

WEIGHT_DECAYS = "1e-5:10:13"
LEARNING_RATES = "1e-4:5.12e-2:10"
FINETUNING_RATES = "5e-5:2.56e-2:10"


@dataclass(frozen=True)
class Axis:
    """The values of one setting, increasing; a sampler draws between the first and the last."""

    values: tuple[float, ...]

    @property
    def low(self) -> float:
        return self.values[0]

    @property
    def high(self) -> float:
        return self.values[-1]


def exponential(low: float, high: float, count: int) -> tuple[float, ...]:
    """Values with a constant ratio, rounded to six digits so that they print short and compare equal.

    >>> exponential(1e-5, 10, 13)[:4]
    (1e-05, 3.16228e-05, 0.0001, 0.000316228)
    >>> exponential(1e-4, 5.12e-2, 10)[-2:]
    (0.0256, 0.0512)
    """
    if count == 1:
        return (math.sqrt(low * high) if low != high else low,)
    ratio = math.log(high / low) / (count - 1)
    return tuple(float(f"{low * math.exp(ratio * i):.6g}") for i in range(count))


def parse_axis(text: "str | tuple[float, ...]", what: str, count: int | None = None) -> Axis:
    """An axis from `low:high:count`, `low:high` or a list; `count` replaces the number of a range's values.

    >>> parse_axis("1e-3:1e-1:3", "lr").values
    (0.001, 0.01, 0.1)
    >>> parse_axis("0.2, 0.1", "lr").values
    (0.1, 0.2)
    """
    hint = f"{what} = {text!r}: write low:high:count, for example 1e-4:1e-1:10, or values with commas"
    parts = text.split(":") if isinstance(text, str) else []
    ranged = len(parts) in (2, 3)
    try:
        if ranged:
            low, high = float(parts[0]), float(parts[1])
            wanted = count if count is not None else int(parts[2]) if len(parts) == 3 else 2
        else:
            listed = [float(v) for v in (text.split(",") if isinstance(text, str) else text)]
    except ValueError:
        raise ArgumentError(hint) from None
    if ranged:
        _check(0 < low <= high < math.inf and wanted >= 1, hint)
        values = exponential(low, high, wanted)
        if len(set(values)) < wanted:
            raise ArgumentError(
                f"{what} = {text!r}: there are no {wanted} different values between these ends; write a single value "
                f"as {parts[0]}"
            )
    else:
        _check(bool(listed) and all(0 < v < math.inf for v in listed), hint)
        values = tuple(sorted(set(listed)))
        if count not in (None, len(values)):
            raise ArgumentError(
                f"{what} lists {len(values)} values, and --grid asks for {count}: leave out --grid, or give {what} as "
                "low:high"
            )
    return Axis(values)


def _check(good: bool, hint: str) -> None:
    if not good:
        raise ArgumentError(f"{hint}; the axes are logarithmic, so values must be positive")


def parse_grid(text: str) -> tuple[int, int]:
    """(weight decays, learning rates) from the text of `--grid`.

    >>> parse_grid("13x10")
    (13, 10)
    """
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2 or not all(p.strip().isdigit() and int(p) > 0 for p in parts):
        raise ArgumentError(f"--grid {text!r}: write weight decays x learning rates, for example 13x10")
    return int(parts[0]), int(parts[1])


@dataclass(frozen=True)
class Slot:
    """One training that the search owes: a setting and a repeat, or a place that a sampler will fill."""

    name: str
    repeat: int
    lr: float | None = None
    weight_decay: float | None = None


def grid_slots(weight_decay: Axis, lr: Axis, repeats: int) -> list[Slot]:
    """Every point of the grid, once a repeat; first the whole grid with the first seed, then with the next.

    >>> [s.name for s in grid_slots(Axis((0.1,)), Axis((1e-3, 2e-3)), 2)]
    ['wd0.1-lr0.001-r0', 'wd0.1-lr0.002-r0', 'wd0.1-lr0.001-r1', 'wd0.1-lr0.002-r1']
    """
    return [
        Slot(f"wd{w:.6g}-lr{rate:.6g}-r{repeat}", repeat, rate, w)
        for repeat in range(repeats)
        for w in weight_decay.values
        for rate in lr.values
    ]
