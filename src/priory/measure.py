"""Measure: split a share of the budget over queries and have them answered."""

import math
from collections.abc import Sequence

from priory.data.sources.source import ROW_LIMIT
from priory.privacy.budget import Budget, Number
from priory.privacy.measurement import Measurement
from priory.privacy.noise import NoiseKind
from priory.privacy.session import Session
from priory.privacy.truths import largest_entry
from priory.queries.query import Query
from priory.queries.sensitivity import entry_range

__all__ = ["Measurement", "measure", "on_lattice"]

LATTICE_BITS = 16


def measure(
    session: Session,
    queries: Sequence[Query],
    budget: Budget,
    *,
    shares: Sequence[Number] | None = None,
    noise: NoiseKind | None = None,
) -> list[Measurement]:
    """Spend `budget` on `queries`, in equal parts or in proportion to `shares`; a `BudgetError` where less is left.

    Real-valued queries are put on a lattice: the measurement's query is the integer one that was answered.
    """
    if not queries:
        return []
    asked = [query if query.is_integer else on_lattice(query, row_limit=session.row_limit) for query in queries]
    return list(session.answer(asked, budget.split(shares or [1] * len(queries)), noise=noise))


def on_lattice(query: Query, bits: int = LATTICE_BITS, *, row_limit: int = ROW_LIMIT) -> Query:
    """The integer form of a real-valued query, with as many of `bits` as its entries and the rows leave room for."""
    real = sum(not part.is_integer(size) for part, size in zip(query.parts, query.domain.shape, strict=True))
    largest = max(1, math.ceil(max(map(abs, entry_range(query)))))
    # Each real part is multiplied by 2^bits, and rounding may add a half to each of its entries.
    room = (largest_entry(row_limit).bit_length() - 2 - largest.bit_length()) // max(real, 1)
    return query.on_lattice(max(0, min(bits, room)))
