"""Row device: the answers of weighted rows on a device of torch, where the whole fit stays.

Adding rows up in their cells one by one would have most of them wait for each other, as many rows are in few cells.
Here the rows of each table are sorted by their cells once; then the sum of a cell is a difference of running sums, and
every call gives the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from priory.errors import OptionError
from priory.estimate.rows.answers import partition
from priory.model.bases import PublicRows
from priory.model.engine.gpu import Precision, torch_on
from priory.privacy.measurement import Measurement
from priory.queries.query import Query

# Rows times tables that are summed at once: each takes a quarter of a gigabyte for a while, and fewer are so quick that
# starting them takes longer.
_PLACES = 1 << 25


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Some tables with the cells that have rows, and rows in the order of their cells."""

    cells: Any  # the number of the cell of each row, one line a table
    rows: Any  # all rows of each table in the order of its cells, one table after the other
    ends: Any  # where the rows of each cell end in these
    kept: Any  # which of the tables' answers have rows


class DeviceAnswers:
    """What `RowAnswers` is on the CPU, with tensors for arrays.

    Args:
        measurements: what was measured; each answer counts some rows, and each row counts in one.
        rows: the rows.
        total: how many records they stand for.
        device: a device of torch, such as "cuda".
        precision: of the numbers of rows and cells; sums of many are in double precision.
    """

    def __init__(
        self,
        measurements: Sequence[Measurement],
        rows: PublicRows,
        total: float,
        *,
        device: str = "cuda",
        precision: Precision = "float64",
    ) -> None:
        self.torch = torch_on(device)
        self.total, self._device, self._kind = total, device, getattr(self.torch, precision)
        self.size, self.outside = sum(m.query.rows for m in measurements), 0.0
        codes = self.torch.as_tensor(rows.codes, device=device).long()
        self._chunks: list[_Chunk] = []
        values, precisions = [], []
        first, tables = 0, max(1, _PLACES // len(codes))
        for start in range(0, len(measurements), tables):
            some = measurements[start : start + tables]
            chunk = self._chunk(
                [self._cells_of(m.query, codes, rows) for m in some], [m.query.rows for m in some], first
            )
            answers, weights = (self.torch.cat([self.tensor(each) for each in found]) for found in _answers(some))
            self.outside += float(self.dot(answers * weights, answers))
            values.append(answers[chunk.kept])
            precisions.append(weights[chunk.kept])
            self.outside -= float(self.dot(values[-1] * precisions[-1], values[-1]))
            self._chunks.append(chunk)
            first += len(chunk.ends)
        self.values, self.precision = self.torch.cat(values), self.torch.cat(precisions)

    def tensor(self, values: Any) -> Any:  # noqa: ANN401
        """Numbers on the device, in its precision."""
        return self.torch.as_tensor(np.array(values, dtype=np.float64), device=self._device).to(self._kind)

    def predicted(self, shares: Any) -> Any:  # noqa: ANN401
        return self.total * self.torch.cat([self._summed(chunk, shares) for chunk in self._chunks])

    def _summed(self, chunk: _Chunk, shares: Any) -> Any:  # noqa: ANN401
        """The sum of the shares of the rows in each cell."""
        running = self.torch.cumsum(shares[chunk.rows], 0, dtype=self.torch.float64)[chunk.ends]
        running[1:] -= running[:-1].clone()
        return running.to(self._kind)

    def pulled(self, numbers: Any) -> Any:  # noqa: ANN401
        return sum(numbers[chunk.cells.view(-1)].view(chunk.cells.shape).sum(0) for chunk in self._chunks)

    def dot(self, a: Any, b: Any) -> Any:  # noqa: ANN401
        # It stays on the device: waiting for each of the dozens that make a direction takes longer than these.
        return self.torch.dot(a.double(), b.double())

    def exp(self, a: Any) -> Any:  # noqa: ANN401
        return self.torch.exp(a)

    def _chunk(self, cells: list[Any], sizes: list[int], first: int) -> _Chunk:
        """Tables whose cells with rows are numbered from `first` on."""
        torch = self.torch
        offsets = np.cumsum([0, *sizes[:-1]])
        every = torch.stack([each + int(offset) for each, offset in zip(cells, offsets, strict=True)])
        ordered, rows = every.sort(dim=1)
        # No two tables share a number, so that a cell ends where the next one has another.
        ordered = ordered.view(-1)
        is_last = torch.ones_like(ordered, dtype=torch.bool)
        is_last[:-1] = ordered[1:] != ordered[:-1]
        ends = is_last.nonzero().view(-1)
        numbers = torch.cumsum(is_last, 0) - is_last.long() + first
        own = torch.empty_like(every).scatter_(1, rows, numbers.view(every.shape))
        return _Chunk(own.int(), rows.view(-1).int(), ends, ordered[ends])

    def _cells_of(self, query: Query, codes: Any, rows: PublicRows) -> Any:  # noqa: ANN401
        targets = partition(query)
        if targets is None:
            raise OptionError("device", f"only counts of cells can be weighted by there; {query.clique} are others")
        cells = self.torch.zeros(len(codes), dtype=self.torch.int64, device=self._device)
        for name, new, size in zip(query.clique, targets, query.shape, strict=True):
            column = codes[:, rows.domain.axis[name]]
            cells = cells * size + (column if new is None else self.torch.as_tensor(new, device=self._device)[column])
        return cells


def _answers(measurements: Sequence[Measurement]) -> Iterator[list[Any]]:
    """The noisy answers to each, and then 1/σ² of them."""
    yield [np.ravel(m.values) for m in measurements]
    yield [np.broadcast_to(np.float64(m.stddev) ** -2.0, m.query.shape).ravel() for m in measurements]
