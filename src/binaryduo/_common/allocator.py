"""Memory that the C library keeps for reuse."""

import ctypes
import platform


def keep_memory() -> bool:
    """Tell glibc to keep freed memory: large tensors are then reused, not mapped and zeroed each time.

    For the rest of the process; returns whether it could be done.

    >>> keep_memory() in (True, False)
    True
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
    largest = 2**31 - 1
    return bool(
        libc.mallopt(M_MMAP_MAX, 0)
        and libc.mallopt(M_TRIM_THRESHOLD, largest)
        and libc.mallopt(M_TOP_PAD, 64 * 2**20)
    )
