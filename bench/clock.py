"""Clock: wall and CPU time of repeated calls, and peak memory; it needs only the standard library."""

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def repeated(call: Callable[[], object], *, least: int = 5, seconds: float = 1.5) -> dict[str, Any]:
    """Medians of wall and CPU milliseconds over at least `least` calls and about so many seconds."""
    times = [timed(call)]
    start = time.perf_counter()
    while len(times) < least or (time.perf_counter() - start < seconds and len(times) < 1000):
        times.append(timed(call))
    walls, cpus = zip(*times, strict=True)
    return {
        "wall_ms": 1e3 * statistics.median(walls),
        "cpu_ms": 1e3 * statistics.median(cpus),
        "best_ms": 1e3 * min(walls),
        "calls": len(times),
    }


def peak_in_mb() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def read_spec() -> dict[str, Any]:
    """The measurement asked for, from standard input."""
    spec: dict[str, Any] = json.load(sys.stdin)
    return spec


def say(result: dict[str, Any]) -> None:
    """The result, as one line on standard output."""
    print(json.dumps({**result, "peak_mb": peak_in_mb()}))
