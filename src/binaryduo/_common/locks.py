"""A lock on a file that ends with its process, however that ends, and that names its holder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from types import TracebackType

from binaryduo.errors import BinaryDuoError


class Lock:
    """The operating system's lock on a file; the file holds the process id of its last holder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Lock(Path(folder) / "lock") as lock:
    ...     Lock(Path(folder) / "lock").acquire(), lock.holder() == os.getpid()
    (False, True)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None

    def acquire(self, wait: bool = False) -> bool:
        """Take the lock; False where another has it and we do not `wait` until it is free."""
        while True:
            file = self.path.open("ab+", buffering=0)  # nothing is left to be written when it is closed
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                if wait:
                    raise
                return False
            if self._is(file):
                break
            file.close()  # its last holder has removed it meanwhile: whoever comes now locks another file
        try:
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        except OSError:  # the disk is full
            self.path.unlink(missing_ok=True)
            file.close()
            raise
        self._file = file
        return True

    def _is(self, file: FileIO) -> bool:
        """Whether an open file is the one at the lock's path."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def holder(self) -> int | None:
        """The process that holds the lock, or held it last; None where the file does not say."""
        try:
            return int(self.path.read_bytes()[:20])
        except (OSError, ValueError):
            return None

    def taken(self) -> bool:
        """Whether somebody holds it; asking leaves the file as it is."""
        try:
            with self.path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def __enter__(self) -> "Lock":
        if not self.acquire():
            raise BlockingIOError(f"{self.path} is held by process {self.holder()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock at that path, then be the one that does; its file goes again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, alone(Path(folder) / "lock"):
    ...     Lock(Path(folder) / "lock").taken()
    True
    """
    lock = Lock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(wait=True)
    except OSError as problem:  # the disk is full, or nothing may be written there
        raise BinaryDuoError(f"{path} cannot be locked ({problem.strerror})") from problem
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()
