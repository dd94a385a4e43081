"""Public: a round of PMW^Pub and a whole run of `prior`, upon public rows like those of Adult and upon those."""

import os
from functools import partial

import numpy as np
from experiments.splits import Split

from bench.clock import timed
from priory.data.sources.memory import MemorySource
from priory.mechanisms.pmw_pub.pmw_pub import PMWPub
from priory.mechanisms.weighing import Weighing
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.domain import Domain
from priory.queries.workload import Workload

# The sizes of the attributes, tables and workload of PMW^Pub's Adult.
SIZES = (2, 2, 5, 6, 7, 9, 15, 16, 42, 16, 6, 10, 10)
PRIVATE, PUBLIC, WORKLOAD, ROUNDS = 43_944, 4_881, 256, 20


def run(quick: bool) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a job: CPU milliseconds; Adult only where PRIORY_DATA says where it is."""
    source, rows, workload = _made_up()
    _timed("made up", source, rows, workload, quick=quick)
    if os.environ.get("PRIORY_DATA"):
        split = Split.load("adult_ref")
        _timed("adult_ref", split.source, split.public, split.workload, quick=quick)
    else:
        print("adult_ref: skipped, set PRIORY_DATA")


def _timed(name: str, source: MemorySource, rows: PublicRows, workload: Workload, *, quick: bool) -> None:
    budget = Budget.zcdp("1/70", relation="replace-one")
    # The first run also fills what is kept between runs.
    rounds = [_spent(source, PMWPub(public=rows, workload=workload, rounds=n), budget) for n in (1, 1, 1 + ROUNDS)]
    print(f"{f'{name}: pmw-pub, one round':40} {1e3 * (rounds[2] - rounds[1]) / ROUNDS:10.2f} ms CPU")
    if not quick:
        whole = _spent(source, Weighing(public=rows, workload=workload), budget)
        print(f"{f'{name}: prior, whole':40} {1e3 * whole:10.2f} ms CPU")


def _made_up() -> tuple[MemorySource, PublicRows, Workload]:
    rng = np.random.default_rng(0)
    domain = Domain.of({f"a{i}": size for i, size in enumerate(SIZES)})
    private, public = (_rows(count, rng) for count in (PRIVATE, PUBLIC))
    source = MemorySource(domain, tuple(column.astype(np.int32) for column in private.T), PRIVATE)
    triples = Workload.marginals(domain, 3).queries
    workload = Workload.of(triples[i] for i in sorted(rng.choice(len(triples), WORKLOAD, replace=False)))
    return source, PublicRows(public, domain), workload


def _rows(count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows with uneven values, each attribute leaning on the one before."""
    columns = [np.zeros(count, dtype=np.int64)]
    for size in SIZES:
        fresh = (size * rng.random(count) ** 2).astype(np.int64)
        columns.append(np.where(rng.random(count) < 0.3, columns[-1] % size, fresh))
    return np.stack(columns[1:], axis=1)


def _spent(source: MemorySource, mechanism: PMWPub | Weighing, budget: Budget) -> float:
    with Ledger.in_memory(budget).reserve(budget, "bench") as reservation:
        return timed(partial(mechanism.run, Curator(reservation, source), budget))[1]
