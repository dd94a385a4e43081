"""Row weights: a distribution over fixed rows, and the rows that are in each cell of each workload query."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.errors import DomainError, OptionError, SizeError
from priory.model.bases import PublicRows
from priory.model.rows import Membership, Places
from priory.model.sampling import Codes
from priory.model.tilted import row_cells
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.parts import Point
from priory.queries.query import Query

# 3 GiB: an index and a 1 for each row in each query.
MOST_CODES = 2**28


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of rows that add up to 1."""

    queries: tuple[Query, ...]  # the workload's marginals
    domain: Domain  # the attributes of the rows
    codes: Codes  # the rows
    members: Membership  # the rows in each cell of each query, one query after the other
    starts: Places  # where each query's cells begin among those of all
    logs: Array  # the logarithm of each row's weight

    @classmethod
    def of(cls, queries: Sequence[Query], rows: PublicRows) -> "RowWeights":
        """The weights that `rows` have."""
        if not all(query.is_marginal for query in queries):
            raise OptionError("workload", "multiplicative weights over rows needs marginals")
        for query in queries:
            if rows.domain.project(rows.domain.checked(query.clique)) != query.domain:
                raise DomainError(f"a query over {query.clique} has sizes unlike the domain's")
        _check_size(len(rows.codes), len(queries))
        starts = np.cumsum([0, *(query.rows for query in queries)])
        tables = ((row_cells(rows.codes, rows.domain, query.clique), query.rows) for query in queries)
        members = Membership.of(tables, len(rows.codes))
        return cls(tuple(queries), rows.domain, rows.codes, members, starts, np.log(rows.shares))

    @property
    def weights(self) -> Array:
        """The weights themselves."""
        return np.asarray(np.exp(self.logs))

    @property
    def cells(self) -> tuple[Places, ...]:
        """For each query, the cell of its table that each row is in."""
        return tuple(row_cells(self.codes, self.domain, query.clique) for query in self.queries)

    @property
    def supported(self) -> NDArray[np.bool_]:
        """For each cell of each query, one query after the other, whether a row is in it."""
        return self.members.supported

    def answers(self, total: float = 1.0) -> list[Array]:
        """What part of `total` is in each cell of each query, in the shape of its table."""
        shares = self.members.sums(total * self.weights)
        spans = zip(self.queries, self.starts, self.starts[1:], strict=False)
        return [shares[begin:end].reshape(query.shape) for query, begin, end in spans]

    def rows_in(self, query: int, cell: int) -> Places:
        """Which rows are in a cell."""
        return self.members.rows_in(int(self.starts[query]) + cell)

    def share(self, rows: Places) -> float:
        """The weight of some rows together."""
        return float(np.exp(self.logs[rows]).sum())

    def public_rows(self, domain: Domain, weights: Array | None = None) -> PublicRows:
        """The rows as a base, with these weights or others."""
        return PublicRows(self.codes, domain, self.weights if weights is None else weights)


def every_cell(domain: Domain, queries: int) -> PublicRows:
    """All cells of the domain alike, as rows."""
    _check_size(domain.size, queries)
    return PublicRows(np.indices(domain.shape).reshape(len(domain), -1).T, domain)


def cell_query(query: Query, cell: int) -> Query:
    """One cell of a marginal as a query of its own."""
    codes = np.unravel_index(cell, query.shape)
    return Query(query.domain, tuple(Point(int(code)) for code in codes))


def _check_size(rows: int, queries: int) -> None:
    if rows * max(queries, 1) > MOST_CODES:
        said = f"{rows:,} rows for {queries:,} queries are more than {MOST_CODES:,} codes"
        hint = "bring public rows, or ask fewer queries"
        raise SizeError(f"{said}: {hint}", cells=rows * queries, limit=MOST_CODES)
