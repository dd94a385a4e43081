"""Truths: the true answers to queries, kept so that rounds of scoring count once, and never beyond 62 bits.

A source declares a number of rows, `row_limit`, which is public. An answer is at most that many times the largest entry
of its query; a query for which this exceeds 62 bits is refused before anything is paid. Where there are more rows than
were declared, each answer a is replaced by min(max(a, −b), b), with b that bound. The function x ↦ min(max(x, −b), b)
moves no two numbers further apart, so that every distance between the answers on neighbouring tables, in L1, in L2 or
of a single one, is at most what it was: sensitivities hold under either relation. (To cut off counts of cells instead
would not do: a row that replaces another leaves the sum of all cells as it is, and would not where one is cut off.)
"""

from collections.abc import Sequence

import numpy as np

from priory.data.sources.source import Source
from priory.privacy.noise import Integers
from priory.queries.parts import Part
from priory.queries.query import Query
from priory.queries.sensitivity import entry_range

# Answers fit this many bits and a sign.
ANSWER_BITS = 62
# Answers that were looked at are kept, to be scored again, up to this many cells.
MOST_KEPT = 2**28


# A query with its class and those of its parts, as a key that equals no other query's: an object of a derived class may
# call itself equal to one that was checked and answer something else.
Key = tuple[type[Query], tuple[type[Part], ...], Query]


def key_of(query: Query) -> Key:
    """The query as a key."""
    return type(query), tuple(map(type, query.parts)), query


class Truths:
    """The true answers of a source, as far as they were asked for. Private: the curator pays first."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # A source that declares none is noticed now, before anything is paid.
        self._row_limit = source.row_limit
        self._kept: dict[Key, Integers] = {}
        self._cells = 0

    def __repr__(self) -> str:
        return "Truths()"

    def of(self, queries: Sequence[Query]) -> list[Integers]:
        """The true answers to `queries`."""
        keys = [key_of(query) for query in queries]
        missing = [key for key in dict.fromkeys(keys) if key not in self._kept]
        if not missing:
            return [self._kept[key] for key in keys]
        cliques = list(dict.fromkeys(query.clique for *_, query in missing))
        tables = dict(zip(cliques, self._source.count(cliques), strict=True))
        counts = {clique: table.values.astype(np.int64, copy=False) for clique, table in tables.items()}
        answers = {key: key[-1](counts[key[-1].clique]) for key in missing}
        fresh = {key: bounded(key[-1], counts[key[-1].clique], a, self._row_limit) for key, a in answers.items()}
        cells = self._cells + sum(values.size for values in fresh.values())
        if cells <= MOST_KEPT:
            self._kept.update(fresh)
            self._cells = cells
        return [fresh[key] if key in fresh else self._kept[key] for key in keys]


def largest_entry(row_limit: int) -> int:
    """The largest entry of a query whose answers about so many rows fit."""
    return (1 << ANSWER_BITS) // row_limit


def bounded(query: Query, counts: Integers, answers: Integers, row_limit: int) -> Integers:
    """The answers on `counts`, cut off at `row_limit` times the query's largest entry where there are more rows."""
    # The answers that come in are right but for a multiple of 2^64: integers wrap around.
    # Where the sum of floats is below 2^62 that of integers is exact.
    if counts.sum(dtype=np.float64) < 2.0**ANSWER_BITS and int(counts.sum()) <= row_limit:
        return answers
    bound = int(max(map(abs, entry_range(query)))) * row_limit
    # The answers in floats, which are off by less than 2^62, tell the multiple.
    turns = np.rint((query(counts.astype(np.float64)) - answers) / 2.0**64)
    cut = np.clip(answers, -bound, bound)
    return np.where(turns > 0, bound, np.where(turns < 0, -bound, cut)).astype(np.int64)
