"""Privacy: draws, picks, calibrations and reservations, ours beside OpenDP's where both can."""

import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from bench.clock import repeated
from priory.privacy.accounting import rho_within
from priory.privacy.budget import Budget
from priory.privacy.choice import NoisyMax, PermuteAndFlip
from priory.privacy.ledger import Event, Ledger, Terms
from priory.privacy.noise import Gaussian, Laplace

CELLS = 1_000_000
CANDIDATES = 300_000


def run(quick: bool) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a job: median wall and CPU milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        for name, call in _jobs(Path(folder), quick).items():
            times = repeated(call)
            print(f"{name:60} {times['wall_ms']:10.2f} ms wall {times['cpu_ms']:10.2f} ms CPU")


def _jobs(folder: Path, quick: bool) -> dict[str, Callable[[], object]]:  # noqa: FBT001 - as above
    few, many = np.zeros(20_000 if quick else 100_000, dtype=np.int64), np.zeros(CELLS, dtype=np.int64)
    jobs: dict[str, Callable[[], object]] = {}
    for noise in (Laplace(Fraction(10)), Gaussian(Fraction(10))):
        jobs[f"{noise.kind}, {few.size:,} draws, OpenDP"] = partial(noise.add_by_opendp, few)
        jobs[f"{noise.kind}, {many.size:,} draws, ours"] = partial(noise.add_by_table, many)
    scores = np.random.default_rng(0).integers(0, 1000, CANDIDATES)
    for choice in (NoisyMax(Fraction(50)), PermuteAndFlip(Fraction(50))):
        jobs[f"{choice.kind} of {CANDIDATES:,}, OpenDP"] = partial(choice.pick_by_opendp, scores)
        jobs[f"{choice.kind} of {CANDIDATES:,}, ours"] = partial(choice.pick_by_coins, scores)
    jobs["calibration of (1, 1e-9)"] = partial(rho_within, Fraction(1), Fraction(1, 10**9))
    book = Ledger.create(folder / "bench.ledger", Terms("bench", "", Budget.zcdp(10**9)))
    jobs["reserve, charge and settle, on disk"] = partial(_spend, book)
    return jobs


def _spend(book: Ledger) -> None:
    with book.reserve(Budget.zcdp("1/1000"), "bench") as reservation:
        reservation.charge([Event("bench", "nothing", Fraction(1, 1000))])
