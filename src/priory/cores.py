"""Cores: how many threads may work at once."""

import math
import os
from functools import lru_cache
from pathlib import Path

# People may set a limit; the second is what most libraries of numbers obey.
LIMITS = ("PRIORY_THREADS", "OMP_NUM_THREADS")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def available() -> int:
    """How many cores this process may use: those it may run on, no more than a container or its user allows."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [int(text) for text in map(os.environ.get, LIMITS) if text is not None and text.isdigit()]
    return max(1, min(cores, _quota(), *limits))


@lru_cache(maxsize=1)
def _quota() -> int:
    """How many cores a container has, in whole ones; very many where it has no limit."""
    try:
        quota, period = map(int, _QUOTA.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return 1 << 20
    return max(1, math.ceil(quota / period))
