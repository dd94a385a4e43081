"""Privacy: calibrations and reservations."""

import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

from bench.clock import repeated
from priory.privacy.accounting import rho_within
from priory.privacy.budget import Budget
from priory.privacy.ledger import Event, Ledger, Terms


def run(quick: bool) -> None:  # noqa: ARG001, FBT001 - the signature of every benchmark
    """Print one line a job: median wall and CPU milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        for name, call in _jobs(Path(folder)).items():
            times = repeated(call)
            print(f"{name:60} {times['wall_ms']:10.2f} ms wall {times['cpu_ms']:10.2f} ms CPU")


def _jobs(folder: Path) -> dict[str, Callable[[], object]]:
    jobs: dict[str, Callable[[], object]] = {}
    jobs["calibration of (1, 1e-9)"] = partial(rho_within, Fraction(1), Fraction(1, 10**9))
    book = Ledger.create(folder / "bench.ledger", Terms("bench", "", Budget.zcdp(10**9)))
    jobs["reserve, charge and settle, on disk"] = partial(_spend, book)
    return jobs


def _spend(book: Ledger) -> None:
    with book.reserve(Budget.zcdp("1/1000"), "bench") as reservation:
        reservation.charge([Event("bench", "nothing", Fraction(1, 1000))])
