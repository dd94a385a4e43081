"""Membership: which rows are in which cells of many tables."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.factor import Array

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
