"""Rows: the oracle of weighted rows, whose marginals are sums over the rows that are in each cell."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.model.engine.layout import Layout
from priory.model.row_sums import compiled_sums
from priory.model.sampling import Chance, Codes, drawn_alike
from priory.model.tilted import Potentials, Tilted, row_cells, softmax
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Membership:
    """A sparse matrix with a line for each cell of each table, one table after the other, and ones for the rows in it.

    Sums go over the rows of each cell, which is twice as fast as over the cells of each row.
    """

    matrix: Any  # that matrix, of SciPy

    @classmethod
    def of(cls, tables: Iterable[tuple[Places, int]], rows: int) -> "Membership":
        """For each table the cell that each row is in, and how many cells there are."""
        from scipy.sparse import csr_array

        kind = np.int32 if rows <= np.iinfo(np.int32).max else np.int64
        indices, counts = [np.zeros(0, dtype=kind)], [np.zeros(1, dtype=np.intp)]
        for cells, size in tables:
            # NumPy sorts 16-bit keys in linear time.
            keys = cells.astype(np.uint16) if size <= 1 << 16 else cells
            indices.append(np.argsort(keys, kind="stable").astype(kind))
            counts.append(np.bincount(cells, minlength=size))
        ends, every = np.cumsum(np.concatenate(counts)), np.concatenate(indices)
        if len(every) <= np.iinfo(np.int32).max:
            ends = ends.astype(kind)
        return cls(csr_array((np.ones(len(every)), every, ends), shape=(len(ends) - 1, rows)))

    @property
    def supported(self) -> NDArray[np.bool_]:
        """For each cell, whether a row is in it."""
        return np.asarray(np.diff(self.matrix.indptr) > 0)

    def sums(self, weights: Array) -> Array:
        """For each cell, the weight of the rows in it."""
        return np.asarray(self.matrix @ weights)

    def rows_in(self, cell: int) -> Places:
        """Which rows are in a cell, in their order."""
        begin, end = self.matrix.indptr[cell : cell + 2]
        return np.asarray(self.matrix.indices[begin:end], dtype=np.intp)


# With more places, rows times cliques, sums are taken clique by clique: a matrix of them would take gigabytes.
_PLACES = 1 << 24


class RowsOracle:
    """Potentials in, log Z and marginals of weighted rows out."""

    def __init__(self, layout: Layout, codes: Codes, log_shares: Array) -> None:
        self.layout = layout
        self.rows = len(codes)
        self._log_shares = log_shares
        self._is_large = len(codes) * len(layout.cliques) > _PLACES
        self._compiled = compiled_sums(layout, codes)
        cells = (row_cells(codes, layout.domain, clique) for clique in layout.cliques if self._compiled is None)
        # Cells are looked up as long integers; as short ones they take a quarter of the memory.
        self._cells = [each.astype(np.min_scalar_type(each.max())) if self._is_large else each for each in cells]

    def __call__(self, theta: Array) -> tuple[float, Array]:
        log_z, shares = self.shares(theta)
        return log_z, self._sums(shares)

    def _sums(self, shares: Array) -> Array:
        if self._compiled is not None:
            return self._compiled.over_cells(shares)
        if not self._is_large:
            return self._members.sums(shares)
        tables = zip(self._cells, self.layout.sizes, strict=True)
        return np.concatenate([np.bincount(cells, shares, size) for cells, size in tables])

    @cached_property
    def _members(self) -> Membership:
        return Membership.of(zip(self._cells, self.layout.sizes, strict=True), len(self._log_shares))

    def shares(self, theta: Array) -> tuple[float, Array]:
        """log Z and each row's share of the tilted mass."""
        return softmax(self.logs(theta))

    def logs(self, theta: Array) -> Array:
        """The logarithm of each row's tilted share, but for a constant."""
        if self._compiled is not None:
            return self._log_shares + self._compiled.over_tables(theta)
        logs = self._log_shares.copy()
        for cells, span in zip(self._cells, self.layout.spans, strict=True):
            logs += theta[span].take(cells)
        return logs


@dataclass(frozen=True, eq=False)
class RowsTilted(Tilted):
    """Weighted rows, tilted."""

    domain: Domain
    codes: Codes
    shares: Array

    @classmethod
    def of(cls, layout: Layout, codes: Codes, log_shares: Array, potentials: Potentials) -> "RowsTilted":
        """Tilt rows by potentials on the cliques of `layout`."""
        log_z, shares = RowsOracle(layout, codes, log_shares).shares(layout.pack(potentials))
        return cls(log_z, layout.domain, codes, shares)

    def project(self, clique: Clique) -> Array:
        cells = row_cells(self.codes, self.domain, clique)
        sums = np.bincount(cells, weights=self.shares, minlength=self.domain.size_of(clique))
        return np.asarray(sums.reshape(self.domain.project(clique).shape), dtype=np.float64)

    def answers(self, queries: Sequence[Query]) -> list[Array]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query) -> Array:
        if query.domain.size <= query.rows * len(self.codes):
            return np.asarray(query(self.project(query.clique)), dtype=np.float64)
        # The marginal is larger than what the rows touch: weigh each row by its own entries of the parts.
        values = self.shares[None, :]
        for name, part in zip(query.clique, query.parts, strict=True):
            entries = part.matrix(self.domain[name])[:, self.codes[:, self.domain.axis[name]]]
            values = (values[:, None, :] * entries[None, :, :]).reshape(-1, len(self.codes))
        return np.asarray(values.sum(axis=1).reshape(query.shape))

    def sample(self, n: int, chance: Chance) -> Codes:
        return self.codes[drawn_alike(self.shares, n, chance)]

    def log_mass(self, codes: Codes) -> Array:
        known = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(self.codes))}
        numbers = [known.get(row.tobytes(), -1) for row in np.ascontiguousarray(codes)]
        with np.errstate(divide="ignore"):
            logs = np.append(np.log(self.shares), -np.inf)
        return np.asarray(logs[np.array(numbers, dtype=np.int64)])

    def entropy(self) -> float:
        positive = self.shares[self.shares > 0]
        return float(-(positive * np.log(positive)).sum())
