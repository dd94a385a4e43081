"""Cores: two halves of one large piece of work at once, where there are two cores."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

# Below so many cells, handing half of the work over costs more than it saves.
WORTH_IT = 1 << 19


class _Helper:
    """One thread beside the caller's. NumPy lets go of the interpreter inside its loops, so both run."""

    def __init__(self) -> None:
        self.pool: ThreadPoolExecutor | None = None

    def begin(self, work: Callable[[], None]) -> "Future[None]":
        if self.pool is None:
            self.pool = ThreadPoolExecutor(1, thread_name_prefix="priory")
        return self.pool.submit(_quietly, work)

    def after_fork(self) -> None:
        """A child process does not inherit the thread."""
        self.pool = None


_HELPER = _Helper()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_HELPER.after_fork)


def are_two() -> bool:
    """Whether this machine has a second core to give."""
    return (os.cpu_count() or 1) > 1


def both(first: Callable[[], None], second: Callable[[], None]) -> None:
    """Do two independent things, one in this thread and one beside it."""
    beside = _HELPER.begin(second)
    try:
        first()
    finally:
        beside.result()


def _quietly(work: Callable[[], None]) -> None:
    # What overflows or divides by zero is judged by the caller, whose error state a thread does not inherit.
    with np.errstate(all="ignore"):
        work()
