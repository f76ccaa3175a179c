"""SIGTERM and Ctrl-C ask the loop to save and stop; a second Ctrl-C stops at once."""

import signal
import threading
from types import FrameType, TracebackType

from binaryduo.errors import BinaryDuoError


class RunInterrupted(BinaryDuoError):
    """The run was asked to stop; it saved a checkpoint first."""


class ProcessLost(BinaryDuoError):
    """Another process of a distributed run has ended, so this one cannot go on."""


class StopRequest:
    """While entered, `asked` becomes the signal's name when one arrives."""

    def __init__(self) -> None:
        self.asked: str | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = signal.Signals(number).name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
