"""Battery: every test of the audit, in order, in two processes."""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from unittest.mock import patch

from priory.app.registry import MECHANISMS
from priory.audit.accountant import accountant, prices
from priory.audit.attack import attacked
from priory.audit.bugs import BUGS, caught
from priory.audit.canaries import canaries
from priory.audit.discovery import discoveries, thresholds
from priory.audit.edges import LAWS, kept
from priory.audit.findings import QUICK, WHOLE, Effort, Finding, Test
from priory.audit.hostile import hostile
from priory.audit.killed_fits import killed_fits
from priory.audit.kills import killed_ledgers
from priory.audit.numbers import bad_numbers
from priory.audit.primitives import primitives
from priory.audit.samplers import exactness, forks, planted_bias, selection_law, support
from priory.audit.settings import SETTINGS, replayed_from_public, replayed_mechanism, replayed_setting
from priory.work import tracked

# Tests of one thing each, so that two processes have as much to do as each other and an error stops only one.
TESTS: tuple[Test, ...] = (
    exactness,
    planted_bias,
    selection_law,
    support,
    prices,
    primitives,
    *(partial(replayed_mechanism, name) for name in MECHANISMS),
    *(partial(replayed_from_public, name) for name, entry in MECHANISMS.items() if entry.with_public is not None),
    *(partial(replayed_setting, name) for name in SETTINGS),
    thresholds,
    discoveries,
    *(partial(kept, name) for name in LAWS),
    *(partial(caught, name) for name in BUGS),
    *(partial(attacked, name) for name in MECHANISMS),
    canaries,
    killed_ledgers,
    killed_fits,
    accountant,
    forks,
    bad_numbers,
    hostile,
)
PROCESSES = 2
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_battery(*, quick: bool = False, processes: int = PROCESSES) -> Iterator[Finding]:
    """Every finding, in order, as it comes; `quick` takes about a minute instead of most of an hour."""
    effort = QUICK if quick else WHOLE
    if min(processes, os.cpu_count() or 1) < 2:
        for test in tracked(TESTS, "testing"):
            yield from findings_of(test, effort)
        return
    yield from _in_processes(TESTS, effort, processes)


def name_of(test: Test) -> str:
    """What a test is called."""
    if isinstance(test, partial):
        return f"{test.func.__name__}: {', '.join(map(str, test.args))}"
    return test.__name__


def findings_of(test: Test, effort: Effort) -> list[Finding]:
    """What a test finds, with the seconds each took; an error is a finding that failed, and later tests go on."""
    findings: list[Finding] = []
    start = time.monotonic()
    try:
        for finding in test(effort):
            now = time.monotonic()
            findings.append(replace(finding, seconds=now - start))
            start = now
    except Exception as error:  # noqa: BLE001 - whatever it is, the rest of the battery is still to be run
        findings.append(_failed(test, f"it raised {type(error).__name__}", time.monotonic() - start))
    return findings


def _failed(test: Test, figure: str, seconds: float = 0.0) -> Finding:
    return Finding(name_of(test), figure, "no error", passed=False, seconds=seconds)


def _in_processes(tests: Sequence[Test], effort: Effort, processes: int) -> Iterator[Finding]:
    """The same in several processes; where one dies, the next test is run alone and the others go on."""
    while tests:
        done = 0
        with contextlib.suppress(BrokenProcessPool), _pool(processes) as pool:
            futures = [pool.submit(findings_of, test, effort) for test in tests]
            for future in tracked(futures, "testing"):
                yield from future.result()
                done += 1
        tests = tests[done:]
        if tests:
            yield from _alone(tests[0], effort)
            tests = tests[1:]


def _alone(test: Test, effort: Effort) -> list[Finding]:
    """What a test finds in a process of its own: if that dies, the test is the cause."""
    try:
        with _pool(1) as pool:
            return pool.submit(findings_of, test, effort).result()
    except BrokenProcessPool:
        return [_failed(test, "its process died")]


@contextlib.contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    # Not forked: the numerical libraries have threads, which a fork would stop in the middle.
    context = multiprocessing.get_context("spawn")
    # Each process uses one thread for linear algebra: more would wait for each other.
    alone = patch.dict(os.environ, dict.fromkeys(THREADS, "1"))
    with alone, ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield pool
