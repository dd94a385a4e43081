"""Reading: the exact rule by which a column reads its cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells, Reading, Unread, is_null
from priory.data.kinds import ModelledColumn


@dataclass(frozen=True, eq=False)
class Readings:
    """What the cells of a column say to its schema.

    Attributes:
        values: the place of a level or boolean; the number; the moment. Zero where there is none.
        bad: cells of the wrong type, or without a level.
        missing: cells that are null.
    """

    values: NDArray[Any]
    bad: NDArray[np.bool_]
    missing: NDArray[np.bool_]

    def take(self, index: NDArray[np.integer[Any]]) -> "Readings":
        """The readings of cells that are stored once."""
        return Readings(self.values[index], self.bad[index], self.missing[index])


def read_cells(column: ModelledColumn, cells: Cells) -> Readings:
    """Read a whole column; never raises because of a value."""
    values, index = cells.values, cells.index
    if values.dtype.kind in "OUT":
        values, distinct_index = _distinct(values.astype(object))
        index = distinct_index if index is None else distinct_index[index]
        readings = _gather(column, [read_cell(column, cell) for cell in values])
    else:
        readings = _read_array(column, values)
    if index is not None:
        readings = readings.take(index)
    if cells.null is None:
        return readings
    return Readings(readings.values, readings.bad & ~cells.null, readings.missing | cells.null)


def read_cell(column: ModelledColumn, cell: object) -> Reading:
    """Read one Python object by its exact type and value; what cannot be read is bad, whatever it is."""
    try:
        if is_null(cell):
            return Unread.MISSING
        if isinstance(cell, str):
            return Unread.MISSING if cell in column.nulls else column.read_text(str(cell))
        return column.read_typed(cell)
    except Exception:  # noqa: BLE001 - a cell's own code may raise anything, and no row may ever raise
        return Unread.BAD


def _distinct(cells: NDArray[np.object_]) -> tuple[NDArray[np.object_], NDArray[np.intp]]:
    """Each text once, every other object as often as it occurs (it may not be hashable), and where each cell is."""
    distinct: list[object] = []

    class Places(dict[object, int]):
        def __missing__(self, cell: object) -> int:
            distinct.append(cell)
            self[cell] = len(distinct) - 1
            return len(distinct) - 1

    def alone(cell: object) -> int:
        distinct.append(cell)
        return len(distinct) - 1

    places = Places()
    index = np.fromiter(
        (places[cell] if type(cell) is str or cell is None else alone(cell) for cell in cells), np.intp, len(cells)
    )
    return np.fromiter(distinct, dtype=object, count=len(distinct)), index


def _gather(column: ModelledColumn, readings: list[Reading]) -> Readings:
    values = [0 if isinstance(reading, Unread) else reading for reading in readings]
    return Readings(
        np.array(values, dtype=column.READING_TYPE),
        np.array([reading is Unread.BAD for reading in readings], dtype=bool),
        np.array([reading is Unread.MISSING for reading in readings], dtype=bool),
    )


def _read_array(column: ModelledColumn, values: NDArray[Any]) -> Readings:
    """Read a NumPy array of numbers, booleans or datetimes at once."""
    kind = values.dtype.kind
    if kind == "f" and values.dtype.itemsize > 8:
        # A warning that a wide float becomes infinite would tell of a value.
        with np.errstate(over="ignore"):
            values = values.astype(np.float64)
    missing = np.isnan(values) if kind in "fmM" else np.zeros(len(values), dtype=bool)
    read = column.read_array(values)
    if read is None:
        return Readings(np.zeros(len(values), dtype=column.READING_TYPE), ~missing, missing)
    points, good = read[0], read[1] & ~missing
    return Readings(np.where(good, points, 0), ~good & ~missing, missing)
