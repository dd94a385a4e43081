"""Row sums: numbers of cells summed over the tables of each row, and shares over the rows of each cell."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from priory.cores import available
from priory.model.engine.cores import together
from priory.model.engine.layout import Layout
from priory.model.sampling import Codes
from priory.model.tilted import row_cells
from priory.queries.factor import Array

# Loading the compiler takes about a second of CPU: sums of fewer rows times cliques are faster without it.
WORTH_COMPILING = 4_000_000
# Tables of up to so many cells have 16-bit cell numbers, which halves what must be read.
_SMALL = 1 << 16
# Cells of each row in some tables, and where these start.
_Group = tuple[NDArray[Any], NDArray[np.int64]]
Cells = NDArray[np.integer]


class RowSums(Protocol):
    """Sums between rows and the cells of tables, one table after the other."""

    def over_tables(self, numbers: Array) -> Array:
        """For each row, the numbers of the cells that it is in together."""

    def over_cells(self, shares: Array) -> Array:
        """For each cell of each table, the shares of the rows in it together."""


class CompiledSums:
    """The sums by compiled loops on every core; the cell of each row in each table is kept as a short number.

    Args:
        tables: the cell that each row is in, for each table.
        sizes: how many cells each table has.
        rows: how many rows there are.
    """

    def __init__(self, tables: Iterable[Cells], sizes: Sequence[int], rows: int) -> None:
        self._rows, self._size = rows, sum(sizes)
        offsets = [0, *itertools.accumulate(sizes)]
        members = {kind: [i for i, size in enumerate(sizes) if _kind(size) is kind] for kind in (np.uint16, np.uint32)}
        self._groups: list[_Group] = [
            (np.empty((len(numbers), rows), dtype=kind), np.array([offsets[i] for i in numbers], dtype=np.int64))
            for kind, numbers in members.items()
        ]
        places = {i: (group, place) for group, part in enumerate(members.values()) for place, i in enumerate(part)}
        for i, cells in enumerate(tables):
            group, place = places[i]
            self._groups[group][0][place] = cells

    def over_tables(self, numbers: Array) -> Array:
        from priory.model.row_kernels import gather

        sums = np.zeros(self._rows, dtype=numbers.dtype)
        for cells, offsets in self._groups:
            _split(self._rows, partial(gather, cells, offsets, numbers), sums)
        return sums

    def over_cells(self, shares: Array) -> Array:
        from priory.model.row_kernels import scatter

        sums = np.zeros(self._size, dtype=shares.dtype)
        for cells, offsets in self._groups:
            _split(len(offsets), partial(scatter, cells, offsets, shares), sums)
        return sums


def _split(count: int, work: Callable[[tuple[int, int], Array], None], sums: Array) -> None:
    """Do a piece of the work on each core; no two pieces write to the same place."""
    edges = np.linspace(0, count, min(available(), max(count, 1)) + 1).astype(int).tolist()
    together([partial(work, span, sums) for span in itertools.pairwise(edges)])


class PlainSums:
    """The sums by NumPy, table by table."""

    def __init__(self, tables: Iterable[Cells], sizes: Sequence[int], rows: int) -> None:
        self._sizes, self._rows = list(sizes), rows
        self._tables = [cells.astype(_kind(size)) for cells, size in zip(tables, sizes, strict=True)]

    def over_tables(self, numbers: Array) -> Array:
        sums = np.zeros(self._rows, dtype=numbers.dtype)
        for cells, table in zip(self._tables, np.split(numbers, np.cumsum(self._sizes)[:-1]), strict=True):
            sums += table[cells]
        return sums

    def over_cells(self, shares: Array) -> Array:
        tables = zip(self._tables, self._sizes, strict=True)
        return np.concatenate([np.bincount(cells, shares, size) for cells, size in tables]).astype(shares.dtype)


def _kind(size: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if size <= _SMALL else np.uint32


def row_sums(tables: Iterable[Cells], sizes: Sequence[int], rows: int) -> RowSums:
    """Compiled sums where numba is installed and they pay, others else."""
    return (CompiledSums if _is_worth_compiling(sizes, rows) else PlainSums)(tables, sizes, rows)


def compiled_sums(layout: Layout, codes: Codes) -> CompiledSums | None:
    """Compiled sums over the tables of cliques, where numba is installed and they pay."""
    if not _is_worth_compiling(layout.sizes, len(codes)):
        return None
    tables = (row_cells(codes, layout.domain, clique) for clique in layout.cliques)
    return CompiledSums(tables, layout.sizes, len(codes))


def _is_worth_compiling(sizes: Sequence[int], rows: int) -> bool:
    is_short = max(sizes, default=0) <= np.iinfo(np.uint32).max
    return rows * len(sizes) >= WORTH_COMPILING and is_short and find_spec("numba") is not None
