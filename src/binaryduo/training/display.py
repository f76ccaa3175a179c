"""What a person sees of a run: a bar on a terminal, a line an epoch everywhere."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.progress import Progress as Bar
from rich.progress import TaskID, TextColumn

from binaryduo._common.progress import bar, say

if TYPE_CHECKING:
    from binaryduo.training.state import RunState


class Display:
    """A progress bar with loss, accuracy, images/s and the time that is left."""

    def __init__(self, title: str, shown: bool, accuracy: bool = True) -> None:
        self.title, self.shown = title, shown
        self.rate = 0.0
        self.images, self.seconds = 0, 0.0  # of the epoch, so that its line gives its own mean
        columns = (
            TextColumn(
                "loss {task.fields[loss]:.3f}" + ("  top-1 {task.fields[top1]:.1f} %" if accuracy else "")
            ),
            TextColumn("{task.fields[rate]:.0f} images/s"),
        )
        self._context = bar(*columns, shown=shown)
        self._bar: Bar | None = None
        self._task = TaskID(0)

    def __enter__(self) -> "Display":
        self._bar = self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar = None
        self._context.__exit__(kind, error, trace)

    def begin(self, step: int, total: int) -> None:
        """Show the bar, at the step where the run is."""
        if self._bar is not None:
            self._task = self._bar.add_task(
                self.title, total=total, completed=step, loss=0.0, top1=0.0, rate=0.0
            )

    def step(self, state: "RunState", images: int, seconds: float) -> None:
        """Move the bar; the rate is that of the epoch so far."""
        self.images += images
        self.seconds += seconds
        self.rate = self.images / max(self.seconds, 1e-9)
        means = state.epoch_counts.means()
        if self._bar is None:
            return
        self._bar.update(
            self._task,
            completed=state.step,
            loss=means["loss"],
            top1=means.get("top1", 0.0),
            rate=self.rate,
        )

    def epoch(self, line: Mapping[str, Any]) -> None:
        """One line that stays."""
        self.images, self.seconds = 0, 0.0
        if not self.shown:
            return
        text = f"{self.title}: epoch {line['epoch']}, loss {line['train_loss']:.4f}"
        if "train_top5" in line:
            text += f", train {line['train_top1']:.2f} %"
        if "test_top5" in line:
            text += f", test {line['test_top1']:.2f} % (top-5 {line['test_top5']:.2f} %)"
        shown = ("test_loss", "test_top1", "test_top5") if "test_top5" in line else ()
        others = [key for key in line if key.startswith("test_") and key not in shown]
        text += "".join(f", {key.replace('_', ' ', 1)} {line[key]:.4g}" for key in others)
        say(f"{text}, {self.rate:.0f} images/s, {line['seconds']:.0f} s")
