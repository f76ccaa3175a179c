"""SIGTERM and Ctrl-C: between steps they stop at once, within a training loop they ask it to save and stop.

The two nest by the signal handlers that they exchange, so nothing needs to know of the other: `StopAtOnce` is around
a whole command, `StopRequest` around each loop.
"""

import os
import signal
import threading
from abc import ABC, abstractmethod
from types import FrameType, TracebackType
from typing import Any

from binaryduo.errors import BinaryDuoError

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class RunInterrupted(BinaryDuoError):
    """The run was asked to stop; it saved a checkpoint first."""


class Stopped(BaseException):
    """A signal that came where nothing needs to be saved. Not an Exception: nothing on the way may swallow it."""


class _Handlers(ABC):
    """Signal handlers from entering to leaving; elsewhere than in the main thread, where none can be set, none."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}

    @abstractmethod
    def _note(self, number: int, frame: FrameType | None) -> None:
        """What a signal does."""

    def __enter__(self) -> Any:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()


class StopAtOnce(_Handlers):
    """While entered, a signal raises `Stopped` with its name; a forked child ends by it as any process does."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._process:
            raise Stopped(signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


class StopRequest(_Handlers):
    """While entered, `asked` becomes the signal's name when one arrives; a second Ctrl-C stops at once.

    A signal that came too late for a loop to see it is handed on, by default, to whoever listened before.
    """

    def __init__(self, hand_on: bool = True) -> None:
        super().__init__()
        self.hand_on = hand_on
        self.asked: str | None = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = signal.Signals(number).name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asked = signal.Signals.__members__.get(self.asked or "")
        listener = None if asked is None else self._before.get(asked)
        super().__exit__(kind, error, trace)
        ended = kind is None and self.hand_on
        if ended and callable(listener) and listener is not signal.default_int_handler:
            listener(asked, None)
