"""Children of this process, made by fork: a start costs milliseconds, since everything is imported already."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def forked(work: Callable[[], object], log: Path | None = None) -> int:
    """The process id of a child that does the work; what it prints goes to `log` where that is given."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        if log is not None:
            sys.stdout = sys.stderr = log.open("w")
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def ended(pid: int) -> int:
    """The exit code of a child; negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
