"""Work on many samples, a block at a time, on as many threads as PyTorch may use.

One thread works on one block with single-threaded operators: on blocks that fit the cache this is faster
than splitting every small operator, and it does not stall when other programs use the processor.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
# progress(done, total) is called after each piece of work.
OnProgress = Callable[[int, int], None]


def map_blocks(work: Callable[[int], T], count: int, progress: OnProgress | None = None) -> Iterator[T]:
    """work(0), work(1), …, work(count - 1), computed on several threads and returned in that order.

    The order makes a floating-point sum over blocks the same in every run, whatever the thread count.

    >>> list(map_blocks(lambda i: i * i, 4))
    [0, 1, 4, 9]
    """
    threads = torch.get_num_threads()
    if threads == 1 or count == 1:
        for i in range(count):
            yield work(i)
            if progress is not None:
                progress(i + 1, count)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for i, result in enumerate(pool.map(work, range(count))):
                yield result
                if progress is not None:
                    progress(i + 1, count)
    finally:
        # The setting is per thread, but threads that start later inherit the last one made.
        torch.set_num_threads(threads)


def stream_seed(seed: int, *keys: int) -> int:
    """A 32-bit seed for an independent stream of random numbers, mixed from a seed and some keys.

    PyTorch's CPU generator uses 32 bits only, so that seed + key would make streams overlap.

    >>> stream_seed(0, 1) != stream_seed(1, 0)
    True
    """
    mask = (1 << 64) - 1
    state = 0x9E3779B97F4A7C15
    for value in (seed, *keys):  # splitmix64, once for each key
        state = (state + (value & mask) * 0xBF58476D1CE4E5B9 + 0x9E3779B97F4A7C15) & mask
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
        state ^= state >> 31
    return state >> 32


def generator(seed: int, *keys: int) -> torch.Generator:
    """A generator of its own for each (seed, keys).

    >>> a, b = (torch.rand(3, generator=generator(0, 7)) for _ in range(2))
    >>> bool((a == b).all())
    True
    """
    return torch.Generator().manual_seed(stream_seed(seed, *keys))
