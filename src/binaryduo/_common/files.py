"""Files that are written whole or not at all."""

import errno
import os
from pathlib import Path

from binaryduo._common.locks import Lock
from binaryduo.errors import CheckpointError

WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)  # what such file systems answer


def write_synced(path: Path, content: bytes, hint: str = "") -> None:
    """Write a file so that it has, after any crash, either its old content or all of the new.

    The content goes to a file beside it, is synced to the disk and renamed into place; processes that write the same
    file do so one after the other. A link stays a link, and what is no file (a pipe, a device) is written to as it is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_synced(Path(folder) / "a.txt", b"hello")
    ...     (Path(folder) / "a.txt").read_bytes()
    b'hello'
    """
    straight = path.exists() and not path.is_file()
    path = path if straight else path.resolve()
    part = path.with_name(path.name + ".part")
    lock = Lock(part)  # renamed with the file: who waits for it then locks the next one
    ours = False
    try:
        if straight:
            path.write_bytes(content)
            return
        ours = _alone_if_possible(lock)
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as problem:
        if ours:  # else another process may be writing it
            part.unlink(missing_ok=True)
        raise CheckpointError(
            f"{path} could not be written ({problem.strerror}): nothing saved before is lost{hint}"
        ) from problem
    finally:
        lock.release()


def _alone_if_possible(lock: Lock) -> bool:
    """Wait for the lock; on a file system that knows none, two writers of one file are not kept apart."""
    try:
        return lock.acquire(wait=True)
    except OSError as problem:
        if problem.errno not in WITHOUT_LOCKS:
            raise
        return True
