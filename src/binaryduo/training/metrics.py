"""metrics.jsonl: one line of JSON for each measurement, and the same for TensorBoard."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from binaryduo._common.progress import say
from binaryduo.errors import CheckpointError


class Metrics:
    """metrics.jsonl and TensorBoard of one stage.

    `position` and `digest` go into the checkpoint: what was written after that position is cut off when the run
    resumes there, so that no line appears twice, and what is there must be what was written.
    """

    def __init__(
        self, folder: Path, position: int = 0, tensorboard: bool = True, step: int = 0, digest: str = ""
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "metrics.jsonl"
        self._file = self.path.open("ab+")
        self._file.seek(0)
        content = self._file.read(position)
        self._hash = hashlib.sha256(content)
        if len(content) < position:
            say(
                f"{self.path} has lost lines: {len(content)} of {position} bytes are there; the curve has a gap, "
                "but the training is not affected"
            )
            content = content[: content.rfind(b"\n") + 1]
            self._hash = hashlib.sha256(content)
        elif digest and self._hash.hexdigest() != digest:
            say(
                f"{self.path} was altered since it was written: the curve may not be this run's, but the training is "
                "not affected"
            )
        self._file.truncate(len(content))
        self._file.seek(0, os.SEEK_END)
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def write(self, line: dict[str, Any]) -> None:
        """One line; numbers also go to TensorBoard under the same names."""
        try:
            content = (json.dumps(line) + "\n").encode()
            self._file.write(content)
            self._file.flush()
            self._hash.update(content)
            if self._board is not None:
                for name, value in line.items():
                    if isinstance(value, float):
                        self._board.add_scalar(name, value, line["step"])
        except OSError as error:
            raise CheckpointError(
                f"{self.path} could not be written ({error.strerror}): make room and continue with --resume"
            ) from error

    def synced(self) -> tuple[int, str]:
        """How many bytes were written, all of them on the disk, and their SHA-256."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.seek(0, os.SEEK_END), self._hash.hexdigest()

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()
