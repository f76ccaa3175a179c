"""Which process measures which unit: several may work on one experiment, each on a unit that no other has.

A unit is claimed by a lock beside the results, which ends with its process: what a killed process had is free again.
The rows are read again and written under a lock of their own (`runner`), so that no process loses another's.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binaryduo._common.locks import Lock
from binaryduo.paper.experiment import Unit
from binaryduo.paper.results import key_of


def claim_of(unit: Unit, rows: Path) -> Path:
    """The file that stands for the claim to a unit, beside the file of its rows.

    >>> claim_of({"seed": 0}, Path("figure1/cpu.json"))
    PosixPath('figure1/cpu-de7d7744cc.claim')
    """
    digest = hashlib.sha256(key_of(unit).encode()).hexdigest()[:10]
    return rows.with_name(f"{rows.stem}-{digest}.claim")


@contextmanager
def claimed(unit: Unit, rows: Path) -> Iterator[bool]:
    """Whether the unit is ours for as long as this lasts; its file is gone once it is measured."""
    lock = Lock(claim_of(unit, rows))
    if not lock.acquire():
        yield False
        return
    try:
        yield True
        lock.path.unlink(missing_ok=True)
    finally:
        lock.release()


def taken(units: list[Unit], rows: Path) -> int:
    """How many of these units another process is measuring now."""
    return sum(Lock(claim_of(unit, rows)).taken() for unit in units)


def remove_ended(units: list[Unit], rows: Path) -> None:
    """Remove the claims to units that nobody measures any more: a process that was killed has left them."""
    for unit in units:
        lock = Lock(claim_of(unit, rows))
        if lock.path.exists() and lock.acquire():
            lock.path.unlink(missing_ok=True)
            lock.release()
