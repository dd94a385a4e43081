"""Locking: one writer at a time, of all threads and of all servers that have the same folder open."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from priory.studio import runner


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is missing; others wait. It must not be asked for twice."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not runner.lock(handle):
            time.sleep(0.005)
        yield
    finally:
        os.close(handle)
