"""Cores: the pieces of one large piece of work at once, one for each core that this process may use."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from priory.cores import available

# Below so many cells, handing half of the work over costs more than it saves.
WORTH_IT = 1 << 19


def pieces(cells: int) -> int:
    """In how many pieces to do a step over so many cells: none is so small that it is not worth a thread."""
    return min(available(), max(1, 2 * cells // WORTH_IT)) if cells >= WORTH_IT else 1


@lru_cache(maxsize=1)
def _helpers() -> ThreadPoolExecutor:
    """Threads beside the caller's. NumPy lets go of the interpreter inside its loops, so all run."""
    return ThreadPoolExecutor(max(1, available() - 1), thread_name_prefix="priory")


if hasattr(os, "register_at_fork"):
    # A child process does not inherit the threads.
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def together(works: Sequence[Callable[[], None]]) -> None:
    """Do independent things, the first in this thread and the others beside it."""
    if len(works) == 1:
        return works[0]()
    others = [_helpers().submit(_quietly, work) for work in works[1:]]
    try:
        works[0]()
    finally:
        for other in others:
            other.result()


def _quietly(work: Callable[[], None]) -> None:
    # What overflows or divides by zero is judged by the caller, whose error state a thread does not inherit.
    with np.errstate(all="ignore"):
        work()
