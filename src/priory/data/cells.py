"""Cells: one column's values as they arrive."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Cells:
    """One column of a table.

    Attributes:
        values: the cells, or with `index` the distinct ones; what stands under `null` means nothing.
        null: where cells are missing; None where none can be.
        index: which of `values` each cell is, where values are stored once.
        spelling: how texts spell the values: the format of dates, the words for false and true, the decimal mark; None
            is the usual.
    """

    values: NDArray[Any]
    null: NDArray[np.bool_] | None = None
    index: NDArray[np.integer[Any]] | None = None
    spelling: str | tuple[str, str] | None = None

    @classmethod
    def objects(cls, values: Iterable[object]) -> "Cells":
        """Cells of any Python objects, each read by its own type."""
        return cls(np.fromiter(values, dtype=object))

    def __len__(self) -> int:
        return len(self.values if self.index is None else self.index)


class Unread(Enum):
    """Why a cell has no value."""

    BAD = 1
    MISSING = 2


# A point of the column's line, or why there is none.
Reading: TypeAlias = float | Unread


def is_null(cell: object) -> bool:
    """Whether the cell is None, or a NaN, NA or NaT of any library."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))
