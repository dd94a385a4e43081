"""Row weights: a distribution over fixed rows, and the cell of each workload query that each row is in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from priory.domain import Domain
from priory.errors import DomainError, OptionError, SizeError
from priory.factor import Array
from priory.model.bases import PublicRows
from priory.model.sampling import Codes
from priory.model.tilted import cell_codes
from priory.queries.parts import Point
from priory.queries.query import Query

# 2 GiB of cell codes.
MOST_CODES = 2**28

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of rows that add up to 1.

    Attributes:
        queries: the workload's marginals.
        codes: the rows.
        cells: for each query, the cell of its table that each row is in.
        supported: for each cell of each query, one query after the other, whether a row is in it.
        starts: where each query's cells begin among those of all.
        logs: the logarithm of each row's weight.
    """

    queries: tuple[Query, ...]
    codes: Codes
    cells: tuple[Places, ...]
    supported: NDArray[np.bool_]
    starts: Places
    logs: Array

    @classmethod
    def of(cls, queries: Sequence[Query], rows: PublicRows) -> "RowWeights":
        """The weights that `rows` have.

        Raises:
            OptionError: a query is not a marginal.
            SizeError: there are too many rows for so many queries.
        """
        if not all(query.is_marginal for query in queries):
            raise OptionError("workload", "multiplicative weights over rows needs marginals")
        for query in queries:
            if rows.domain.project(rows.domain.checked(query.clique)) != query.domain:
                raise DomainError(f"a query over {query.clique} has sizes unlike the domain's")
        _check_size(len(rows.codes), len(queries))
        cells = tuple(cell_codes(rows.codes, rows.domain, query.clique) for query in queries)
        return cls(tuple(queries), rows.codes, cells, _supported(queries, cells), _starts(queries), np.log(rows.shares))

    @property
    def weights(self) -> Array:
        """The weights themselves."""
        return np.asarray(np.exp(self.logs))

    def answers(self, total: float = 1.0) -> list[Array]:
        """What part of `total` is in each cell of each query, in the shape of its table."""
        weights = total * self.weights
        return [
            np.asarray(np.bincount(cells, weights=weights, minlength=query.rows), dtype=np.float64).reshape(query.shape)
            for query, cells in zip(self.queries, self.cells, strict=True)
        ]

    def rows_in(self, query: int, cell: int) -> Places:
        """Which rows are in a cell."""
        return np.flatnonzero(self.cells[query] == cell)

    def share(self, rows: Places) -> float:
        """The weight of some rows together."""
        return float(np.exp(self.logs[rows]).sum())

    def stepped(self, rows: Places, step: float) -> "RowWeights":
        """The weights of `rows` times e^step, all divided by their new sum. Steps are small: nothing overflows."""
        logs = self.logs.copy()
        logs[rows] += step
        return replace(self, logs=logs - math.log(float(np.exp(logs).sum())))

    def public_rows(self, domain: Domain, weights: Array | None = None) -> PublicRows:
        """The rows as a base, with these weights or others."""
        return PublicRows(self.codes, domain, self.weights if weights is None else weights)


def _supported(queries: Sequence[Query], cells: Sequence[Places]) -> NDArray[np.bool_]:
    masks = [np.zeros(query.rows, dtype=bool) for query in queries]
    for mask, places in zip(masks, cells, strict=True):
        mask[places] = True
    return np.concatenate(masks)


def _starts(queries: Sequence[Query]) -> Places:
    return np.cumsum([0, *(query.rows for query in queries)])


def every_cell(domain: Domain, queries: int) -> PublicRows:
    """All cells of the domain alike, as rows.

    Raises:
        SizeError: there are too many.
    """
    _check_size(domain.size, queries)
    return PublicRows(np.indices(domain.shape).reshape(len(domain), -1).T, domain)


def cell_query(query: Query, cell: int) -> Query:
    """One cell of a marginal as a query of its own."""
    codes = np.unravel_index(cell, query.shape)
    return Query(query.domain, tuple(Point(int(code)) for code in codes))


def _check_size(rows: int, queries: int) -> None:
    if rows * max(queries, 1) > MOST_CODES:
        raise SizeError(
            f"{rows:,} rows for {queries:,} queries are more than {MOST_CODES:,} codes: "
            "bring public rows, or ask fewer queries",
            cells=rows * queries,
            limit=MOST_CODES,
        )
