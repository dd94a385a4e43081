"""Jobs: independent pieces of an experiment, in as many processes as PRIORY_WORKERS says, one unless told."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from experiments.results import Results


def done(results: Results, work: Callable[..., list[dict[str, object]]], jobs: Iterable[Sequence[object]]) -> None:
    """Add the rows that `work(*job)` gives for each job, as they come."""
    workers = int(os.environ.get("PRIORY_WORKERS", "1"))
    if workers == 1:
        for job in jobs:
            for row in work(*job):
                results.add(row)
        return
    with ProcessPoolExecutor(workers) as pool:
        for found in as_completed([pool.submit(work, *job) for job in jobs]):
            for row in found.result():
                results.add(row)
