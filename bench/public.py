"""Public: a round of PMW^Pub and a whole run of `prior`, upon public rows like those of Adult."""

from functools import partial

import numpy as np

from bench.clock import timed
from priory.data.memory import MemorySource
from priory.domain import Domain
from priory.mechanisms.pmw_pub import PMWPub
from priory.mechanisms.prior import Prior
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.workload import Workload

# The sizes of the attributes, tables and workload of PMW^Pub's Adult.
SIZES = (2, 2, 5, 6, 7, 9, 15, 16, 42, 16, 6, 10, 10)
PRIVATE, PUBLIC, WORKLOAD, ROUNDS = 43_944, 4_881, 256, 20


def run(quick: bool) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a job: CPU milliseconds."""
    rng = np.random.default_rng(0)
    domain = Domain.of({f"a{i}": size for i, size in enumerate(SIZES)})
    private, public = (_rows(count, rng) for count in (PRIVATE, PUBLIC))
    source = MemorySource(domain, tuple(column.astype(np.int32) for column in private.T), PRIVATE)
    triples = Workload.marginals(domain, 3).queries
    workload = Workload.of(triples[i] for i in sorted(rng.choice(len(triples), WORKLOAD, replace=False)))
    rows = PublicRows(public, domain)
    budget = Budget.zcdp("1/70", relation="replace-one")
    # The first run also fills what is kept between runs.
    rounds = [_spent(source, PMWPub(public=rows, workload=workload, rounds=n), budget) for n in (1, 1, 1 + ROUNDS)]
    print(f"{'pmw-pub, one round':40} {1e3 * (rounds[2] - rounds[1]) / ROUNDS:10.2f} ms CPU")
    if not quick:
        print(f"{'prior, whole':40} {1e3 * _spent(source, Prior(public=rows, workload=workload), budget):10.2f} ms CPU")


def _rows(count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows with uneven values, each attribute leaning on the one before."""
    columns = [np.zeros(count, dtype=np.int64)]
    for size in SIZES:
        fresh = (size * rng.random(count) ** 2).astype(np.int64)
        columns.append(np.where(rng.random(count) < 0.3, columns[-1] % size, fresh))
    return np.stack(columns[1:], axis=1)


def _spent(source: MemorySource, mechanism: PMWPub | Prior, budget: Budget) -> float:
    with Ledger.in_memory(budget).reserve(budget, "bench") as reservation:
        return timed(partial(mechanism.run, Curator(reservation, source), budget))[1]
