"""Files that are written whole: beside others that write them too, on full disks, without locks."""

import errno
import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from binaryduo._common import locks
from binaryduo._common.files import write_synced
from binaryduo._common.locks import Lock
from binaryduo.errors import CheckpointError


def test_a_writer_without_the_lock_leaves_the_file_of_the_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the second wants to write; what the first is writing stays, and becomes the file."""
    path, part = tmp_path / "a.json", tmp_path / "a.json.part"
    first = Lock(part)
    assert first.acquire()

    def full(file: BinaryIO, how: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(locks.fcntl, "flock", full)
        with pytest.raises(CheckpointError, match=r"could not be written \(No space left"):
            write_synced(path, b"second")
    assert part.exists()
    part.write_bytes(b"first")
    part.replace(path)
    first.release()
    assert path.read_bytes() == b"first"


def test_a_lock_that_a_full_disk_cannot_hold_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(locks.FileIO):
        def write(self, *_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", lambda path, *_, **__: Full(path, "ab+"))
    with pytest.raises(OSError, match="No space left"):
        Lock(tmp_path / "lock").acquire()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("answer", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_written_to(
    answer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(file: BinaryIO, how: int) -> None:
        raise OSError(answer, os.strerror(answer))

    monkeypatch.setattr(locks.fcntl, "flock", unknown)
    write_synced(tmp_path / "a", b"whole")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"whole")]


def test_many_writers_of_one_file_each_write_it_whole(tmp_path: Path) -> None:
    contents = [bytes([65 + i]) * 200_000 for i in range(8)]
    writers = [threading.Thread(target=write_synced, args=(tmp_path / "a", content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (tmp_path / "a").read_bytes() in contents
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
