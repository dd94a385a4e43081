"""Small private tables for tests: a source that counts rows in memory, ledgers and curators around it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from priory.data.sources.source import ROW_LIMIT
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.journal import Entry, Forgetful, Journal
from priory.privacy.ledger import Ledger
from priory.privacy.noise import Integers
from priory.privacy.randomness import Randomness
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor

DOMAIN = Domain.of({"age": 4, "sex": 2, "marital-status": 3})


class Rows:
    """A source over coded rows that remembers how often it was asked."""

    def __init__(self, domain: Domain, rows: Integers | Sequence[Sequence[int]]) -> None:
        self.domain = domain
        self.rows = np.asarray(rows, dtype=np.int64).reshape(-1, len(domain))
        self.looks = 0
        self.row_limit = ROW_LIMIT

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        self.looks += 1
        return [self._count(self.domain.checked(clique)) for clique in cliques]

    def _count(self, clique: Clique) -> Factor:
        table = np.zeros(self.domain.project(clique).shape, dtype=np.int64)
        if not clique:
            return Factor(self.domain.project(clique), table + len(self.rows))
        np.add.at(table, tuple(self.rows[:, self.domain.axis[name]] for name in clique), 1)
        return Factor(self.domain.project(clique), table)


def random_rows(n: int = 200, seed: int = 0, domain: Domain = DOMAIN) -> Rows:
    rng = np.random.default_rng(seed)
    return Rows(domain, np.stack([rng.integers(0, size, n) for size in domain.shape], axis=1))


class Kept(Forgetful):
    """A journal in memory."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def write(self, entry: Entry) -> None:
        self.entries.append(entry)


@contextmanager
def curated(
    budget: Budget,
    source: Rows | None = None,
    *,
    randomness: Randomness | None = None,
    ledger: Ledger | None = None,
    journal: Journal | None = None,
) -> Iterator[Curator]:
    person = "who" if budget.max_rows > 1 else None
    book = Ledger.in_memory(budget, person=person) if ledger is None else ledger
    with book.reserve(budget, "test") as reservation:
        yield Curator(reservation, source or random_rows(), randomness=randomness, journal=journal)
