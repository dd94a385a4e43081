"""Row answers: the answers of weighted rows to measured queries, and what numbers of answers add up to for each row.

Only cells with rows in them are kept: whatever the weights, others are empty. A table of a million cells is then no
larger than the rows are many.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from priory.estimate.products import dot
from priory.model.bases import PublicRows
from priory.model.row_sums import RowSums, row_sums
from priory.model.sampling import Codes
from priory.model.tilted import row_cells
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array, cell_codes
from priory.queries.parts import Identity, Recode, Total
from priory.queries.query import Query


class Answers(Protocol):
    """What weights of rows are fitted to. Arrays are NumPy's, or tensors on a device."""

    @property
    def values(self) -> Any:  # noqa: ANN401
        """The noisy answers that weights can change."""

    @property
    def precision(self) -> Any:  # noqa: ANN401
        """1/σ² of each of these."""

    @property
    def total(self) -> float:
        """How many records the rows stand for."""

    @property
    def size(self) -> int:
        """How many answers there are, with those that no weights change."""

    @property
    def outside(self) -> float:
        """Σ(y/σ)² of those that no weights change."""

    def tensor(self, values: Any) -> Any:  # noqa: ANN401
        """Numbers as arrays are here."""

    def predicted(self, shares: Any) -> Any:  # noqa: ANN401
        """The answers of rows with these shares, as counts."""

    def pulled(self, numbers: Any) -> Any:  # noqa: ANN401
        """For each row, what numbers of all answers that it counts in add up to."""

    def dot(self, a: Any, b: Any) -> Any:  # noqa: ANN401
        """Σ aᵢ bᵢ, a number or a tensor of one."""

    def exp(self, a: Any) -> Any:  # noqa: ANN401
        """The exponential of each number."""


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """Answers on the CPU."""

    values: Array
    precision: Array
    total: float
    size: int
    outside: float
    _sums: RowSums
    # What is asked of the table of each query, and where it lies; nothing where all are counts of cells.
    _operators: tuple[tuple[Query | None, slice], ...] = ()

    @classmethod
    def of(cls, measurements: Sequence[Measurement], rows: PublicRows, total: float) -> "RowAnswers":
        """The answers of these rows to what was measured."""
        tables = [_Table.of(m, rows) for m in measurements]
        sizes = [table.size for table in tables]
        ends = np.cumsum([0, *sizes]).tolist()
        spans = [slice(*span) for span in itertools.pairwise(ends)]
        operators = tuple((table.operator, span) for table, span in zip(tables, spans, strict=True))
        return cls(
            np.concatenate([table.values for table in tables]),
            np.concatenate([table.precision for table in tables]),
            total,
            sum(m.query.rows for m in measurements),
            sum(table.outside for table in tables),
            row_sums((table.cells for table in tables), sizes, len(rows.codes)),
            operators if any(query for query, _ in operators) else (),
        )

    def tensor(self, values: Array) -> Array:
        return values

    def predicted(self, shares: Array) -> Array:
        tables = self._sums.over_cells(shares)
        tables *= self.total
        if not self._operators:
            return tables
        return np.concatenate([_asked(query, tables[span]) for query, span in self._operators])

    def pulled(self, numbers: Array) -> Array:
        if self._operators:
            numbers = np.concatenate(list(_spread(self._operators, numbers)))
        return self._sums.over_tables(numbers)

    def dot(self, a: Array, b: Array) -> float:
        return dot(a, b)

    def exp(self, a: Array) -> Array:
        return np.exp(a)


@dataclass(frozen=True, eq=False)
class _Table:
    """One measurement, and the cells of a table that it is about."""

    cells: NDArray[np.integer]  # the cell that each row is in
    size: int  # how many cells there are
    values: Array  # the answers that rows can change
    precision: Array  # 1/σ² of these
    outside: float = 0.0  # Σ(y/σ)² of the others
    operator: Query | None = None  # what is asked of the table; None where the answers are its cells

    @classmethod
    def of(cls, measurement: Measurement, rows: PublicRows) -> "_Table":
        query = measurement.query
        values = np.asarray(measurement.values, dtype=np.float64).reshape(-1)
        precision = np.broadcast_to(np.asarray(measurement.stddev, dtype=np.float64) ** -2.0, query.shape).reshape(-1)
        cells = cells_of(query, rows.codes, rows.domain)
        if cells is None:
            every = row_cells(rows.codes, rows.domain, query.clique)
            return cls(every, query.domain.size, values, precision, operator=query)
        is_kept = np.bincount(cells, minlength=len(values)) > 0
        numbers = np.cumsum(is_kept) - 1
        # Short numbers at once: a hundred tables of long ones would take a gigabyte.
        numbers = np.maximum(numbers, 0).astype(np.min_scalar_type(numbers[-1]))
        outside = float(np.sum(values[~is_kept] ** 2 * precision[~is_kept]))
        return cls(numbers[cells], int(numbers[-1]) + 1, values[is_kept], precision[is_kept], outside)


def cells_of(query: Query, codes: Codes, domain: Domain) -> NDArray[np.int64] | None:
    """The answer that counts each row, where exactly one does; None where a row can count in several, or in none."""
    targets = partition(query)
    if targets is None:
        return None
    columns = (codes[:, domain.axis[name]] for name in query.clique)
    axes = [column if new is None else new[column] for column, new in zip(columns, targets, strict=True)]
    return cell_codes(axes, query.shape) if axes else np.zeros(len(codes), dtype=np.int64)


def partition(query: Query) -> list[NDArray[np.int64] | None] | None:
    """Which answer each value goes to, of each attribute, None where each to its own; None where that is not so."""
    targets: list[NDArray[np.int64] | None] = []
    for part, size in zip(query.parts, query.domain.shape, strict=True):
        if isinstance(part, Recode):
            targets.append(np.array(part.targets, dtype=np.int64))
        elif isinstance(part, Total):
            targets.append(np.zeros(size, dtype=np.int64))
        elif isinstance(part, Identity):
            targets.append(None)
        else:
            return None
    return targets


def _asked(query: Query | None, table: Array) -> Array:
    if query is None:
        return table
    return np.asarray(query(table.reshape(query.domain.shape)), dtype=np.float64).reshape(-1)


def _spread(operators: Iterable[tuple[Query | None, slice]], numbers: Array) -> Iterable[Array]:
    """What numbers of answers are for the cells that these are sums of."""
    start = 0
    for query, span in operators:
        count = span.stop - span.start if query is None else query.rows
        part = numbers[start : start + count]
        start += count
        yield part if query is None else np.asarray(query.adjoint(part.reshape(query.shape))).reshape(-1)
