"""Row device: the answers of weighted rows on a device of torch, where the whole fit stays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from priory.errors import OptionError
from priory.estimate.row_answers import partition
from priory.model.bases import PublicRows
from priory.model.engine.gpu import Precision, torch_on
from priory.privacy.measurement import Measurement
from priory.queries.query import Query

# Tables that are summed at once.
_CHUNK = 32


class DeviceAnswers:
    """What `RowAnswers` is on the CPU, with tensors for arrays; cells without rows are kept, too.

    Args:
        measurements: what was measured; each answer counts some rows, and each row counts in one.
        rows: the rows.
        total: how many records they stand for.
        device: a device of torch, such as "cuda".
        precision: of the sums; products of long vectors are added up in double precision.
    """

    outside = 0.0

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
        codes = self.torch.as_tensor(rows.codes, device=device).long()
        self.size, self._cells = 0, []
        chunk: list[Any] = []
        for m in measurements:
            chunk.append((self._cells_of(m.query, codes, rows) + self.size).int())
            self.size += m.query.rows
            if len(chunk) == _CHUNK:
                self._cells.append(self.torch.stack(chunk))
                chunk = []
        self._cells += [self.torch.stack(chunk)] if chunk else []
        self.values = self.tensor(np.concatenate([np.ravel(m.values) for m in measurements]))
        self.precision = self.torch.cat(
            [self.tensor(np.broadcast_to(np.float64(m.stddev) ** -2.0, m.query.shape).ravel()) for m in measurements]
        )

    def tensor(self, values: Any) -> Any:  # noqa: ANN401
        """Numbers on the device, in its precision."""
        return self.torch.as_tensor(np.array(values, dtype=np.float64), device=self._device).to(self._kind)

    def predicted(self, shares: Any) -> Any:  # noqa: ANN401
        sums = self.torch.zeros(self.size, dtype=self._kind, device=self._device)
        for cells in self._cells:
            sums.index_add_(0, cells.reshape(-1), shares.repeat(len(cells)))
        return self.total * sums

    def pulled(self, numbers: Any) -> Any:  # noqa: ANN401
        return sum(numbers[cells.reshape(-1)].view(cells.shape).sum(0) for cells in self._cells)

    def dot(self, a: Any, b: Any) -> float:  # noqa: ANN401
        return float(self.torch.dot(a.double(), b.double()))

    def exp(self, a: Any) -> Any:  # noqa: ANN401
        return self.torch.exp(a)

    def _cells_of(self, query: Query, codes: Any, rows: PublicRows) -> Any:  # noqa: ANN401
        targets = partition(query)
        if targets is None:
            raise OptionError("device", f"only counts of cells can be weighted by there; {query.clique} are others")
        cells = self.torch.zeros(len(codes), dtype=self.torch.int64, device=self._device)
        for name, new, size in zip(query.clique, targets, query.shape, strict=True):
            column = codes[:, rows.domain.axis[name]]
            cells = cells * size + (column if new is None else self.torch.as_tensor(new, device=self._device)[column])
        return cells
